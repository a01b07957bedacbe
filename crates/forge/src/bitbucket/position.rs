//! The positions and threads of comments, as webhooks and answers of Bitbucket Cloud describe them.

use journeyman_core::position::{DiffSide, Position, Thread};
use serde::Deserialize;
use serde_json::Value;

use crate::json::{Id, or_default, sha};

/// The position of a comment on lines. A comment on a whole file has no lines.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Inline {
    path: Option<String>,
    /// The last line in the new version of the file.
    to: Option<u64>,
    /// The last line in the old version of the file.
    from: Option<u64>,
    /// The first line in the new version, if there are several.
    start_to: Option<u64>,
    /// The first line in the old version, if there are several.
    start_from: Option<u64>,
    /// `true` if a commit has changed the lines.
    #[serde(deserialize_with = "or_default")]
    outdated: bool,
    /// The commit of the new version. Not documented, and not in all answers.
    src_rev: Option<String>,
}

impl Inline {
    /// Returns the position; `None` without a path.
    pub(super) fn position(self) -> Option<Position> {
        let path = self.path?;
        let new = |line: u64| (line, DiffSide::New);
        let old = |line: u64| (line, DiffSide::Old);
        // A line that both versions have has both numbers.
        let position = match (self.to.map(new), self.from.map(old)) {
            (Some(last), _) => {
                let first = self.start_to.map(new).or_else(|| self.start_from.map(old));
                Position::between(path, first, last)
            }
            (None, Some(last)) => {
                let first = self.start_from.map(old).or_else(|| self.start_to.map(new));
                Position::between(path, first, last)
            }
            (None, None) => Position::whole_file(path),
        };
        let commit = self.src_rev.as_deref().and_then(sha);
        Some(Position { commit, is_outdated: self.outdated, ..position })
    }
}

/// The comment that another one answers.
#[derive(Debug, Deserialize)]
pub(super) struct Parent {
    pub(super) id: Id,
}

/// Returns the thread of the comment with an ID. Only the first comment of a thread says whether it is resolved.
pub(super) fn thread(id: &str, parent: Option<&Parent>, resolution: &Value) -> Thread {
    match parent {
        Some(parent) => Thread::answering(parent.id.0.clone()),
        None => Thread { is_resolved: Some(!resolution.is_null()), ..Thread::begun_by(id) },
    }
}

#[cfg(test)]
mod tests {
    use journeyman_core::position::LineRange;
    use serde_json::json;

    use super::*;

    #[test]
    fn positions_are_read() {
        use DiffSide::{New, Old};
        let lines = |start, end, side| Position::lines("src/a.py".to_owned(), LineRange { start, end }, side);
        for (fields, expected) in [
            (json!({"to": 42, "from": null}), lines(42, 42, New)),
            (json!({"to": null, "from": 17}), lines(17, 17, Old)),
            (json!({"to": 42, "from": 40}), lines(42, 42, New)),
            (json!({"to": 42, "start_to": 38, "from": null, "start_from": null}), lines(38, 42, New)),
            (json!({"to": 42, "start_to": 38, "from": 40, "start_from": 36}), lines(38, 42, New)),
            (json!({"to": null, "from": 17, "start_from": 15, "start_to": null}), lines(15, 17, Old)),
            (json!({"to": 42, "start_from": 50}), Position { start_side: Some(Old), ..lines(50, 42, New) }),
            (json!({"to": null, "from": null}), Position::whole_file("src/a.py".to_owned())),
            (
                json!({"to": 42, "outdated": true, "src_rev": "a".repeat(40), "context_lines": "@@ -1 +1 @@"}),
                Position { is_outdated: true, commit: "a".repeat(40).parse().ok(), ..lines(42, 42, New) },
            ),
            (
                json!({"to": 42, "outdated": true, "src_rev": "8f0ad2f4a3b1"}),
                Position { is_outdated: true, ..lines(42, 42, New) },
            ),
            (json!({"to": 42, "outdated": null}), lines(42, 42, New)),
        ] {
            let mut inline = fields.clone();
            inline["path"] = "src/a.py".into();
            let inline: Inline = serde_json::from_value(inline).unwrap();
            assert_eq!(inline.position(), Some(expected), "{fields}");
        }
        assert_eq!(Inline::default().position(), None);
    }

    #[test]
    fn only_the_first_comment_says_whether_a_thread_is_resolved() {
        let resolution = json!({"type": "comment_resolution", "created_on": "2025-01-01T00:00:00+00:00"});
        let parent = Parent { id: Id("4".to_owned()) };
        assert_eq!(thread("5", Some(&parent), &Value::Null), Thread::answering("4".to_owned()));
        for (resolution, is_resolved) in [(Value::Null, false), (resolution, true)] {
            let expected = Thread { is_resolved: Some(is_resolved), ..Thread::begun_by("5") };
            assert_eq!(thread("5", None, &resolution), expected);
        }
    }
}
