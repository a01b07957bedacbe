//! Opens a pull request for a branch that has none.

use std::time::Duration;

use crate::code_host::PullState;
use crate::ids::Sha;
use crate::ports::{CreatedPull, Forge, ForgeError, LockStore};
use crate::pull::{HostPull, NewPull, PullChange};
use crate::time::{Clock, IdGen, Timestamp};

/// The time after which a lock expires. Requests to code hosts have a time limit of 30 s, so the effect of a request
/// whose answer was lost can be seen when the lock has expired.
const LOCK_TIME: Duration = Duration::from_secs(45);

/// The longest time from locking a branch to the beginning of the request that opens its pull request.
const LONGEST_SEARCH: Duration = Duration::from_secs(10);

/// The result of [`Ensure::run`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ensured {
    /// A pull request already existed. It contains the new commits, and may have been merged or closed meanwhile.
    Found(HostPull),
    /// The pull request was opened.
    Opened {
        /// The pull request.
        pull: HostPull,
        /// The labels, reviewers and assignees that could not be set, with the cause, in words.
        incomplete: Vec<String>,
    },
    /// The branch has no commits that its base does not have.
    NoChanges,
    /// Another process is opening the pull request.
    Locked,
}

/// Ensures that a branch has a pull request.
///
/// Code hosts do not guarantee that a branch has only one: a Gitea server made five for six concurrent requests.
/// Therefore the branch is locked in our database, and the host is asked before a pull request is opened, and again
/// after every answer that is not clear.
pub struct Ensure<'a> {
    /// The repository.
    pub forge: &'a dyn Forge,
    /// The locks.
    pub locks: &'a dyn LockStore,
    /// The clock.
    pub clock: &'a dyn Clock,
    /// Generates the ID of the lock's holder.
    pub ids: &'a dyn IdGen,
}

impl Ensure<'_> {
    /// Ensures that the branch `new.head`, whose newest commit is `head`, has a pull request, and never opens a second
    /// one.
    ///
    /// # Errors
    /// Returns the error of the code host. After an unclear attempt, the error means that the second search failed or
    /// found no pull request.
    pub async fn run(&self, new: &NewPull, head: &Sha) -> Result<Ensured, ForgeError> {
        if let Some(pull) = self.find(new, head).await? {
            return Ok(Ensured::Found(pull));
        }
        let unavailable = |error: crate::ports::StoreError| ForgeError::Unclear(error.to_string());
        let repository = self.forge.repository().await?.id;
        let name = format!("pull/{}/{repository}/{}", self.forge.host(), new.head);
        let now = self.clock.now();
        let holder = self.ids.uuid(now);
        if !self.locks.lock(name.clone(), holder, now, LOCK_TIME).await.map_err(unavailable)? {
            return Ok(Ensured::Locked);
        }
        let ensured = self.open(new, head, now + LONGEST_SEARCH).await;
        // After an unclear attempt, the pull request may still appear; the lock then stays until it expires.
        if !matches!(ensured, Err(ForgeError::Unclear(_))) {
            self.locks.unlock(name, holder).await.map_err(unavailable)?;
        }
        ensured
    }

    async fn open(&self, new: &NewPull, head: &Sha, until: Timestamp) -> Result<Ensured, ForgeError> {
        // Another process may have opened one before this process locked the branch.
        if let Some(pull) = self.find(new, head).await? {
            return Ok(Ensured::Found(pull));
        }
        // The process may have been suspended. Its lock must last until the request has ended.
        if self.clock.now() > until {
            return Ok(Ensured::Locked);
        }
        let failed = match self.forge.create_pull(new).await {
            Ok(CreatedPull::Created(pull)) => {
                let incomplete = self.decorate(pull.number, new).await;
                return Ok(Ensured::Opened { pull, incomplete });
            }
            Ok(CreatedPull::NoChanges) => return Ok(Ensured::NoChanges),
            Ok(CreatedPull::AlreadyExists) => {
                ForgeError::Unclear("the branch has an open pull request, which could not be found".to_owned())
            }
            Err(error @ ForgeError::Unclear(_)) => error,
            Err(error) => return Err(error),
        };
        match self.find(new, head).await? {
            Some(pull) => {
                let incomplete = self.decorate(pull.number, new).await;
                Ok(Ensured::Opened { pull, incomplete })
            }
            None => Err(failed),
        }
    }

    /// Finds the open pull request of the branch, or one that has ended with the same commit.
    async fn find(&self, new: &NewPull, head: &Sha) -> Result<Option<HostPull>, ForgeError> {
        let found = self.forge.find_pulls(&new.head).await?;
        let has_ended_here = |pull: &&HostPull| pull.state != PullState::Open && pull.head_sha.as_ref() == Some(head);
        let open = found.iter().find(|pull| pull.state == PullState::Open);
        Ok(open.or_else(|| found.iter().find(has_ended_here)).cloned())
    }

    /// Sets labels, reviewers and assignees, each with its own request, and asks for the merge: the pull request is useful
    /// without them, and one that the host refuses must not prevent the others. Returns what could not be set.
    async fn decorate(&self, number: u64, new: &NewPull) -> Vec<String> {
        let change = PullChange::default;
        let changes = [
            ("labels", PullChange { labels: new.labels.clone(), ..change() }),
            ("reviewers", PullChange { reviewers: new.reviewers.clone(), ..change() }),
            ("assignees", PullChange { assignees: new.assignees.clone(), ..change() }),
        ];
        let mut incomplete = Vec::new();
        for (name, change) in changes.iter().filter(|(_, change)| !change.is_empty()) {
            if let Err(error) = self.forge.update_pull(number, change).await {
                incomplete.push(format!("the {name} of the pull request could not be set: {error}"));
            }
        }
        if new.auto_merge && new.draft {
            incomplete.push("its merge was not requested, because it is a draft".to_owned());
        } else if new.auto_merge
            && let Err(error) = self.forge.auto_merge(number).await
        {
            incomplete.push(format!("its merge could not be requested: {error}"));
        }
        incomplete
    }
}
