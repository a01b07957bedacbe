//! The body of a request that writes a review.

use journeyman_core::conversation::{NewReview, ReviewComment};
use serde_json::{Value, json};

/// Returns the body of `POST /repos/{owner}/{repo}/pulls/{index}/reviews`: a comment, which approves nothing.
pub(super) fn body(review: &NewReview) -> Value {
    let comments: Vec<Value> = review.comments.iter().map(comment).collect();
    json!({"commit_id": review.commit.as_str(), "body": review.text, "event": "COMMENT", "comments": comments})
}

/// A comment is on a single line, so that its text names the others.
fn comment(comment: &ReviewComment) -> Value {
    let body = match comment.first {
        Some(_) => format!("{}:\n\n{}", comment.lines(), comment.body),
        None => comment.body.clone(),
    };
    let (new, old) = match comment.last.new {
        Some(new) => (new, 0),
        None => (0, comment.last.old.unwrap_or_default()),
    };
    json!({"path": comment.path, "body": body, "new_position": new, "old_position": old})
}
