//! Pull requests, and the one way to open one: look first, then act; after any unclear answer, look again.

use crate::ids::{MessageId, Sha};
use crate::job::Pull;
use crate::ports::{Forge, ForgeError};
use crate::time::Timestamp;

/// How a pull request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PullState {
    /// It can be merged.
    Open,
    /// It was.
    Merged,
    /// It was closed without.
    Closed,
}

impl PullState {
    /// The name on pages and in the store.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Merged => "merged",
            Self::Closed => "closed",
        }
    }
}

/// A pull request that is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPull {
    /// Its title.
    pub title: String,
    /// Its description, in Markdown.
    pub body: String,
    /// The branch with the commits.
    pub head: String,
    /// The branch that they shall go into; `None`: the repository's default branch.
    pub base: Option<String>,
    /// Whether it is a draft.
    pub draft: bool,
    /// Labels to put on.
    pub labels: Vec<String>,
}

/// A pull request at the built-in code host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalPull {
    /// The name of its repository.
    pub repository: String,
    /// Counted from 1 in each repository.
    pub number: u64,
    /// Its title.
    pub title: String,
    /// Its description.
    pub body: String,
    /// How it stands.
    pub state: PullState,
    /// Whether it is a draft.
    pub draft: bool,
    /// The branch with the commits.
    pub head: String,
    /// The branch that they shall go into.
    pub base: String,
    /// Labels on it.
    pub labels: Vec<String>,
    /// When it was opened.
    pub created_at: Timestamp,
    /// When it was merged or closed.
    pub ended_at: Option<Timestamp>,
    /// The commits that it was about when it ended: (base, head).
    pub ended_between: Option<(Sha, Sha)>,
}

/// A comment that is to be added to a pull request of the built-in code host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewComment {
    /// Who wrote it.
    pub author: String,
    /// What, in Markdown.
    pub body: String,
    /// When.
    pub at: Timestamp,
    /// The message to the job that it became.
    pub message: Option<MessageId>,
}

/// A comment on a pull request of the built-in code host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// Counted from 1 on each pull request.
    pub place: u64,
    /// What it says.
    pub comment: NewComment,
}

/// A pull request that is there, and whether this call opened it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ensured {
    /// It was there, and carries the new commits now.
    Found(Pull),
    /// It was opened.
    Opened(Pull),
    /// The branch holds nothing that its base does not.
    NoChanges,
}

/// Makes sure that `new.head` has an open pull request, and never a second one.
///
/// # Errors
/// What the code host said; where it is unclear whether a request took effect, the host was asked again first.
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
