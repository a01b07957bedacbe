//! The bare mirrors of repositories: one for each project and repository, shared by all of the project's jobs. The host
//! commits and pushes from a mirror; agents never write to it. Projects do not share mirrors, because a mirror has commits
//! that only the project's jobs may see: those that were not published.

use std::collections::HashMap;
use std::fs::Permissions;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use journeyman_core::branch::unsupported;
use journeyman_core::idempotency::Fingerprint;
use journeyman_core::ids::{JobId, ProjectId, Sha};
use journeyman_core::ports::Remote;
use journeyman_core::run::ReasonCode;
use journeyman_git::{Failure, Git, GitError, KnownConflicts, Output, Route, Service, UNSYNCED_REFS};

use crate::RepositoryError;
use crate::damage::check_packs;
use crate::listing::{self, Branches, refs};
use crate::mirror::Mirror;
use crate::repair::replacement::restore;
use crate::signing::Signer;
use crate::tree_size::TreeSizes;

/// The maximum number of changed refs that are updated without a fetch. More changes mean that the repository is new to
/// this machine.
const MOVED_REFS: usize = 20;

/// The time limit for a fetch.
const FETCH_TIMEOUT: Duration = Duration::from_secs(1800);

/// The number of fetches while the branches of the remote are replaced.
const FETCHES: usize = 3;

/// The file of a mirror with the listing of its remote's refs at the time of the last fetch.
pub(crate) const LISTING: &str = "journeyman-listing";

/// The file of a mirror with the path of the repository on the built-in code host that it follows.
pub(crate) const HOSTED: &str = "journeyman-hosted";

/// The file of a mirror with the ID of its project. Mirrors that versions before 0.10 made have none.
pub(crate) const PROJECT: &str = "journeyman-project";

/// The mirrors of the repositories of a project, on one machine.
#[derive(Debug, Clone)]
pub struct ProjectMirrors {
    all: Arc<Mirrors>,
    project: ProjectId,
}

impl Deref for ProjectMirrors {
    type Target = Mirrors;

    fn deref(&self) -> &Mirrors {
        &self.all
    }
}

/// The mirrors of a machine.
#[derive(Debug)]
pub struct Mirrors {
    pub(crate) git: Git,
    dir: PathBuf,
    /// Fetches into one mirror run one at a time, because git's locks on refs do not wait.
    locks: Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>,
    tree_sizes: TreeSizes,
    pub(crate) conflicts: KnownConflicts,
    signer: Option<Arc<Signer>>,
}

impl Mirrors {
    /// Returns the mirrors that are kept in the folder `dir`, which need not exist.
    #[must_use]
    pub fn new(git: Git, dir: PathBuf) -> Self {
        let (locks, tree_sizes, conflicts) = (Mutex::default(), TreeSizes::default(), KnownConflicts::default());
        Self { git, dir, locks, tree_sizes, conflicts, signer: None }
    }

    /// Signs the commits of jobs.
    #[must_use]
    pub fn signing(mut self, signer: Option<Arc<Signer>>) -> Self {
        self.signer = signer;
        self
    }

    /// Returns the folder of the mirrors.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the mirrors of a project.
    #[must_use]
    pub fn of(self: &Arc<Self>, project: &ProjectId) -> ProjectMirrors {
        ProjectMirrors { all: Arc::clone(self), project: project.clone() }
    }

    /// Returns the path of the mirror with a name.
    fn named(&self, kind: &str, name: &str) -> PathBuf {
        let name = Fingerprint::of(kind, name.as_bytes()).0;
        let name: String = name.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.dir.join(format!("{name}.git"))
    }

    /// Returns whether the mirror at `path` has the commit.
    pub(crate) async fn has(&self, path: &Path, commit: &Sha) -> bool {
        let object = format!("{commit}^{{commit}}");
        path.exists() && self.git.at(path, ["cat-file", "-e", &object]).run().await.is_ok()
    }

    /// Returns the lock of a mirror.
    pub(crate) fn lock(&self, path: &Path) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(locks.entry(path.to_owned()).or_default())
    }
}

impl ProjectMirrors {
    /// Returns the path of the mirror of a remote.
    #[must_use]
    pub fn path(&self, url: &str) -> PathBuf {
        self.named("mirror of a project", &format!("{}\n{url}", self.project))
    }

    /// Updates the mirror of a remote, and creates it if it is missing.
    ///
    /// # Errors
    /// The remote cannot be read, or the mirror cannot be written.
    pub async fn fetch(&self, remote: Remote) -> Result<Mirror, RepositoryError> {
        let path = self.path(&remote.url);
        let lock = self.lock(&path);
        let _held = lock.lock().await;
        restore(&path).await?;
        self.fetch_into(path, remote).await
    }

    /// As [`Mirrors::fetch`], for a caller that may give up waiting. A fetch that has begun goes on then: git that is
    /// killed may leave locks behind, at which later fetches fail.
    ///
    /// # Errors
    /// The remote cannot be read, or the mirror cannot be written.
    pub async fn fetch_to_its_end(&self, remote: Remote) -> Result<Mirror, RepositoryError> {
        let path = self.path(&remote.url);
        let held = self.lock(&path).lock_owned().await;
        let all = self.clone();
        let fetch = async move {
            let _held = held;
            restore(&path).await?;
            all.fetch_into(path, remote).await
        };
        tokio::spawn(fetch).await.map_err(std::io::Error::other)?
    }

    /// Fetches a ref of a remote into its mirror, as the commit of a pull request that a job reviews, and returns the
    /// commit.
    ///
    /// # Errors
    /// The remote has no such ref, or git failed.
    pub async fn fetch_reviewed(&self, mirror: &Mirror, job: JobId, reference: &str) -> Result<Sha, RepositoryError> {
        let lock = self.lock(&mirror.path);
        let _held = lock.lock().await;
        let kept = format!("refs/jobs/{job}/reviewed");
        let refs = format!("+{reference}:{kept}");
        let options = ["--no-tags", "--no-recurse-submodules"];
        self.fetch_objects(&mirror.path, &mirror.remote, &options, &[&refs], false).await?;
        let output = self.git.at(&mirror.path, ["rev-parse", "--verify", &format!("{kept}^{{commit}}")]).run().await?;
        output.shas()?.pop().ok_or_else(|| RepositoryError::failed(ReasonCode::UnknownRef, format!("no {reference}")))
    }

    /// Updates the mirror at `path`, and creates it if it is missing. The caller holds its lock.
    pub(crate) async fn fetch_into(&self, path: PathBuf, remote: Remote) -> Result<Mirror, RepositoryError> {
        let is_new = !path.join("HEAD").exists();
        if is_new {
            tokio::fs::create_dir_all(&self.dir).await?;
            self.git.command(["init", "--quiet", "--bare"]).env("GIT_DIR", &path).run().await?;
            // Programs in sandboxes may read it only once a job of its project names it.
            tokio::fs::set_permissions(&path, Permissions::from_mode(0o700)).await?;
            tokio::fs::write(path.join(PROJECT), self.project.as_str()).await?;
        }
        if !is_new {
            let mirror = path.clone();
            tokio::task::spawn_blocking(move || check_packs(&mirror)).await.map_err(std::io::Error::other)??;
        }
        // Listing the refs is cheap, and usually shows that nothing has changed.
        let listing = self.listing(&path, &remote).await?;
        let Branches { heads, default_branch, names_default_branch } = listing::branches(&listing)?;
        if let Some(text) = heads.values().find_map(|head| unsupported(head.as_str())) {
            return Err(RepositoryError::failed(ReasonCode::RepositoryUnsupported, text));
        }
        let known = path.join(LISTING);
        let before = tokio::fs::read(&known).await.ok();
        if before.as_ref() != Some(&listing) {
            if is_new {
                self.copy_shared(&path, &remote.url).await;
            }
            if !self.move_refs(&path, before.as_deref().unwrap_or_default(), &listing).await {
                self.fetch_refs(&path, &remote, is_new).await?;
            }
            tokio::fs::write(&known, &listing).await?;
        }
        if remote.is_ours && !path.join(HOSTED).exists() {
            tokio::fs::write(path.join(HOSTED), &remote.url).await?;
        }
        let (git, tree_sizes, signer) = (self.git.clone(), self.tree_sizes.clone(), self.signer.clone());
        let conflicts = self.conflicts.clone();
        Ok(Mirror { git, path, remote, heads, default_branch, names_default_branch, tree_sizes, conflicts, signer })
    }

    /// Copies the branches and tags of the mirror that all projects shared before version 0.10, if there is one, so that
    /// a large repository is not fetched again after the upgrade. Commits of jobs are not copied.
    async fn copy_shared(&self, mirror: &Path, url: &str) {
        let shared = self.named("mirror", url);
        if !shared.join("HEAD").exists() {
            return;
        }
        let refs = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];
        let from = shared.to_string_lossy();
        let arguments = ["fetch", "--quiet", "--no-write-fetch-head", "--", &from].into_iter().chain(refs);
        if let Err(error) = self.git.at(mirror, arguments).timeout(FETCH_TIMEOUT).run().await {
            tracing::warn!(mirror = %shared.display(), %error, "a mirror of an earlier version could not be copied");
        }
    }

    /// Returns the listing of the remote's refs.
    async fn listing(&self, mirror: &Path, remote: &Remote) -> Result<Vec<u8>, RepositoryError> {
        let listed = if remote.is_ours {
            // Treating a local repository as a remote would start two more processes.
            let list = ["for-each-ref", listing::FORMAT, "refs/heads", "refs/tags"];
            self.git.at(Path::new(&remote.url), list).run().await
        } else {
            let list = |route: &Route| {
                let refs = ["HEAD", "refs/heads/*", "refs/tags/*"].map(str::to_owned);
                let arguments = ["ls-remote", "--symref"].map(str::to_owned).into_iter().chain(route.reading());
                self.git.at(mirror, arguments.chain(["--".to_owned(), route.address().to_owned()]).chain(refs))
            };
            self.git.ask(remote, Service::Read, list).await
        };
        match listed {
            Ok(output) => Ok(output.stdout),
            Err(error) if remote.is_ours && error.failure() == Failure::Damaged => {
                Err(RepositoryError::damaged(&error))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Fetches the branches and tags of the remote. `is_new` is true if the mirror was just created.
    async fn fetch_refs(&self, mirror: &Path, remote: &Remote, is_new: bool) -> Result<(), RepositoryError> {
        let refs = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];
        let mut attempts_left = FETCHES;
        loop {
            attempts_left -= 1;
            let error = match self.fetch_objects(mirror, remote, &["--prune"], &refs, is_new).await {
                Ok(output) if output.is_of_shallow_clone() => return Err(RepositoryError::shallow()),
                Ok(_) if is_new => {
                    // One file with all refs, which is synced.
                    self.git.at(mirror, ["pack-refs", "--all"]).run().await?;
                    return Ok(());
                }
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            return Err(match error.failure() {
                Failure::NotOurRef if attempts_left > 0 => continue,
                Failure::NotOurRef => RepositoryError::damaged(&error),
                // There is nothing in the mirror that could be damaged.
                Failure::Damaged if is_new => RepositoryError::damaged(&error),
                _ => error.into(),
            });
        }
    }

    /// Fetches refs of a remote into the repository at `into`. The caller holds its lock. The refs of a repository that
    /// is new are not synced, one file for each: 100,000 of them took 283 s instead of 8 s on ext4.
    pub(crate) async fn fetch_objects(
        &self,
        into: &Path,
        remote: &Remote,
        options: &[&str],
        refs: &[&str],
        is_new: bool,
    ) -> Result<Output, GitError> {
        let unsynced = ["-c", UNSYNCED_REFS];
        let fetch = |route: &Route| {
            let begin: &[&str] = if is_new { &unsynced } else { &[] };
            let arguments = begin.iter().chain(&["fetch", "--quiet", "--no-write-fetch-head"]).chain(options);
            let refs = ["--", route.address()].into_iter().chain(refs.iter().copied()).map(str::to_owned);
            let arguments = arguments.map(|text| (*text).to_owned()).chain(route.reading()).chain(refs);
            self.git.at(into, arguments).timeout(FETCH_TIMEOUT)
        };
        self.git.ask(remote, Service::Read, fetch).await
    }

    /// Moves the refs from one listing to the next without a fetch, if the mirror already has all new objects, for
    /// example because this machine pushed them. Returns whether the refs were moved.
    async fn move_refs(&self, mirror: &Path, before: &[u8], now: &[u8]) -> bool {
        let (before, now) = (refs(before), refs(now));
        let new: Vec<(&[u8], &[u8])> =
            now.iter().filter(|(name, at)| before.get(*name) != Some(*at)).map(|(name, at)| (*name, *at)).collect();
        let deleted = before.keys().filter(|name| !now.contains_key(*name));
        if new.is_empty() || new.len() > MOVED_REFS {
            return false;
        }
        // The same check that git makes after a fetch (connected.c): all objects that the new refs lead to exist.
        let wanted: Vec<u8> = new.iter().flat_map(|(_, at)| [*at, b"\n"].concat()).collect();
        let connected = ["rev-list", "--objects", "--stdin", "--not", "--branches", "--tags", "--quiet"];
        if self.git.at(mirror, connected).stdin(wanted).run().await.is_err() {
            return false;
        }
        let updates: Vec<u8> = (new.iter().map(|(name, at)| [b"update ", *name, b" ", *at, b"\n"].concat()))
            .chain(deleted.map(|name| [b"delete ", *name, b"\n"].concat()))
            .flatten()
            .collect();
        self.git.at(mirror, ["update-ref", "--stdin"]).stdin(updates).run().await.is_ok()
    }
}

/// Returns the branches of a mirror's remote at the time of the last fetch, if it is known.
pub(crate) async fn known_branches(mirror: &Path) -> Option<Branches> {
    let listing = tokio::fs::read(mirror.join(LISTING)).await.ok()?;
    listing::branches(&listing).ok()
}

#[cfg(test)]
mod problems;
#[cfg(test)]
mod tests;
