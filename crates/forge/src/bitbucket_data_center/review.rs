//! Comments on lines of a pull request.

use http::Method;
use journeyman_core::code_host::HostRepository;
use journeyman_core::conversation::{DiffLine, ReviewComment};
use journeyman_core::ids::Sha;
use journeyman_core::ports::ForgeError;
use serde_json::{Value, json};

use super::wire::{fitting, with_hidden_comments};
use super::{BitbucketDataCenter, Location};

/// Writes a comment on lines of the diff. Bitbucket shows it at the newest commit.
pub(super) async fn add(
    host: &BitbucketDataCenter,
    repository: &HostRepository,
    pull: u64,
    (_, comment): (&Sha, &ReviewComment),
    text: &str,
) -> Result<(), ForgeError> {
    let location = Location::current(repository)?;
    let path = format!("{}/{pull}/comments", location.pulls());
    let body = json!({"text": with_hidden_comments(&fitting(text)), "anchor": anchor(comment)});
    let answer = host.call(Method::POST, &path, Some(&body)).await?;
    host.changed(&location, answer).await.map(drop)
}

/// Returns the lines. Versions before 8.9 ignore the first of several.
fn anchor(comment: &ReviewComment) -> Value {
    let (line, kind) = numbered(comment.last);
    let file = if kind == "REMOVED" { "FROM" } else { "TO" };
    let mut anchor = json!({
        "diffType": "EFFECTIVE",
        "path": comment.path,
        "line": line,
        "lineType": kind,
        "fileType": file,
    });
    if comment.old_path != comment.path {
        anchor["srcPath"] = comment.old_path.clone().into();
    }
    if let Some(first) = comment.first {
        let (line, kind) = numbered(first);
        anchor["multilineMarker"] = json!({"startLine": line, "startLineType": kind});
    }
    anchor
}

/// Returns the number and the type of a line. One that both versions have is numbered in the new one.
fn numbered(line: DiffLine) -> (u64, &'static str) {
    match (line.new, line.old) {
        (Some(new), Some(_)) => (new, "CONTEXT"),
        (Some(new), None) => (new, "ADDED"),
        (None, old) => (old.unwrap_or_default(), "REMOVED"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_a_type_and_a_version() {
        let line = |old, new| DiffLine { old, new };
        for (first, last, expected) in [
            (None, line(None, Some(4)), json!({"line": 4, "lineType": "ADDED", "fileType": "TO"})),
            (None, line(Some(3), Some(4)), json!({"line": 4, "lineType": "CONTEXT", "fileType": "TO"})),
            (None, line(Some(3), None), json!({"line": 3, "lineType": "REMOVED", "fileType": "FROM"})),
            (
                Some(line(None, Some(2))),
                line(None, Some(4)),
                json!({
                    "line": 4, "lineType": "ADDED", "fileType": "TO",
                    "multilineMarker": {"startLine": 2, "startLineType": "ADDED"},
                }),
            ),
        ] {
            let (path, old_path, body) = ("b".to_owned(), "a".to_owned(), String::new());
            let mut found = anchor(&ReviewComment { path, old_path, first, last, body });
            let fields = found.as_object_mut().unwrap();
            let removed = ["path", "srcPath", "diffType"].map(|name| fields.remove(name).unwrap());
            assert_eq!((removed, found), ([json!("b"), json!("a"), json!("EFFECTIVE")], expected));
        }
    }
}
