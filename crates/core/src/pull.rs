//! Pull requests, and [`ensure`], which opens a pull request for a branch that has none.

pub mod comment;
pub mod decide;

use crate::ids::{MessageId, Sha};
use crate::job::Pull;
use crate::ports::{Forge, ForgeError};
use crate::time::Timestamp;

/// The state of a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PullState {
    /// The pull request is open.
    Open,
    /// The pull request was merged.
    Merged,
    /// The pull request was closed without a merge.
    Closed,
}

impl PullState {
    /// Returns the name on pages and in the store.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Merged => "merged",
            Self::Closed => "closed",
        }
    }
}

/// A pull request to open.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// The commits of the base and the head when the pull request ended, if both branches existed.
    pub ended_between: Option<(Sha, Sha)>,
}

/// The end of a pull request on the built-in code host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullEnding {
    /// [`PullState::Merged`] or [`PullState::Closed`].
    pub state: PullState,
    /// The time of the end.
    pub at: Timestamp,
    /// The commits of the base and the head at that time, if both branches existed.
    pub between: Option<(Sha, Sha)>,
}

/// A comment to add to a pull request on the built-in code host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewComment {
    /// The author.
    pub author: String,
    /// The text, in Markdown.
    pub body: String,
    /// The time of the comment.
    pub at: Timestamp,
    /// The message to the job that was created from the comment.
    pub message: Option<MessageId>,
}

/// A comment on a pull request on the built-in code host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// The number on the pull request, from 1.
    pub place: u64,
    /// The content of the comment.
    pub comment: NewComment,
}

/// The result of [`ensure`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ensured {
    /// An open pull request already existed. It contains the new commits.
    Found(Pull),
    /// The pull request was opened.
    Opened(Pull),
    /// The branch has no commits that its base does not have.
    NoChanges,
}

/// Ensures that the branch `new.head` has an open pull request, and never opens a second one. If the result of an
/// attempt to open one is unclear, searches for it again.
///
/// # Errors
/// Returns the error of the code host. After an unclear attempt, the error means that the second search failed or found
/// no pull request.
pub async fn ensure(forge: &dyn Forge, new: &NewPull) -> Result<Ensured, ForgeError> {
    if let Some(pull) = forge.find_open_pull(&new.head).await? {
        return Ok(Ensured::Found(pull));
    }
    let unclear = match forge.open_pull(new).await {
        Ok(Some(pull)) => return Ok(Ensured::Opened(pull)),
        Ok(None) => return Ok(Ensured::NoChanges),
        Err(error) => error,
    };
    match unclear {
        ForgeError::AlreadyExists | ForgeError::Unclear(_) => match forge.find_open_pull(&new.head).await? {
            Some(pull) => Ok(Ensured::Found(pull)),
            None => Err(unclear),
        },
        _ => Err(unclear),
    }
}
