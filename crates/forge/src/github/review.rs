//! The body of a request that writes a review.

use journeyman_core::conversation::{DiffLine, NewReview, ReviewComment};
use serde_json::{Value, json};

/// Returns the body of `POST /repos/{owner}/{repo}/pulls/{number}/reviews`: a comment, which approves nothing.
pub(super) fn body(review: &NewReview) -> Value {
    let comments: Vec<Value> = review.comments.iter().map(comment).collect();
    json!({"commit_id": review.commit.as_str(), "body": review.text, "event": "COMMENT", "comments": comments})
}

fn comment(comment: &ReviewComment) -> Value {
    let (line, side) = numbered(comment.last);
    let mut body = json!({"path": comment.path, "body": comment.body, "line": line, "side": side});
    if let Some(first) = comment.first {
        let (line, side) = numbered(first);
        (body["start_line"], body["start_side"]) = (line.into(), side.into());
    }
    body
}

/// Returns the number and the side of a line. GitHub has lines of both versions on the right side.
fn numbered(line: DiffLine) -> (u64, &'static str) {
    match line {
        DiffLine { new: Some(new), .. } => (new, "RIGHT"),
        DiffLine { old, .. } => (old.unwrap_or_default(), "LEFT"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_on_their_side() {
        let line = |old, new| DiffLine { old, new };
        for (first, last, expected) in [
            (None, line(None, Some(4)), json!({"line": 4, "side": "RIGHT"})),
            (None, line(Some(2), None), json!({"line": 2, "side": "LEFT"})),
            (
                Some(line(Some(2), None)),
                line(Some(3), Some(4)),
                json!({"line": 4, "side": "RIGHT", "start_line": 2, "start_side": "LEFT"}),
            ),
        ] {
            let (path, old_path, text) = ("src/a.rs".to_owned(), "src/a.rs".to_owned(), "No.".to_owned());
            let mut body = comment(&ReviewComment { path, old_path, first, last, body: text });
            let fields = body.as_object_mut().unwrap();
            assert_eq!((fields.remove("path"), fields.remove("body")), (Some("src/a.rs".into()), Some("No.".into())));
            assert_eq!(body, expected);
        }
    }
}
