//! The built-in code host: bare repositories in a folder, and pull requests in the service's store.

mod discussion;
mod head;
mod import;
mod maintenance;
mod merge;
mod methods;
mod pages;
mod protect;
mod remove;
mod serve;

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use journeyman_core::code_host::{HostName, HostRepository, PullRepository};
use journeyman_core::ids::{ProjectId, Sha};
use journeyman_core::left_out::path_text;
use journeyman_core::ports::{
    Checks, ComparisonStore, CreatedPull, Discussion, Forge, ForgeError, HostedObjects, ProjectStore, PullPagesError,
    PullStore, Reach, Remote, StoreError, UserStore,
};
use journeyman_core::pull::{HostPull, LocalPull, NewPull, PullChange, PullText};
use journeyman_core::time::Clock;
use journeyman_git::{FileLock, Git, GitError, KnownConflicts, sync_tree};

pub use self::protect::write_hooks;

/// The built-in host. Cheap to clone.
#[derive(Clone)]
pub struct LocalHost {
    git: Git,
    repositories: PathBuf,
    hooks: PathBuf,
    public_url: String,
    pulls: Arc<dyn PullStore>,
    comparisons: Arc<dyn ComparisonStore>,
    users: Arc<dyn UserStore>,
    projects: Arc<dyn ProjectStore>,
    objects: Arc<dyn HostedObjects>,
    clock: Arc<dyn Clock>,
    known_conflicts: KnownConflicts,
}

/// The stores of the built-in host: of pull requests, of their comparisons with their bases, of users and of projects.
type HostStores = (Arc<dyn PullStore>, Arc<dyn ComparisonStore>, Arc<dyn UserStore>, Arc<dyn ProjectStore>);

impl LocalHost {
    pub(crate) fn new(
        git: Git,
        (repositories, hooks): (PathBuf, PathBuf),
        public_url: String,
        (pulls, comparisons, users, projects): HostStores,
        objects: Arc<dyn HostedObjects>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let known_conflicts = KnownConflicts::default();
        Self {
            git,
            repositories,
            hooks,
            public_url,
            pulls,
            comparisons,
            users,
            projects,
            objects,
            clock,
            known_conflicts,
        }
    }

    /// Returns the path of the bare repository with this name, which [`journeyman_core::project::parse_address`] has
    /// validated.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.repositories.join(format!("{name}.git"))
    }

    pub(crate) fn repository(&self, project: &ProjectId, name: String) -> LocalRepository {
        LocalRepository { host: self.clone(), project: project.clone(), name }
    }

    /// Creates an empty repository if it does not exist. Builds it in a temporary folder and renames that, so that an
    /// incomplete repository is never visible.
    pub(crate) async fn prepare(&self, name: &str) -> Result<(), ForgeError> {
        for _ in 0..MAX_ATTEMPTS {
            self.settle_before_use(name).await?;
            let is_new = self.create(name).await?;
            let is_there = is_new || self.mark_prepared(&self.path(name)).await.map_err(|error| disk(&error))?;
            if is_there && !self.is_aside(name) {
                return Ok(());
            }
            // It is being removed, because the last project with it was deleted.
        }
        Err(ForgeError::Unclear(format!("the repository {name} is being removed; try again in a minute")))
    }

    /// Returns false if the repository existed.
    async fn create(&self, name: &str) -> Result<bool, ForgeError> {
        let path = self.path(name);
        if path.join("HEAD").exists() {
            return Ok(false);
        }
        let failed =
            |error: &dyn std::fmt::Display| ForgeError::Unclear(format!("the repository was not created: {error}"));
        tokio::fs::create_dir_all(&self.repositories).await.map_err(|error| failed(&error))?;
        let (building, _lock) = self.building(name).await.map_err(|error| failed(&error))?;
        let init = self.git.command(["init", "--quiet", "--bare", "--initial-branch=main"]);
        init.env("GIT_DIR", &building).run().await.map_err(|error| failed(&error))?;
        // The service checks the key of a push before it starts git.
        let config = self.git.at(&building, ["config", "http.receivepack", "true"]);
        config.run().await.map_err(|error| failed(&error))?;
        let tree = building.clone();
        blocking(move || sync_tree(&tree)).await.map_err(|error| failed(&error))?;
        match tokio::fs::rename(&building, &path).await {
            Ok(()) => {
                let folder = self.repositories.clone();
                blocking(move || std::fs::File::open(folder)?.sync_all()).await.map_err(|error| failed(&error))?;
                Ok(true)
            }
            Err(error) => {
                // If another request created the repository first, that repository is equivalent.
                let _ = tokio::fs::remove_dir_all(&building).await;
                if path.join("HEAD").exists() { Ok(false) } else { Err(failed(&error)) }
            }
        }
    }

    /// Creates and locks an empty folder for a purpose, which the caller removes.
    pub(crate) async fn scratch(&self, name: &str) -> io::Result<(PathBuf, FileLock)> {
        tokio::fs::create_dir_all(&self.repositories).await?;
        self.building(name).await
    }

    /// Creates and locks a folder to build a repository in; concurrent requests get different folders. A folder that is
    /// not locked was left behind by a killed process.
    async fn building(&self, name: &str) -> io::Result<(PathBuf, FileLock)> {
        let moment = self.clock.now().as_micros();
        let mut attempt = 0_u64;
        loop {
            let path = self.repositories.join(format!(".{name}.{moment}.{attempt}"));
            match tokio::fs::create_dir(&path).await {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => attempt += 1,
                made => {
                    made?;
                    match lock(&path) {
                        Some(lock) => return Ok((path, lock)),
                        // Another machine that is starting takes the folder for an abandoned one, and locks or
                        // removes it.
                        None if attempt < MAX_ATTEMPTS => attempt += 1,
                        None => return Err(io::Error::other(format!("{} cannot be locked", path.display()))),
                    }
                }
            }
        }
    }

    /// Returns the commit of a branch; `None` if the branch does not exist.
    async fn branch(&self, path: &Path, branch: &str) -> Result<Option<Sha>, GitError> {
        let name = format!("refs/heads/{branch}^{{commit}}");
        match self.git.at(path, ["rev-parse", "--verify", "--quiet", &name]).run().await {
            Ok(output) => output.sha().map(Some),
            Err(GitError::Failed { code: Some(1), .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the number of commits that a branch has and another one does not.
    async fn commits_ahead(&self, path: &Path, base: &str, head: &str) -> Result<u64, PullPagesError> {
        let range = format!("refs/heads/{base}..refs/heads/{head}");
        let count = self.git.at(path, ["rev-list", "--count", &range, "--"]).run().await;
        match count.and_then(journeyman_git::Output::text) {
            Ok(count) => count.parse().map_err(|_| PullPagesError::Failed("git rev-list printed no number".to_owned())),
            Err(error) => {
                // Usually one of the two branches does not exist. Otherwise git's own error is returned.
                for branch in [base, head] {
                    if let Ok(None) = self.branch(path, branch).await {
                        return Err(PullPagesError::NoBranch(branch.to_owned()));
                    }
                }
                Err(PullPagesError::Failed(error.to_string()))
            }
        }
    }

    fn url(&self, project: &ProjectId, number: u64) -> String {
        format!("{}/projects/{project}/pulls/{number}", self.public_url)
    }
}

/// Runs blocking disk operations.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// The maximum number of folders to try.
const MAX_ATTEMPTS: u64 = 100;

/// Locks a folder with an unfinished repository; `None` if another process holds the lock or has removed the folder.
fn lock(path: &Path) -> Option<FileLock> {
    let lock = FileLock::try_exclusive(File::open(path).ok()?).ok()??;
    let (opened, there) = (lock.metadata().ok()?, path.symlink_metadata().ok()?);
    ((opened.dev(), opened.ino()) == (there.dev(), there.ino())).then_some(lock)
}

/// Returns whether an entry of the repositories folder is an unfinished repository of a dead process.
#[must_use]
pub fn is_unfinished(path: &Path, name: &str) -> bool {
    // The format is `.<name>.<moment>.<attempt>`; a name may contain dots.
    let mut parts = name.rsplitn(3, '.');
    let mut number = || parts.next().is_some_and(|part| part.parse::<u64>().is_ok());
    number() && number() && name.starts_with('.') && lock(path).is_some()
}

/// A repository on the built-in host, from the view of one project.
pub(crate) struct LocalRepository {
    host: LocalHost,
    project: ProjectId,
    name: String,
}

impl LocalRepository {
    fn to_pull(&self, pull: LocalPull) -> HostPull {
        HostPull {
            number: pull.number,
            url: self.host.url(&self.project, pull.number),
            state: pull.state,
            draft: pull.draft,
            title: pull.title,
            body: pull.body,
            head: pull.head,
            head_sha: pull.ended_between.map(|(_, head)| head),
            base: pull.base,
            is_from_fork: false,
        }
    }

    /// Returns the name of the default branch, with escapes if it is not UTF-8.
    async fn default_branch(&self) -> Result<String, GitError> {
        Ok(path_text(&self.host.default_branch(&self.host.path(&self.name)).await?))
    }
}

fn disk(error: &io::Error) -> ForgeError {
    ForgeError::Unclear(format!("the repository was not created: {error}"))
}

fn unclear(error: &GitError) -> ForgeError {
    ForgeError::Unclear(error.to_string())
}

fn store(error: &StoreError) -> ForgeError {
    ForgeError::Unclear(error.to_string())
}

#[async_trait]
impl Forge for LocalRepository {
    fn host(&self) -> HostName {
        HostName::local()
    }

    async fn remote(&self) -> Result<Remote, ForgeError> {
        let url = self.host.path(&self.name).to_string_lossy().into_owned();
        Ok(Remote { url, credential: None, is_ours: true, reach: Reach::Public })
    }

    async fn repository(&self) -> Result<HostRepository, ForgeError> {
        Ok(HostRepository {
            id: self.name.clone(),
            path: self.name.clone(),
            default_branch: self.default_branch().await.ok(),
            can_push: Some(true),
            is_archived: false,
            ci_paths: Vec::new(),
        })
    }

    async fn identity(&self) -> Result<Option<PullRepository>, ForgeError> {
        Ok(Some(PullRepository::local(&self.name)))
    }

    async fn find_pulls(&self, head: &str) -> Result<Vec<HostPull>, ForgeError> {
        let found = self.host.pulls.pulls_of_branch(self.name.clone(), head.to_owned()).await;
        let found = found.map_err(|error| store(&error))?;
        Ok(found.into_iter().map(|pull| self.to_pull(pull)).collect())
    }

    async fn create_pull(&self, new: &NewPull) -> Result<CreatedPull, ForgeError> {
        let path = self.host.path(&self.name);
        let base = match &new.base {
            Some(base) => base.clone(),
            None => self.default_branch().await.map_err(|error| unclear(&error))?,
        };
        match self.host.commits_ahead(&path, &base, &new.head).await {
            Ok(0) => return Ok(CreatedPull::NoChanges),
            Ok(_) => {}
            Err(error @ PullPagesError::NoBranch(_)) => return Err(ForgeError::Refused(error.to_string())),
            Err(error) => return Err(ForgeError::Unclear(error.to_string())),
        }
        let opened = self.host.pulls.open_pull(self.name.clone(), base, new.clone(), self.host.clock.now()).await;
        Ok(match opened.map_err(|error| store(&error))? {
            Some(pull) => CreatedPull::Created(self.to_pull(pull)),
            None => CreatedPull::AlreadyExists,
        })
    }

    async fn pull(&self, number: u64) -> Result<Option<HostPull>, ForgeError> {
        let pull = self.host.pulls.pull(self.name.clone(), number).await.map_err(|error| store(&error))?;
        Ok(pull.map(|pull| self.to_pull(pull)))
    }

    async fn update_pull(&self, number: u64, change: &PullChange) -> Result<(), ForgeError> {
        let PullChange { title, body, draft, .. } = change.clone();
        let changed = self.host.pulls.edit_pull(self.name.clone(), number, PullText { title, body, draft }).await;
        changed.map_err(|error| store(&error))
    }

    fn discussion(&self) -> Option<&dyn Discussion> {
        Some(self)
    }

    fn checks(&self) -> Option<&dyn Checks> {
        None
    }
}
