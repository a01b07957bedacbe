//! A review that the service writes on a code host.

use crate::ids::Sha;
use crate::position::Position;
use crate::pull::DiffSide;

/// A review to write. It is a comment: it neither approves the pull request nor requests changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewReview {
    /// The marker, by which a repeated attempt finds the review.
    pub marker: String,
    /// The commit that was reviewed.
    pub commit: Sha,
    /// The text of the review, in Markdown.
    pub text: String,
    /// The comments on lines of the diff.
    pub comments: Vec<ReviewComment>,
}

/// A comment on lines of the diff of a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewComment {
    /// The path of the file after the change, or before it if the file was deleted.
    pub path: String,
    /// The path before the change.
    pub old_path: String,
    /// The first line, if there are several. All lines are in one hunk of the diff.
    pub first: Option<DiffLine>,
    /// The last line.
    pub last: DiffLine,
    /// The text, in Markdown.
    pub body: String,
}

/// A line of a diff, by its numbers in both versions of the file, from 1. An added line has no old number, and a removed
/// line no new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiffLine {
    /// The number in the old version.
    pub old: Option<u64>,
    /// The number in the new version.
    pub new: Option<u64>,
}

impl NewReview {
    /// Returns the text of the review with all comments on lines.
    #[must_use]
    pub fn whole_text(&self) -> String {
        self.text_with(&self.comments.iter().collect::<Vec<_>>())
    }

    /// Returns the text of the review with these comments on lines.
    #[must_use]
    pub fn text_with(&self, comments: &[&ReviewComment]) -> String {
        let comments = comments.iter().map(|comment| format!("**{}**\n\n{}", comment.lines(), comment.body));
        std::iter::once(self.text.clone()).chain(comments).collect::<Vec<_>>().join("\n\n")
    }
}

impl ReviewComment {
    /// Returns the marker of the comment, for hosts on which each comment is written by itself. `review` is that of its
    /// review, and `index` the index of the comment.
    #[must_use]
    pub fn marker(review: &str, index: usize) -> String {
        format!("{}:{} -->", review.trim_end_matches(" -->"), index + 1)
    }

    /// Returns the lines for people, such as "`src/a.rs`, lines 3–5", in Markdown.
    #[must_use]
    pub fn lines(&self) -> String {
        let side = if self.last.new.is_some() { DiffSide::New } else { DiffSide::Old };
        let numbered = |line: DiffLine| match line.new {
            Some(new) => (new, DiffSide::New),
            None => (line.old.unwrap_or_default(), DiffSide::Old),
        };
        let path = if side == DiffSide::New { &self.path } else { &self.old_path };
        Position::between(path.clone(), self.first.map(numbered), numbered(self.last)).to_string()
    }
}
