//! A prebuilt tree for each large repository: the next job moves it into its workspace instead of checking out
//! thousands of files while its client waits.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use journeyman_core::ids::Sha;
use journeyman_core::project::LimitSettings;
use journeyman_core::time::Timestamp;

use super::Workspace;
use super::checkout::Checkout;
use super::git_dirs::{create_commit_dir, create_repository};
use crate::claim::lease::Signals;
use crate::error::RunError;
use crate::sandbox::job_sandbox::{JobSandbox, Readable};
use crate::workspace::remove::remove_folder;
use journeyman_repository::{Mirror, tree_size};

/// Trees with a smaller index in bytes are checked out quickly. An entry has about 100 bytes (gitformat-index(5)).
const MIN_INDEX_BYTES: u64 = 256 << 10;

/// The delay before a tree is built, so that the agent starts first.
const PAUSE: Duration = Duration::from_secs(1);

/// The time after which the clock shows another second.
const NEXT_SECOND: Duration = Duration::from_millis(1100);

/// The prebuilt trees of a machine, named after their mirrors. No agent has had access to them.
#[derive(Debug)]
pub(crate) struct PrebuiltTrees {
    dir: PathBuf,
    /// The trees that are being built.
    making: Arc<Mutex<HashSet<PathBuf>>>,
    /// Trees that this process has built. Their files are not synced, so a power failure may have damaged the trees of
    /// an earlier process.
    ready: Arc<Mutex<HashSet<PathBuf>>>,
}

impl PrebuiltTrees {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir, making: Arc::default(), ready: Arc::default() }
    }

    fn path_of(&self, mirror: &Mirror) -> PathBuf {
        self.dir.join(mirror.path.file_stem().unwrap_or_default())
    }

    /// Moves the prebuilt tree of a repository to `tree`, if there is one. The tree may have any commit of the
    /// repository checked out.
    pub(crate) async fn take(&self, mirror: &Mirror, tree: &Path) -> Result<(), RunError> {
        let path = self.path_of(mirror);
        if !lock(&self.ready).remove(&path) {
            return Ok(());
        }
        if let Err(error) = tokio::fs::rename(&path, tree).await {
            // A partial tree must not be mistaken for a complete one.
            remove_folder(tree).await?;
            tracing::warn!(%error, "a prebuilt tree could not be moved to its folder; the files are written instead");
        }
        Ok(())
    }

    /// Starts to build a tree at a commit as for a job, if the repository is large and has no prebuilt tree.
    pub(crate) async fn make(&self, job: &Checkout<'_>) {
        let path = self.path_of(job.mirror);
        let index = job.sandbox.workspace.index();
        let is_small = tokio::fs::metadata(index).await.map_or(true, |metadata| metadata.len() < MIN_INDEX_BYTES);
        let is_there = lock(&self.ready).contains(&path) && path.exists();
        if is_small || is_there || !lock(&self.making).insert(path.clone()) {
            return;
        }
        let (making, ready) = (Arc::clone(&self.making), Arc::clone(&self.ready));
        let draft = path.with_extension("draft");
        let (tree, home, commit_dir) = (draft.join("tree"), draft.join("home"), draft.join("commit"));
        let workspace = Workspace { root: draft.clone(), tree, home, commit_dir, ..job.sandbox.workspace.clone() };
        let order = Order {
            sandbox: job.sandbox.with_workspace(workspace, Readable::new(job.mirror.objects())),
            environment: job.environment.clone(),
            // The tree outlives the run of the job.
            signals: Signals { shutdown: job.signals.shutdown.clone(), ..Signals::default() },
            limits: job.limits.clone(),
            mirror: job.mirror.clone(),
            commit: job.commit.clone(),
        };
        tokio::spawn(async move {
            tokio::time::sleep(PAUSE).await;
            match order.make(&path).await {
                Ok(()) => {
                    lock(&ready).insert(path.clone());
                }
                Err(error) => tracing::warn!(%error, "a prebuilt tree could not be built"),
            }
            if let Err(error) = remove_folder(&draft).await {
                tracing::warn!(%error, "the folder of a prebuilt tree could not be removed");
            }
            lock(&making).remove(&path);
        });
    }

    /// Removes the trees that were built before a time and not used since.
    pub(crate) async fn remove_older(&self, before: Timestamp) -> io::Result<()> {
        let mut trees = match tokio::fs::read_dir(&self.dir).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            trees => trees?,
        };
        while let Some(tree) = trees.next_entry().await? {
            if modified_at(&tree.path()).await.is_some_and(|at| at < before) {
                // Renamed first, because a half-removed tree must not be used.
                let gone = self.dir.join("gone");
                remove_folder(&gone).await?;
                tokio::fs::rename(tree.path(), &gone).await?;
                remove_folder(&gone).await?;
            }
        }
        Ok(())
    }
}

fn lock(making: &Mutex<HashSet<PathBuf>>) -> std::sync::MutexGuard<'_, HashSet<PathBuf>> {
    making.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a tree is built from.
struct Order {
    sandbox: JobSandbox,
    environment: BTreeMap<String, String>,
    signals: Signals,
    limits: LimitSettings,
    mirror: Mirror,
    commit: Sha,
}

impl Order {
    /// Builds the tree, and moves it to `path`.
    async fn make(&self, path: &Path) -> Result<(), RunError> {
        let Self { sandbox, environment, signals, limits, mirror, commit } = self;
        tree_size::check(mirror, commit, limits.disk_bytes()).await?;
        let workspace = &sandbox.workspace;
        for left in [&workspace.root, path] {
            remove_folder(left).await?;
        }
        tokio::fs::create_dir_all(&workspace.home).await?;
        create_repository(&workspace.tree, mirror, commit, None).await?;
        create_commit_dir(workspace, mirror, commit).await?;
        sandbox.adopt_folders().await?;
        let checkout = Checkout { sandbox, environment, signals, limits, mirror, commit };
        checkout.write().await?;
        // A later index, because git rereads files that were written in the same second as its index, which are all files
        // of a tree that was checked out within a second.
        tokio::time::sleep(NEXT_SECOND).await;
        checkout.refresh().await?;
        Ok(tokio::fs::rename(&workspace.tree, path).await?)
    }
}

/// Returns the modification time of a tree.
async fn modified_at(tree: &Path) -> Option<Timestamp> {
    let modified = tokio::fs::metadata(tree).await.ok()?.modified().ok()?;
    Some(Timestamp::default() + modified.duration_since(UNIX_EPOCH).ok()?)
}
