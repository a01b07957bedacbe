//! Comments on lines of a pull request.

use http::Method;
use journeyman_core::code_host::HostRepository;
use journeyman_core::conversation::ReviewComment;
use journeyman_core::ids::Sha;
use journeyman_core::ports::ForgeError;
use serde_json::{Value, json};

use super::{Bitbucket, at, wire};

/// Writes a comment on lines of the diff. Bitbucket shows it at the newest commit.
pub(super) async fn add(
    bitbucket: &Bitbucket,
    repository: &HostRepository,
    pull: u64,
    (_, comment): (&Sha, &ReviewComment),
    text: &str,
) -> Result<(), ForgeError> {
    let path = at(repository, &format!("/pullrequests/{pull}/comments"));
    // The description of the interface has no first line.
    let text = match comment.first {
        Some(_) => format!("{}:\n\n{text}", comment.lines()),
        None => text.to_owned(),
    };
    let body = json!({"content": {"raw": wire::hidden(&text)}, "inline": inline(comment)});
    bitbucket.call(Method::POST, &path, Some(&body)).await?.ok().map(drop)
}

/// Returns the last line: `to` is numbered in the new version, and `from` in the old one, for removed lines.
fn inline(comment: &ReviewComment) -> Value {
    let mut inline = json!({"path": comment.path});
    match (comment.last.new, comment.last.old) {
        (Some(new), _) => inline["to"] = new.into(),
        (None, old) => inline["from"] = old.into(),
    }
    inline
}

#[cfg(test)]
mod tests {
    use journeyman_core::conversation::DiffLine;

    use super::*;

    #[test]
    fn lines_are_numbered_in_the_version_that_has_them() {
        let line = |old, new| DiffLine { old, new };
        for (first, last, expected) in [
            (None, line(Some(3), Some(4)), json!({"path": "a", "to": 4})),
            (None, line(Some(3), None), json!({"path": "a", "from": 3})),
            (Some(line(None, Some(2))), line(None, Some(4)), json!({"path": "a", "to": 4})),
        ] {
            let (path, old_path, body) = ("a".to_owned(), "a".to_owned(), String::new());
            assert_eq!(inline(&ReviewComment { path, old_path, first, last, body }), expected);
        }
    }
}
