//! The positions and threads of comments on lines, as webhooks and answers of GitHub describe them.

use journeyman_core::position::{DiffSide, Position, Thread};
use serde::Deserialize;

use crate::json::{Id, sha};

/// The fields of a comment on lines that say where it is. Comments in conversations have none of them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Located {
    path: Option<String>,
    /// `file` for a comment on a whole file.
    subject_type: Option<String>,
    /// The last line; `null` after a commit has changed the lines.
    line: Option<u64>,
    /// The first line, if there are several.
    start_line: Option<u64>,
    /// `LEFT` for the old version.
    side: Option<String>,
    start_side: Option<String>,
    /// The last line in the commit on which the comment was written.
    original_line: Option<u64>,
    original_start_line: Option<u64>,
    /// The line of the diff; `null` after a commit has changed the lines. All that old versions have.
    position: Option<u64>,
    original_position: Option<u64>,
    commit_id: Option<String>,
    original_commit_id: Option<String>,
    /// The first comment of the thread.
    in_reply_to_id: Option<Id>,
}

impl Located {
    /// Returns the position; `None` for a comment in a conversation.
    pub(super) fn position(&self) -> Option<Position> {
        let path = self.path.clone()?;
        if self.subject_type.as_deref() == Some("file") {
            let commit = self.commit_id.as_deref().and_then(sha);
            return Some(Position { commit, ..Position::whole_file(path) });
        }
        let is_outdated = match (self.line, self.original_line) {
            (Some(_), _) => false,
            (None, Some(_)) => true,
            (None, None) => self.position.is_none() && self.original_position.is_some(),
        };
        let (start, end, commit) = if is_outdated {
            (self.original_start_line, self.original_line, &self.original_commit_id)
        } else {
            (self.start_line, self.line, &self.commit_id)
        };
        let side = |name: &Option<String>| if name.as_deref() == Some("LEFT") { DiffSide::Old } else { DiffSide::New };
        let last = side(&self.side);
        let first = start.map(|start| (start, self.start_side.as_ref().map_or(last, |_| side(&self.start_side))));
        let position = match end {
            Some(end) => Position::between(path, first, (end, last)),
            None => Position { side: last, ..Position::somewhere_in(path) },
        };
        Some(Position { commit: commit.as_deref().and_then(sha), is_outdated, ..position })
    }

    /// Returns the thread of the comment with an ID; `None` for a comment in a conversation. Answers always name the first
    /// comment.
    pub(super) fn thread(&self, id: &str) -> Option<Thread> {
        self.path.as_ref()?;
        let first = self.in_reply_to_id.as_ref().map(|first| first.0.clone()).filter(|first| !first.is_empty());
        let root = first.clone().unwrap_or_else(|| id.to_owned());
        Some(Thread { id: Some(root), parent: first, is_resolved: None })
    }
}

#[cfg(test)]
mod tests {
    use journeyman_core::position::LineRange;
    use serde_json::{Value, json};

    use super::*;

    fn position(fields: Value) -> Position {
        let mut comment = json!({
            "path": "lib/sync.go",
            "commit_id": "b".repeat(40),
            "original_commit_id": "a".repeat(40),
            "position": 4,
            "original_position": 4,
            "subject_type": "line",
            "start_line": null,
            "original_start_line": null,
            "start_side": null,
            "line": 31,
            "original_line": 29,
            "side": "RIGHT",
        });
        for (name, value) in fields.as_object().unwrap() {
            comment[name] = value.clone();
        }
        serde_json::from_value::<Located>(comment).unwrap().position().unwrap()
    }

    #[test]
    fn positions_are_read() {
        let (now, before) = ("b".repeat(40).parse().ok(), "a".repeat(40).parse().ok());
        let lines = |start, end, side| Position {
            commit: now.clone(),
            ..Position::lines("lib/sync.go".to_owned(), LineRange { start, end }, side)
        };
        use DiffSide::{New, Old};
        for (fields, expected) in [
            (json!({}), lines(31, 31, New)),
            (json!({"start_line": 28, "original_start_line": 26, "start_side": "RIGHT"}), lines(28, 31, New)),
            (json!({"side": "LEFT"}), lines(31, 31, Old)),
            (json!({"side": "LEFT", "start_line": 30, "start_side": "LEFT"}), lines(30, 31, Old)),
            (json!({"start_line": 40, "start_side": "LEFT"}), Position { start_side: Some(Old), ..lines(40, 31, New) }),
            // A commit has changed the lines.
            (
                json!({"line": null, "position": null, "original_start_line": 26, "start_side": "RIGHT"}),
                Position { is_outdated: true, commit: before.clone(), ..lines(26, 29, New) },
            ),
            // The line is known although the diff no longer has it.
            (json!({"position": null}), lines(31, 31, New)),
            (
                json!({"subject_type": "file", "line": null, "original_line": null, "side": null, "position": 1}),
                Position { commit: now.clone(), ..Position::whole_file("lib/sync.go".to_owned()) },
            ),
            // GitHub Enterprise Server before version 2.20 has only the lines of the diff.
            (json!({"line": null, "original_line": null, "side": null}), Position { range: None, ..lines(1, 1, New) }),
            (
                json!({"line": null, "original_line": null, "side": null, "position": null}),
                Position { range: None, is_outdated: true, commit: before.clone(), ..lines(1, 1, New) },
            ),
            (json!({"commit_id": "b1946ac"}), Position { commit: None, ..lines(31, 31, New) }),
        ] {
            assert_eq!(position(fields.clone()), expected, "{fields}");
        }
    }

    #[test]
    fn threads_are_known_by_their_first_comments() {
        let located = |fields: Value| serde_json::from_value::<Located>(fields).unwrap();
        let first = located(json!({"path": "a"})).thread("7").unwrap();
        assert_eq!(first, Thread::begun_by("7"));
        let answer = located(json!({"path": "a", "in_reply_to_id": 5})).thread("7").unwrap();
        assert_eq!(answer, Thread { parent: Some("5".to_owned()), ..Thread::begun_by("5") });
        let plain = located(json!({}));
        assert_eq!((plain.thread("7"), plain.position()), (None, None), "it is in a conversation");
    }
}
