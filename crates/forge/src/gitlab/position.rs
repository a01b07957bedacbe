//! The positions and threads of notes, as webhooks and answers of GitLab describe them.

use journeyman_core::ids::Sha;
use journeyman_core::position::{DiffSide, Position, Thread};
use serde::Deserialize;
use serde_json::Value;

use crate::json::{or_default, sha};

/// The position of a note on a diff.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Located {
    new_path: Option<String>,
    old_path: Option<String>,
    /// The line in the new version; missing for a removed line.
    new_line: Option<u64>,
    /// The line in the old version; missing for an added line.
    old_line: Option<u64>,
    /// `text`, `image` or `file`.
    position_type: Option<String>,
    /// The commit of the new version.
    head_sha: Option<String>,
    /// The first and the last line, if there are several.
    line_range: Value,
}

/// An end of a range of lines.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct End {
    /// The hash of the path, the line in the old version and the one in the new version, joined by `_`.
    #[serde(deserialize_with = "or_default")]
    line_code: String,
    /// `new` for an added line, `old` for a removed one, and `null` or `old` for others.
    #[serde(rename = "type", deserialize_with = "or_default")]
    kind: String,
    old_line: Option<u64>,
    new_line: Option<u64>,
}

impl End {
    /// Returns the line and the version of the file that it is numbered in, which is that of the last line if both versions
    /// have the line.
    fn line(&self, last: DiffSide) -> Option<(u64, DiffSide)> {
        let numbered = |side: DiffSide, old: u64, new: u64| (if side == DiffSide::Old { old } else { new }, side);
        match (self.old_line, self.new_line) {
            (Some(old), Some(new)) => Some(numbered(last, old, new)),
            (Some(old), None) => Some((old, DiffSide::Old)),
            (None, Some(new)) => Some((new, DiffSide::New)),
            // Older versions have only this.
            (None, None) => {
                let mut parts = self.line_code.rsplit('_');
                let (new, old) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
                let side = match self.kind.as_str() {
                    "old" => DiffSide::Old,
                    "new" => DiffSide::New,
                    _ => last,
                };
                Some(numbered(side, old, new))
            }
        }
    }
}

impl Located {
    /// Returns the position; `None` if the note is on no file. `head` is the newest commit of the merge request, if it is
    /// known: GitLab moves the position with each push, unless the lines have changed.
    pub(super) fn position(&self, head: Option<&Sha>) -> Option<Position> {
        let path = self.new_path.clone().or_else(|| self.old_path.clone())?;
        let commit = self.head_sha.as_deref().and_then(sha);
        let is_outdated = commit.as_ref().zip(head).is_some_and(|(commit, head)| commit != head);
        let last = match (self.new_line, self.old_line) {
            (Some(line), _) => Some((line, DiffSide::New)),
            (None, line) => line.map(|line| (line, DiffSide::Old)),
        };
        let is_whole = matches!(self.position_type.as_deref(), Some("file" | "image"));
        let position = match last {
            _ if is_whole => Position::whole_file(path),
            Some(last) => {
                let first = End::deserialize(&self.line_range["start"]).ok().and_then(|first| first.line(last.1));
                Position::between(path, first, last)
            }
            None => Position::somewhere_in(path),
        };
        Some(Position { commit, is_outdated, ..position })
    }
}

/// Returns the thread of a note; `None` for a note that no one can have answered yet, and that answers none.
pub(super) fn thread(kind: &str, discussion: Option<String>, is_resolved: Option<bool>) -> Option<Thread> {
    let is_in_thread = matches!(kind, "DiffNote" | "DiscussionNote");
    is_in_thread.then(|| Thread { id: discussion.filter(|id| !id.is_empty()), parent: None, is_resolved })
}

#[cfg(test)]
mod tests {
    use journeyman_core::position::LineRange;
    use serde_json::json;

    use super::*;

    const HEAD: &str = "4803c71e6b1833ca72b8b26ef2ecd5adc8a38031";

    fn position(fields: Value, head: Option<&str>) -> Position {
        let mut all = json!({
            "base_sha": "b5d6e7b1613fca24d250fa8e5bc7bcc3dd6002ef",
            "start_sha": "7c9c2ead8a320fb7ba0b4e234bd9529a2614e306",
            "head_sha": HEAD,
            "old_path": "lib/old.rb",
            "new_path": "lib/new.rb",
            "position_type": "text",
            "old_line": null,
            "new_line": 27,
            "line_range": null,
        });
        for (name, value) in fields.as_object().unwrap() {
            all[name] = value.clone();
        }
        let head: Option<Sha> = head.map(|head| head.parse().unwrap());
        serde_json::from_value::<Located>(all).unwrap().position(head.as_ref()).unwrap()
    }

    #[test]
    fn positions_are_read() {
        use DiffSide::{New, Old};
        let commit: Option<Sha> = HEAD.parse().ok();
        let at = |position: Position| Position { commit: commit.clone(), ..position };
        let lines = |start, end, side| at(Position::lines("lib/new.rb".to_owned(), LineRange { start, end }, side));
        let end = |kind: Value, old: Value, new: Value| json!({"type": kind, "old_line": old, "new_line": new});
        let range = |start: Value| json!({"line_range": {"start": start, "end": {"type": "new", "new_line": 27}}});
        let code = |kind: Value, code: &str| range(json!({"line_code": format!("5884_{code}"), "type": kind}));
        for (fields, expected) in [
            (json!({}), lines(27, 27, New)),
            (json!({"old_line": 25}), lines(27, 27, New)),
            (json!({"old_line": 25, "new_line": null}), lines(25, 25, Old)),
            (range(end(json!("new"), json!(null), json!(24))), lines(24, 27, New)),
            (range(end(json!(null), json!(22), json!(24))), lines(24, 27, New)),
            (
                range(end(json!("old"), json!(22), json!(null))),
                Position { start_side: Some(Old), ..lines(22, 27, New) },
            ),
            (code(json!("new"), "22_24"), lines(24, 27, New)),
            (code(json!(null), "22_24"), lines(24, 27, New)),
            (code(json!("old"), "22_24"), Position { start_side: Some(Old), ..lines(22, 27, New) }),
            (code(json!("new"), "x"), lines(27, 27, New)),
            (json!({"line_range": {}}), lines(27, 27, New)),
            (json!({"position_type": "file", "new_line": null}), at(Position::whole_file("lib/new.rb".to_owned()))),
            (
                json!({"position_type": "image", "new_line": null, "width": 10, "height": 10, "x": 3, "y": 4}),
                at(Position::whole_file("lib/new.rb".to_owned())),
            ),
            (json!({"new_line": null, "new_path": null}), at(Position::somewhere_in("lib/old.rb".to_owned()))),
        ] {
            assert_eq!(position(fields.clone(), Some(HEAD)), expected, "{fields}");
            assert_eq!(position(fields.clone(), None), expected, "{fields}");
            let newer = "0123456789012345678901234567890123456789";
            assert_eq!(position(fields, Some(newer)), Position { is_outdated: true, ..expected });
        }
        assert_eq!(Located::default().position(None), None);
    }

    #[test]
    fn only_notes_of_discussions_are_in_threads() {
        let id = || Some("6a9c1750".to_owned());
        for (kind, discussion, expected) in [
            ("DiffNote", id(), Some(id())),
            ("DiscussionNote", id(), Some(id())),
            ("DiscussionNote", None, Some(None)),
            ("DiffNote", Some(String::new()), Some(None)),
            ("", id(), None),
        ] {
            assert_eq!(thread(kind, discussion, None).map(|thread| thread.id), expected, "{kind}");
        }
    }
}
