//! Pull requests.

pub mod base_comparison;
pub mod body;
pub mod comment;
pub mod compared;
pub mod diff_names;
pub mod existing;
mod of_job;
pub mod reviewed;

use serde::{Deserialize, Serialize};

use crate::branch::check_ref_name;
use crate::code_host::PullRepository;
use crate::code_host::PullState;
use crate::ids::{JobId, MessageId, ProjectId, Sha};
use crate::position::DiffSide;
use crate::position::{LineRange, Position};
use crate::time::Timestamp;

pub use self::of_job::Pull;

/// The way in which the commits of a pull request get into the base branch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MergeMethod {
    /// A merge commit joins the branches.
    #[default]
    Merge,
    /// One commit has all changes.
    Squash,
    /// The commits are repeated on top of the base branch, without merges.
    Rebase,
}

impl MergeMethod {
    /// All methods.
    pub const ALL: [Self; 3] = [Self::Merge, Self::Squash, Self::Rebase];

    /// Returns the name in requests and forms.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Merge => "merge",
            Self::Squash => "squash",
            Self::Rebase => "rebase",
        }
    }

    /// Finds a method by its [`MergeMethod::name`].
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }
}

/// A merge of a pull request of the built-in code host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMerge {
    /// The method.
    pub method: MergeMethod,
    /// The name of the caller, which the new commit has in its message, unless the method is [`MergeMethod::Rebase`].
    pub by: String,
    /// The time of the merge.
    pub at: Timestamp,
}

/// A pull request to open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewPull {
    /// The title.
    pub title: String,
    /// The description, in Markdown.
    pub body: String,
    /// The branch with the commits.
    pub head: String,
    /// The branch to merge into; `None` means the repository's default branch.
    pub base: Option<String>,
    /// `true` if the pull request is a draft.
    pub draft: bool,
    /// The labels.
    pub labels: Vec<String>,
    /// The users, and teams as `owner/team`, to ask for a review.
    pub reviewers: Vec<String>,
    /// The users to assign.
    pub assignees: Vec<String>,
    /// `true` if the code host is asked to merge the pull request when all requirements are met.
    pub auto_merge: bool,
}

/// The maximum length of the title of a pull request, in characters.
const MAX_TITLE_CHARS: usize = 255;

/// The maximum length of the description of a pull request, in characters.
const MAX_BODY_CHARS: usize = 60_000;

/// Checks the texts of a pull request that a person opens.
///
/// # Errors
/// A sentence that names the field.
pub fn check_pull(new: &NewPull) -> Result<(), String> {
    let is_short = |text: &str, most: usize| text.chars().count() <= most;
    if new.title.trim().is_empty() || new.title.chars().any(char::is_control) || !is_short(&new.title, MAX_TITLE_CHARS)
    {
        return Err(format!("title must be a line of 1 to {MAX_TITLE_CHARS} characters"));
    }
    if new.body.contains('\0') || !is_short(&new.body, MAX_BODY_CHARS) {
        return Err(format!("body must have at most {MAX_BODY_CHARS} characters, and no NUL character"));
    }
    for (field, branch) in [("head", Some(&new.head)), ("base", new.base.as_ref())] {
        if let Some(error) = branch.and_then(|name| check_ref_name(name).err()) {
            return Err(format!("{field}: {error}"));
        }
    }
    Ok(())
}

/// A pull request on the built-in code host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalPull {
    /// The name of the repository.
    pub repository: String,
    /// The number in the repository, from 1.
    pub number: u64,
    /// The title.
    pub title: String,
    /// The description, in Markdown.
    pub body: String,
    /// The state.
    pub state: PullState,
    /// `true` if the pull request is a draft.
    pub draft: bool,
    /// The branch with the commits.
    pub head: String,
    /// The branch to merge into.
    pub base: String,
    /// The labels.
    pub labels: Vec<String>,
    /// The time at which the pull request was opened.
    pub created_at: Timestamp,
    /// The time at which the pull request was merged or closed.
    pub ended_at: Option<Timestamp>,
    /// The name of the caller who merged or closed the pull request; `None` if its branches were found merged, by hand or
    /// by a call whose end was not recorded, or if an older version recorded the end.
    pub ended_by: Option<String>,
    /// The commits of the base and the head when the pull request ended, if both branches existed.
    pub ended_between: Option<(Sha, Sha)>,
    /// The merge commit; `None` if there is none, or if an older version recorded the merge.
    pub merge_commit: Option<Sha>,
}

/// The end of a pull request on the built-in code host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullEnding {
    /// [`PullState::Merged`] or [`PullState::Closed`].
    pub state: PullState,
    /// The name of the caller who ends it; `None` if its branches were found merged.
    pub by: Option<String>,
    /// The time of the end.
    pub at: Timestamp,
    /// The commits of the base and the head at that time, if both branches existed.
    pub between: Option<(Sha, Sha)>,
    /// The merge commit, if there is one.
    pub commit: Option<Sha>,
}

/// The line of a diff that a comment is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinePosition {
    /// The path of the file; the former path if the file was deleted.
    pub path: String,
    /// The side: [`DiffSide::Old`] for a removed line.
    pub side: DiffSide,
    /// The number of the line in the file of this side, from 1.
    pub line: u64,
    /// The part of the diff that ends at the line.
    pub hunk: String,
}

impl LinePosition {
    /// Returns the position in the form of all code hosts.
    #[must_use]
    pub fn position(&self) -> Position {
        Position::lines(self.path.clone(), LineRange::line(self.line), self.side)
    }

    /// Returns the text of this position in the fingerprints of requests. The store keeps fingerprints of earlier
    /// requests, so the text must not change.
    #[must_use]
    pub fn fingerprint_text(&self) -> String {
        let Self { path, side, line, hunk } = self;
        let side = match side {
            DiffSide::Old => "Old",
            DiffSide::New => "New",
        };
        format!("LinePlace {{ path: {path:?}, side: {side}, line: {line}, hunk: {hunk:?} }}")
    }

    /// Returns whether both positions are the same line with the same text.
    #[must_use]
    pub fn is_same_line(&self, other: &Self) -> bool {
        let text =
            |position: &Self| position.hunk.lines().next_back().map(|line| line.trim_end_matches('\r').to_owned());
        (&self.path, self.side, self.line) == (&other.path, other.side, other.line) && text(self) == text(other)
    }
}

/// The resolution of a comment on a line.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Resolution {
    /// The name of the person who resolved the comment.
    pub by: String,
    /// The time at which it was resolved.
    pub at: Timestamp,
}

/// The conclusion of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Verdict {
    /// The review has comments only.
    #[default]
    Comment,
    /// The reviewer approves the changes.
    Approve,
    /// The reviewer asks for other changes before the merge.
    RequestChanges,
}

impl Verdict {
    /// Returns the name in the store and in forms.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Comment => "comment",
            Self::Approve => "approve",
            Self::RequestChanges => "request_changes",
        }
    }

    /// Finds a verdict by its [`Verdict::name`].
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Comment, Self::Approve, Self::RequestChanges].into_iter().find(|verdict| verdict.name() == name)
    }
}

/// A comment to add to a pull request on the built-in code host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewComment {
    /// The name of the author.
    pub author: String,
    /// The ID of the author, of a user or [`comment::SERVICE`]; `None` if an older version stored the comment.
    pub author_id: Option<String>,
    /// The text, in Markdown. Only the text of a review may be empty.
    pub body: String,
    /// The time of the comment; for a comment of a review, the time of the review.
    pub at: Timestamp,
    /// The message to the job that an older version created from the comment. Newer messages name their comments.
    pub message: Option<MessageId>,
    /// The line that the comment is about.
    pub line: Option<LinePosition>,
    /// The number of the review that the comment is part of. The text of a review has its own number here.
    pub review: Option<u64>,
    /// `true` until the author submits the review that the comment is for. Others do not see it before.
    pub is_draft: bool,
    /// The conclusion, for the text of a review.
    pub verdict: Verdict,
    /// The resolution, for a comment on a line; `None` while it is open.
    pub resolved: Option<Resolution>,
}

/// A comment on a pull request on the built-in code host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// The number on the pull request, from 1.
    pub number: u64,
    /// The content of the comment.
    pub comment: NewComment,
}

impl Comment {
    /// Returns the part of the comment that can change after it was submitted.
    #[must_use]
    pub fn state(&self) -> CommentState {
        CommentState { number: self.number, resolved: self.comment.resolved.clone() }
    }
}

/// The number of a submitted comment, and the part of it that can change.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CommentState {
    /// The number on the pull request, from 1.
    pub number: u64,
    /// The resolution, for a comment on a line; `None` while it is open.
    pub resolved: Option<Resolution>,
}

impl Comment {
    /// Returns true if the comment stands on its own, and false for the comments that a review consists of.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.comment.review.is_none_or(|review| review == self.number)
    }

    /// Returns true for the comment that has the text and the verdict of a review.
    #[must_use]
    pub fn is_review(&self) -> bool {
        self.comment.review == Some(self.number)
    }
}

/// The submitted comments on a pull request in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PullReviews {
    /// The number of comments and reviews. The comments that a review consists of are not counted.
    pub comments: u64,
    /// The conclusion: [`Verdict::RequestChanges`] if the latest verdict of a reviewer is that one,
    /// [`Verdict::Approve`] if only approvals are left, and [`Verdict::Comment`] without a verdict.
    pub verdict: Verdict,
}

impl PullReviews {
    /// Adds the comments of another author. `approval` and `request` are the numbers of the author's latest reviews
    /// that approve the changes, and that request changes.
    pub fn add(&mut self, comments: u64, approval: Option<u64>, request: Option<u64>) {
        self.comments += comments;
        if request > approval {
            self.verdict = Verdict::RequestChanges;
        } else if approval.is_some() && self.verdict == Verdict::Comment {
            self.verdict = Verdict::Approve;
        }
    }
}

/// A pull request as its code host describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPull {
    /// The number in the repository.
    pub number: u64,
    /// The page.
    pub url: String,
    /// The state.
    pub state: PullState,
    /// `true` if the pull request is a draft.
    pub draft: bool,
    /// The title, without the prefix that marks a draft on some hosts.
    pub title: String,
    /// The description, in Markdown.
    pub body: String,
    /// The branch with the commits.
    pub head: String,
    /// The newest commit of the branch, if the host says.
    pub head_sha: Option<Sha>,
    /// The branch to merge into.
    pub base: String,
    /// `true` if the branch is in another repository.
    pub is_from_fork: bool,
}

/// A change of a pull request; `None` and empty lists change nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PullChange {
    /// The new title.
    pub title: Option<String>,
    /// The new description.
    pub body: Option<String>,
    /// `true` for a draft, `false` for a pull request that is ready.
    pub draft: Option<bool>,
    /// Labels to add.
    pub labels: Vec<String>,
    /// Users, and teams as `owner/team`, to ask for a review.
    pub reviewers: Vec<String>,
    /// Users to assign.
    pub assignees: Vec<String>,
}

impl PullChange {
    /// Returns whether there is nothing to change.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// New texts of a pull request on the built-in code host; `None` keeps the current one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PullText {
    /// The title.
    pub title: Option<String>,
    /// The description.
    pub body: Option<String>,
    /// `true` for a draft, `false` for a pull request that is ready.
    pub draft: Option<bool>,
}

/// The parts of a pull request that lists show, as its code host describes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullSummary {
    /// The title.
    pub title: String,
    /// `true` if the pull request is a draft.
    pub draft: bool,
}

/// A pull request in the index, which finds the job of a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedPull {
    /// The repository.
    pub repository: PullRepository,
    /// The number in the repository.
    pub number: u64,
    /// The job that works on it.
    pub job: JobId,
    /// The project of the job.
    pub project: ProjectId,
    /// The page.
    pub url: String,
    /// The branch with the commits.
    pub head: String,
    /// The newest commit that the job is known to have pushed.
    pub head_sha: Option<Sha>,
    /// The title, as the code host last told it; `None` if an older version stored the pull request.
    pub title: Option<String>,
    /// `true` if it was a draft when the code host was last asked.
    pub draft: bool,
    /// The state, as the code host last told it.
    pub state: PullState,
    /// The time at which the job opened it, or began to work on it.
    pub created_at: Timestamp,
    /// The time at which it was recorded as merged or closed; `None` while it is open, or if an older version recorded
    /// its end.
    pub ended_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_line_position_in_fingerprints_does_not_change() {
        let hunk = "@@ -1 +3 @@\n+\"b\"".to_owned();
        let new = LinePosition { path: "src/a.rs".to_owned(), side: DiffSide::New, line: 3, hunk };
        let old = LinePosition { side: DiffSide::Old, ..new.clone() };
        let text = r#"LinePlace { path: "src/a.rs", side: New, line: 3, hunk: "@@ -1 +3 @@\n+\"b\"" }"#;
        assert_eq!(new.fingerprint_text(), text);
        assert_eq!(old.fingerprint_text(), text.replace("New", "Old"));
    }
}
