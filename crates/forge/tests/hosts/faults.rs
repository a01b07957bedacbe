//! Faults of a code host: before and after the effect, closed connections, rate limits.

use http::Method;
use journeyman_core::conversation::CommentTarget;
use journeyman_core::open_pull::Ensured;
use journeyman_core::ports::ForgeError;
use journeyman_testkit::code_host::{Fault, Product, State};

use super::fixtures::{Fixture, PATH, PRODUCTS, discussion};

/// Returns a part of the target of the request that opens a pull request.
const fn opening(product: Product) -> &'static str {
    match product {
        Product::Gitlab => "/merge_requests",
        Product::Bitbucket => "/pullrequests",
        Product::BitbucketDataCenter => "/pull-requests",
        Product::Github | Product::Gitea | Product::Forgejo => "/pulls",
    }
}

#[tokio::test]
async fn a_pull_request_whose_answer_was_lost_is_found() {
    for product in PRODUCTS {
        for fault in [Fault::FailsAfter, Fault::ClosesAfter] {
            let fixture = Fixture::new(product).await;
            let head = fixture.branch("work").await;
            fixture.server.fault(fault, Method::POST, opening(product), 1);
            let ensured = fixture.ensure("work", &head).await.unwrap();
            assert!(matches!(ensured, Ensured::Opened { .. }), "{product:?} {fault:?}: {ensured:?}");
            assert_eq!(fixture.server.state().by_path(PATH).unwrap().pulls.len(), 1, "{product:?} {fault:?}");
        }
    }
}

#[tokio::test]
async fn a_pull_request_that_was_not_opened_is_not_opened_twice() {
    for product in PRODUCTS {
        for fault in [Fault::FailsBefore, Fault::ClosesBefore] {
            let fixture = Fixture::new(product).await;
            let head = fixture.branch("work").await;
            fixture.server.fault(fault, Method::POST, opening(product), 1);
            let error = fixture.ensure("work", &head).await.unwrap_err();
            assert!(matches!(error, ForgeError::Unclear(_)), "{product:?} {fault:?}: {error}");
            let posts = |fixture: &Fixture| {
                let is_opening = |call: &&journeyman_testkit::code_host::ApiRequest| {
                    call.method == Method::POST && call.target.contains(opening(product))
                };
                fixture.server.requests().iter().filter(is_opening).count()
            };
            assert_eq!(posts(&fixture), 1, "{product:?}: a POST is not repeated");
            // Its effect may still appear, so no one opens another one for a while.
            assert_eq!(fixture.ensure("work", &head).await.unwrap(), Ensured::Locked, "{product:?} {fault:?}");
            fixture.world.advance(std::time::Duration::from_secs(60));
            let ensured = fixture.ensure("work", &head).await.unwrap();
            assert!(matches!(ensured, Ensured::Opened { .. }), "{product:?} {fault:?}: {ensured:?}");
        }
    }
}

#[tokio::test]
async fn a_read_is_repeated_after_a_failure() {
    for product in PRODUCTS {
        for fault in [Fault::FailsBefore, Fault::ClosesBefore] {
            let fixture = Fixture::new(product).await;
            fixture.server.fault(fault, Method::GET, "acme", 1);
            fixture.forge().await.repository().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_rate_limit_of_an_operation_stops_only_that_operation() {
    for product in PRODUCTS {
        let fixture = Fixture::new(product).await;
        let forge = fixture.forge().await;
        forge.repository().await.unwrap();
        fixture.server.fault(Fault::RateLimited(30), Method::GET, "", 1);
        let error = forge.pull(1).await.unwrap_err();
        assert_eq!(error, ForgeError::RateLimited(std::time::Duration::from_secs(30)), "{product:?}");
        let before = fixture.server.requests().len();
        assert!(matches!(forge.pull(1).await, Err(ForgeError::RateLimited(_))), "{product:?}");
        assert_eq!(fixture.server.requests().len(), before, "{product:?}: nothing is sent meanwhile");
        forge.find_pulls("work").await.unwrap();
        assert!(fixture.server.requests().len() > before, "{product:?}: other operations go on");
        fixture.world.advance(std::time::Duration::from_secs(31));
        assert_eq!(forge.pull(1).await, Ok(None), "{product:?}");
    }
}

#[tokio::test]
async fn a_rate_limit_that_says_no_time_lasts_a_minute() {
    let fixture = Fixture::new(Product::Github).await;
    let forge = fixture.forge().await;
    fixture.server.fault(Fault::RateLimitedSilently, Method::GET, "", 1);
    let error = forge.repository().await.unwrap_err();
    assert_eq!(error, ForgeError::RateLimited(std::time::Duration::from_secs(60)));
}

#[tokio::test]
async fn a_comment_whose_answer_was_lost_is_not_written_again() {
    for product in PRODUCTS {
        let fixture = Fixture::new(product).await;
        let head = fixture.branch("work").await;
        let Ensured::Opened { pull, .. } = fixture.ensure("work", &head).await.unwrap() else { panic!("not opened") };
        let part = if product == Product::Gitlab { "/notes" } else { "/comments" };
        fixture.server.fault(Fault::FailsAfter, Method::POST, part, 1);
        let forge = fixture.forge().await;
        discussion(&*forge).comment(CommentTarget::Pull(pull.number), "<!-- m -->", "Done.").await.unwrap();
        let comments = fixture.server.state().by_path(PATH).unwrap().comments.clone();
        assert_eq!(comments.iter().filter(|one| one.author == State::BOT).count(), 1, "{product:?}");
    }
}

#[tokio::test]
async fn no_error_and_no_url_has_the_token() {
    for product in PRODUCTS {
        let fixture = Fixture::new(product).await;
        fixture.server.fault(Fault::Unauthorized, Method::GET, "", 5);
        let error = fixture.forge().await.repository().await.unwrap_err();
        assert!(matches!(error, ForgeError::Credential(_)) && !error.to_string().contains(State::TOKEN), "{error}");
        assert!(fixture.server.requests().iter().all(|call| !call.target.contains(State::TOKEN)), "{product:?}");
    }
}
