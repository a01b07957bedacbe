//! Writes reviews, so that a repeated attempt writes only what is missing.

use journeyman_core::code_host::HostRepository;
use journeyman_core::conversation::{CommentTarget, NewReview, ReviewComment};
use journeyman_core::hook::HostReview;
use journeyman_core::ports::{Discussion as _, ForgeError};

use super::HostedRepository;

/// Writes a review: in one request if the host has reviews, otherwise each comment on lines by itself, and then its text.
/// Comments on lines that the host refuses stand in the text.
pub(super) async fn write(
    at: &HostedRepository,
    repository: &HostRepository,
    pull: u64,
    review: &NewReview,
) -> Result<String, ForgeError> {
    match at.host.kind.reports_reviews() {
        true => at_once(at, repository, pull, review).await,
        false => one_by_one(at, repository, pull, review).await,
    }
}

async fn at_once(
    at: &HostedRepository,
    repository: &HostRepository,
    pull: u64,
    review: &NewReview,
) -> Result<String, ForgeError> {
    let me = at.me().await?;
    let find = || async {
        let is_it = |one: &HostReview| one.author.id == me.id && one.body.contains(&review.marker);
        let reviews = at.api.reviews(repository, pull).await?;
        Ok::<_, ForgeError>(reviews.into_iter().find(is_it).map(|one| one.url))
    };
    if let Some(url) = find().await? {
        return Ok(url);
    }
    let marked = |text: String| format!("{text}\n\n{}", review.marker);
    let new = NewReview { text: marked(review.text.clone()), ..review.clone() };
    let written = match at.api.add_review(repository, pull, &new).await {
        // The host refuses all of it because of one comment, such as one on a line that a push has changed meanwhile.
        Err(ForgeError::Refused(_)) if !review.comments.is_empty() => {
            let new = NewReview { text: marked(review.whole_text()), comments: Vec::new(), ..review.clone() };
            at.api.add_review(repository, pull, &new).await
        }
        written => written,
    };
    match written {
        Ok(Some(url)) => Ok(url),
        Ok(None) => at.comment(CommentTarget::Pull(pull), &review.marker, &review.whole_text()).await,
        // The answer may have been lost.
        Err(error @ ForgeError::Unclear(_)) => find().await?.ok_or(error),
        Err(error) => Err(error),
    }
}

async fn one_by_one(
    at: &HostedRepository,
    repository: &HostRepository,
    pull: u64,
    review: &NewReview,
) -> Result<String, ForgeError> {
    let (me, target) = (at.me().await?, CommentTarget::Pull(pull));
    let written = at.api.comments(repository, target).await?;
    let mut others = Vec::new();
    for (index, comment) in review.comments.iter().enumerate() {
        let marker = ReviewComment::marker(&review.marker, index);
        if written.iter().any(|one| one.author == me.id && one.body.contains(&marker)) {
            continue;
        }
        let text = format!("{}\n\n{marker}", comment.body);
        match at.api.add_line_comment(repository, pull, (&review.commit, comment), &text).await {
            Err(ForgeError::Refused(_)) => others.push(comment),
            added => added?,
        }
    }
    at.comment(target, &review.marker, &review.text_with(&others)).await
}
