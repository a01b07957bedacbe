//! The interfaces of the products.

use super::exchange::{ApiRequest, Product, Reply};
use super::state::State;
use super::{bitbucket, bitbucket_data_center, gitea, github, gitlab};

/// Answers a request as a product does.
pub(super) fn answer(product: Product, state: &mut State, call: &ApiRequest) -> Reply {
    match product {
        Product::Github => github::answer(state, call),
        Product::Gitlab => gitlab::answer(state, call),
        Product::Gitea => gitea::answer(state, call, false),
        Product::Forgejo => gitea::answer(state, call, true),
        Product::Bitbucket => bitbucket::answer(state, call),
        Product::BitbucketDataCenter => bitbucket_data_center::answer(state, call),
    }
}
