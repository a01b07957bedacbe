//! The positions of comments, as webhooks and answers of Bitbucket Data Center describe them.

use journeyman_core::position::{DiffSide, Position};
use serde::Deserialize;
use serde_json::Value;

use crate::json::{or_default, sha};

/// The position of a comment on lines.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Anchor {
    /// A text, or an object with the parts of the path and the whole.
    path: Value,
    /// The last line; missing for a comment on a whole file.
    line: Value,
    /// `ADDED`, `REMOVED` or `CONTEXT`.
    #[serde(deserialize_with = "or_default")]
    line_type: String,
    /// The version in which the line is numbered: `FROM` for the old one, `TO` for the new one.
    #[serde(deserialize_with = "or_default")]
    file_type: String,
    /// The commit of the new version.
    to_hash: Option<String>,
    /// `true` if a commit has changed the lines.
    #[serde(deserialize_with = "or_default")]
    orphaned: bool,
    /// The first line, if there are several, since version 8.9.
    #[serde(deserialize_with = "or_default")]
    multiline_marker: Marker,
    /// The first and last lines in both versions, if there are several.
    #[serde(deserialize_with = "or_default")]
    multiline_span: Span,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Marker {
    start_line: Option<u64>,
    #[serde(deserialize_with = "or_default")]
    start_line_type: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Span {
    src_span_start: Option<u64>,
    dst_span_start: Option<u64>,
}

impl Anchor {
    /// Returns the position; `None` for a comment on the pull request itself.
    pub(super) fn position(&self) -> Option<Position> {
        let path = self.path.as_str().or_else(|| self.path["toString"].as_str())?.to_owned();
        let is_old = self.file_type == "FROM" || self.line_type == "REMOVED";
        let side = if is_old { DiffSide::Old } else { DiffSide::New };
        let position = match self.line.as_u64().filter(|line| *line > 0) {
            Some(line) => Position::between(path, self.first(side), (line, side)),
            None => Position::whole_file(path),
        };
        let commit = self.to_hash.as_deref().and_then(sha);
        Some(Position { commit, is_outdated: self.orphaned, ..position })
    }

    /// Returns the first line, if there are several. `side` is that of the last one.
    fn first(&self, side: DiffSide) -> Option<(u64, DiffSide)> {
        let spanned = match side {
            DiffSide::Old => self.multiline_span.src_span_start,
            DiffSide::New => self.multiline_span.dst_span_start,
        };
        let marked = self.multiline_marker.start_line?;
        Some(match self.multiline_marker.start_line_type.as_str() {
            "REMOVED" => (marked, DiffSide::Old),
            "ADDED" => (marked, DiffSide::New),
            _ => (spanned.unwrap_or(marked), side),
        })
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
        let commit = "04c7c5c931b9418ca7b66f51fe934d0bd9b2ba4b";
        let lines = |start, end, side| Position {
            commit: commit.parse().ok(),
            ..Position::lines("src/sync.py".to_owned(), LineRange { start, end }, side)
        };
        let range = |start: u64, kind: &str, line_type: &str, file_type: &str| {
            json!({
                "line": 12, "lineType": line_type, "fileType": file_type,
                "multilineMarker": {"startLine": start, "startLineType": kind},
            })
        };
        let mut spanned = range(40, "CONTEXT", "ADDED", "TO");
        spanned["multilineSpan"] = json!({"srcSpanStart": 40, "srcSpanEnd": 41, "dstSpanStart": 10, "dstSpanEnd": 12});
        for (fields, expected) in [
            (json!({"line": 12, "lineType": "ADDED", "fileType": "TO"}), lines(12, 12, New)),
            (json!({"line": 12, "lineType": "CONTEXT", "fileType": "TO"}), lines(12, 12, New)),
            (json!({"line": 12, "lineType": "CONTEXT", "fileType": "FROM"}), lines(12, 12, Old)),
            (json!({"line": 12, "lineType": "REMOVED", "fileType": "FROM"}), lines(12, 12, Old)),
            (json!({"line": 12, "lineType": "REMOVED"}), lines(12, 12, Old)),
            (range(10, "ADDED", "ADDED", "TO"), lines(10, 12, New)),
            (range(10, "CONTEXT", "ADDED", "TO"), lines(10, 12, New)),
            (range(10, "REMOVED", "REMOVED", "FROM"), lines(10, 12, Old)),
            (range(40, "REMOVED", "ADDED", "TO"), Position { start_side: Some(Old), ..lines(40, 12, New) }),
            (spanned, lines(10, 12, New)),
            (json!({"line": 12, "multilineMarker": null, "multilineSpan": null}), lines(12, 12, New)),
            (
                json!({"line": 12, "lineType": "ADDED", "fileType": "TO", "orphaned": true}),
                Position { is_outdated: true, ..lines(12, 12, New) },
            ),
            (
                json!({"line": 0}),
                Position { commit: commit.parse().ok(), ..Position::whole_file("src/sync.py".to_owned()) },
            ),
            (
                json!({"diffType": "EFFECTIVE"}),
                Position { commit: commit.parse().ok(), ..Position::whole_file("src/sync.py".to_owned()) },
            ),
        ] {
            for path in [json!("src/sync.py"), json!({"components": ["src", "sync.py"], "toString": "src/sync.py"})] {
                let mut anchor = fields.clone();
                (anchor["path"], anchor["toHash"]) = (path, commit.into());
                let anchor: Anchor = serde_json::from_value(anchor).unwrap();
                assert_eq!(anchor.position().as_ref(), Some(&expected), "{fields}");
            }
        }
        assert_eq!(Anchor::default().position(), None);
    }
}
