//! Compares pull requests with the branches that they are merged into. Those of the built-in host are compared in its
//! repository, others in the mirror of this machine, after a fetch.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::code_host::{HostName, PullRef, PullRepository, PullState};
use journeyman_core::ids::Sha;
use journeyman_core::ports::{BaseComparisons, Effort, Forge, Forges, NotCompared, OpenedRepository};
use journeyman_core::project::Project;
use journeyman_core::pull::HostPull;
use journeyman_core::pull::base_comparison::{BaseComparison, Conflicts, MAX_BEHIND};
use journeyman_core::pull::compared::{Compared, NoComparison};
use journeyman_git::{Git, GitError};
use tokio::time::Instant;

use crate::Mirrors;

/// The time for which a code host is not asked again about a pull request whose base a person may have changed.
const FRESH: Duration = Duration::from_secs(60);

/// As [`FRESH`], for comparisons that are repeated all the time ([`Effort::Complete`]), so that the open pull requests
/// of a project do not use up the rate limit.
const REPEATED: Duration = Duration::from_secs(600);

/// The maximum number of pull requests about which a code host is asked in one comparison of a project
/// ([`Effort::Complete`]). The others are compared by older answers, and those without an answer by a later call.
const MOST_ASKED: usize = 20;

/// The maximum number of pull requests that are remembered. When a new one would exceed it, all others are removed.
const MAX_PULLS: usize = 10_000;

/// Compares pull requests of all code hosts. Cheap to clone.
#[derive(Clone)]
pub struct MirrorComparisons {
    forges: Arc<dyn Forges>,
    mirrors: Arc<Mirrors>,
    pulls: Arc<Mutex<Pulls>>,
}

/// Pull requests as their code hosts describe them, with the time of the answer.
type Pulls = HashMap<(PullRepository, u64), (HostPull, Instant)>;

impl MirrorComparisons {
    /// Returns a comparison that uses these mirrors.
    #[must_use]
    pub fn new(forges: Arc<dyn Forges>, mirrors: Arc<Mirrors>) -> Self {
        Self { forges, mirrors, pulls: Arc::default() }
    }

    fn pulls(&self) -> MutexGuard<'_, Pulls> {
        self.pulls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(error: impl ToString) -> NotCompared {
    NotCompared(error.to_string())
}

#[async_trait]
impl BaseComparisons for MirrorComparisons {
    async fn open(&self, project: &Project, effort: Effort) -> Result<Box<dyn OpenedRepository>, NotCompared> {
        let forge = self.forges.of(project).await.map_err(failed)?;
        let remote = forge.remote().await.map_err(failed)?;
        let git = self.mirrors.git.clone();
        let (path, heads) = if remote.is_ours {
            // The two branches are read when they are needed: a repository may have those of very many jobs.
            (PathBuf::from(&remote.url), None)
        } else {
            let mirrors = self.mirrors.of(&project.id);
            if effort == Effort::Quick && !mirrors.path(&remote.url).join("HEAD").exists() {
                return Err(failed("this machine does not have the repository yet"));
            }
            let mirror = mirrors.fetch_to_its_end(remote).await.map_err(failed)?;
            (mirror.path, Some(mirror.heads))
        };
        let id = forge.repository().await.map_err(failed)?.id;
        let repository = PullRepository { host: forge.host(), id };
        let (fresh, most_asked) = match effort {
            Effort::Quick => (FRESH, usize::MAX),
            Effort::Complete => (REPEATED, MOST_ASKED),
        };
        let asks = AtomicUsize::new(most_asked);
        Ok(Box::new(AtOnce { all: self.clone(), forge, repository, git, path, heads, fresh, asks }))
    }
}

/// The branches of a repository at one moment.
struct AtOnce {
    all: MirrorComparisons,
    forge: Arc<dyn Forge>,
    repository: PullRepository,
    git: Git,
    path: PathBuf,
    /// The branches of a remote; `None` for a repository of the built-in host.
    heads: Option<BTreeMap<String, Sha>>,
    /// The time for which the code host is not asked again about a pull request.
    fresh: Duration,
    /// The number of pull requests about which the code host may still be asked.
    asks: AtomicUsize,
}

#[async_trait]
impl OpenedRepository for AtOnce {
    async fn compare(&self, pull: &PullRef) -> Result<Compared, NotCompared> {
        if pull.repository != self.repository {
            return Ok(Err(NoComparison::OtherRepository));
        }
        let (head, base) = match self.pull(pull.number).await? {
            Some(HostPull { state: PullState::Open, is_from_fork: false, head, base, .. }) => (head, base),
            Some(HostPull { state: PullState::Open, .. }) => return Ok(Err(NoComparison::InFork)),
            _ => return Ok(Err(NoComparison::Ended)),
        };
        let (Some(base_sha), Some(head_sha)) = (self.newest(&base).await?, self.newest(&head).await?) else {
            return Ok(Err(NoComparison::BranchMissing));
        };
        let behind = behind(&self.git, &self.path, &base_sha, &head_sha).await.map_err(failed)?;
        let ends = (base_sha.clone(), head_sha.clone());
        let conflicts = match behind {
            0 => Conflicts::default(),
            _ => self.all.mirrors.conflicts.between(&self.git, &self.path, ends).await.map_err(failed)?,
        };
        Ok(Ok(BaseComparison { base, base_sha, head_sha, behind, conflicts }))
    }
}

impl AtOnce {
    /// Returns the newest commit of a branch; `None` if it does not exist.
    async fn newest(&self, branch: &str) -> Result<Option<Sha>, NotCompared> {
        if let Some(heads) = &self.heads {
            return Ok(heads.get(branch).cloned());
        }
        let name = format!("refs/heads/{branch}^{{commit}}");
        match self.git.at(&self.path, ["rev-parse", "--verify", "--quiet", &name]).run().await {
            Ok(output) => output.sha().map(Some).map_err(failed),
            Err(GitError::Failed { code: Some(1), .. }) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Takes one of the requests that are left.
    fn may_ask(&self) -> bool {
        self.asks.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    }

    /// Returns a pull request as its code host describes it now, or did a short time ago.
    async fn pull(&self, number: u64) -> Result<Option<HostPull>, NotCompared> {
        let key = (self.repository.clone(), number);
        let is_local = self.repository.host == HostName::local();
        let known = self.all.pulls().get(&key).cloned();
        if let Some((pull, _)) = known.as_ref().filter(|(_, at)| at.elapsed() < self.fresh) {
            return Ok(Some(pull.clone()));
        }
        if !is_local && !self.may_ask() {
            let later = || NotCompared("the code host is asked about this pull request later".to_owned());
            return known.map(|(pull, _)| Some(pull)).ok_or_else(later);
        }
        let found = self.forge.pull(number).await.map_err(failed)?;
        // The built-in host is asked each time, which costs no request.
        if let Some(pull) = found.as_ref().filter(|_| !is_local) {
            let mut pulls = self.all.pulls();
            if pulls.len() >= MAX_PULLS {
                pulls.clear();
            }
            pulls.insert(key, (pull.clone(), Instant::now()));
        }
        Ok(found)
    }
}

/// Returns the number of commits of `base` that `head` does not have, at most [`MAX_BEHIND`].
async fn behind(git: &Git, repository: &Path, base: &Sha, head: &Sha) -> Result<u64, GitError> {
    let (most, range) = (format!("--max-count={MAX_BEHIND}"), format!("{head}..{base}"));
    let counted = git.at(repository, ["rev-list", "--count", &most, &range, "--"]).run().await?.text()?;
    let unexpected =
        |_| GitError::Unexpected { command: "rev-list".to_owned(), detail: format!("{counted:?} is no number") };
    counted.parse().map_err(unexpected)
}

#[cfg(test)]
mod tests;
