//! The position of a comment in the changes of a pull request, and the thread that it is part of, in one form for all
//! code hosts.

use serde::{Deserialize, Serialize};

use crate::ids::Sha;

/// The position of a comment in the changes of a pull request.
///
/// Its JSON has the path and the last line as `path` and `line`, which is all that older versions store and read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The path of the file.
    pub path: String,
    /// The lines; `None` for a comment on the whole file, and if the host does not tell them.
    #[serde(flatten)]
    pub range: Option<LineRange>,
    /// The version of the file that the lines are numbered in: [`DiffSide::Old`] for removed lines.
    #[serde(default, skip_serializing_if = "DiffSide::is_new")]
    pub side: DiffSide,
    /// The version of the file that the first line is numbered in, if it is the other one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_side: Option<DiffSide>,
    /// The commit that the lines are numbered in, if the host tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<Sha>,
    /// `true` if a later commit has changed the lines, so that they may be elsewhere now. Not all hosts tell this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_outdated: bool,
    /// `true` if the comment is on the whole file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_whole_file: bool,
}

/// Lines of a file, numbered from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredRange", into = "StoredRange")]
pub struct LineRange {
    /// The first line.
    pub start: u64,
    /// The last line.
    pub end: u64,
}

/// The stored form of [`LineRange`]. Older versions store only the last line.
#[derive(Serialize, Deserialize)]
struct StoredRange {
    line: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start_line: Option<u64>,
}

impl From<StoredRange> for LineRange {
    fn from(stored: StoredRange) -> Self {
        Self { start: stored.start_line.unwrap_or(stored.line), end: stored.line }
    }
}

impl From<LineRange> for StoredRange {
    fn from(range: LineRange) -> Self {
        Self { line: range.end, start_line: (range.start != range.end).then_some(range.start) }
    }
}

impl LineRange {
    /// Returns the range of a single line.
    #[must_use]
    pub const fn line(line: u64) -> Self {
        Self { start: line, end: line }
    }
}

impl Position {
    /// Returns the position of lines in a version of a file.
    #[must_use]
    pub const fn lines(path: String, range: LineRange, side: DiffSide) -> Self {
        Self {
            path,
            range: Some(range),
            side,
            start_side: None,
            commit: None,
            is_outdated: false,
            is_whole_file: false,
        }
    }

    /// Returns the position of the lines from `first`, if there are several, to `last`, each in a version of the file.
    #[must_use]
    pub fn between(path: String, first: Option<(u64, DiffSide)>, last: (u64, DiffSide)) -> Self {
        let (end, side) = last;
        let (start, start_side) = match first {
            Some((start, first_side)) if first_side != side => (start, Some(first_side)),
            Some((start, _)) if start <= end => (start, None),
            _ => (end, None),
        };
        Self { start_side, ..Self::lines(path, LineRange { start, end }, side) }
    }

    /// Returns the position of a file of which the lines are not known.
    #[must_use]
    pub fn somewhere_in(path: String) -> Self {
        Self { is_whole_file: false, ..Self::whole_file(path) }
    }

    /// Returns the position of a whole file.
    #[must_use]
    pub const fn whole_file(path: String) -> Self {
        Self {
            path,
            range: None,
            side: DiffSide::New,
            start_side: None,
            commit: None,
            is_outdated: false,
            is_whole_file: true,
        }
    }

    /// Returns the last line.
    #[must_use]
    pub fn line(&self) -> Option<u64> {
        self.range.map(|range| range.end)
    }

    /// Returns the lines that a suggestion can replace: those of the new version of the file.
    #[must_use]
    pub fn replaceable(&self) -> Option<LineRange> {
        let is_new = self.side == DiffSide::New && self.start_side.is_none();
        self.range.filter(|range| is_new && range.start >= 1 && range.start <= range.end)
    }
}

impl std::fmt::Display for Position {
    /// Writes the position for the agent, such as "`src/a.rs`, lines 12–18 of the old version".
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let one_line = |c: char| match c {
            '`' => '\'',
            c if c.is_control() => char::REPLACEMENT_CHARACTER,
            c => c,
        };
        write!(f, "`{}`", self.path.chars().map(one_line).collect::<String>())?;
        let old = |side: DiffSide| if side == DiffSide::Old { " of the old version" } else { "" };
        match (self.range, self.start_side) {
            (Some(range), Some(side)) if side != self.side => {
                let (first, last) = (old(side), old(self.side));
                write!(f, ", from line {}{first} to line {}{last}", range.start, range.end)?;
            }
            (Some(range), _) if range.start == range.end => write!(f, ", line {}{}", range.end, old(self.side))?,
            (Some(range), _) => write!(f, ", lines {}–{}{}", range.start, range.end, old(self.side))?,
            (None, _) if self.is_whole_file => f.write_str(", the whole file")?,
            (None, _) => {}
        }
        if !self.is_outdated {
            return Ok(());
        }
        match &self.commit {
            Some(commit) => write!(f, ", on commit {}", &commit.as_str()[..12])?,
            None => f.write_str(", on an earlier commit")?,
        }
        f.write_str(", which the branch has left behind; the lines may have moved")
    }
}

/// The thread that a comment is part of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// The ID of the thread in the form of its host: on GitLab the ID of the discussion, otherwise that of the first
    /// comment. `None` if the host does not tell it with the comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The ID of the comment that this one answers, if the host tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Whether people have marked the thread as resolved; `None` if the host does not tell it with the comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_resolved: Option<bool>,
}

impl Thread {
    /// Returns the thread that a comment begins.
    #[must_use]
    pub fn begun_by(comment: &str) -> Self {
        Self { id: Some(comment.to_owned()), ..Self::default() }
    }

    /// Returns the thread of a comment that answers another one.
    #[must_use]
    pub fn answering(parent: String) -> Self {
        Self { parent: Some(parent), ..Self::default() }
    }

    /// Returns whether a comment of the thread can have earlier comments before it. It has none if it begins the thread.
    #[must_use]
    pub fn may_have_earlier(&self, comment: &str) -> bool {
        self.parent.is_some() || self.id.as_deref() != Some(comment)
    }
}

/// A side of a diff.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiffSide {
    /// The file before the change.
    Old,
    /// The file after the change.
    #[default]
    New,
}

impl DiffSide {
    /// Returns whether this is the file after the change.
    #[must_use]
    pub const fn is_new(&self) -> bool {
        matches!(self, Self::New)
    }

    /// Returns the name in the store.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Old => "old",
            Self::New => "new",
        }
    }

    /// Finds a side by its [`DiffSide::name`].
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Old, Self::New].into_iter().find(|side| side.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(range: Option<LineRange>) -> Position {
        Position { range, ..Position::lines("src/a.rs".to_owned(), LineRange::line(1), DiffSide::New) }
    }

    #[test]
    fn a_position_is_written_for_the_agent() {
        let range = Some(LineRange { start: 12, end: 18 });
        let commit: Sha = "0123456789abcdef0123456789abcdef01234567".parse().expect("it is a hash");
        let old = Position { side: DiffSide::Old, ..position(range) };
        for (position, expected) in [
            (position(Some(LineRange::line(7))), "`src/a.rs`, line 7"),
            (position(range), "`src/a.rs`, lines 12–18"),
            (old.clone(), "`src/a.rs`, lines 12–18 of the old version"),
            (
                Position { start_side: Some(DiffSide::Old), ..position(range) },
                "`src/a.rs`, from line 12 of the old version to line 18",
            ),
            (Position::whole_file("a.png".to_owned()), "`a.png`, the whole file"),
            (position(None), "`src/a.rs`"),
            (
                Position { is_outdated: true, commit: Some(commit), ..old },
                "`src/a.rs`, lines 12–18 of the old version, on commit 0123456789ab, which the branch has left behind; \
                 the lines may have moved",
            ),
            (
                Position { is_outdated: true, ..position(None) },
                "`src/a.rs`, on an earlier commit, which the branch has left behind; the lines may have moved",
            ),
            (Position::whole_file("a`b\n## Comment 2".to_owned()), "`a'b\u{fffd}## Comment 2`, the whole file"),
        ] {
            assert_eq!(position.to_string(), expected);
        }
    }

    #[test]
    fn the_first_line_may_be_in_the_other_version() {
        use DiffSide::{New, Old};
        for (first, last, expected) in [
            (None, (7, New), "`a`, line 7"),
            (Some((5, New)), (7, New), "`a`, lines 5–7"),
            (Some((9, Old)), (7, New), "`a`, from line 9 of the old version to line 7"),
            (Some((5, New)), (7, Old), "`a`, from line 5 to line 7 of the old version"),
            (Some((7, Old)), (7, Old), "`a`, line 7 of the old version"),
            (Some((9, New)), (7, New), "`a`, line 7"),
        ] {
            assert_eq!(Position::between("a".to_owned(), first, last).to_string(), expected);
        }
    }

    #[test]
    fn only_lines_of_the_new_version_can_be_replaced() {
        let range = LineRange { start: 2, end: 4 };
        assert_eq!(position(Some(range)).replaceable(), Some(range));
        for position in [
            Position { side: DiffSide::Old, ..position(Some(range)) },
            Position { start_side: Some(DiffSide::Old), ..position(Some(range)) },
            position(Some(LineRange { start: 4, end: 2 })),
            position(Some(LineRange::line(0))),
            position(None),
        ] {
            assert_eq!(position.replaceable(), None, "{position}");
        }
    }

    #[test]
    fn a_comment_that_answers_may_have_earlier_comments() {
        let discussion = Thread { id: Some("d41d8".to_owned()), ..Thread::default() };
        for (thread, expected) in [
            (Thread::begun_by("5"), false),
            (Thread::answering("4".to_owned()), true),
            (Thread { parent: Some("4".to_owned()), ..Thread::begun_by("5") }, true),
            (discussion, true),
            (Thread::default(), true),
        ] {
            assert_eq!(thread.may_have_earlier("5"), expected, "{thread:?}");
        }
    }
}
