//! A prebuilt tree for each large repository: the next job moves it into its workspace instead of checking out
//! thousands of files while its client waits.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use journeyman_core::ids::Sha;
use journeyman_core::ports::Sandbox;
use journeyman_core::time::Timestamp;

use crate::error::RunError;
use crate::workspace::git_dirs::create_repository;
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
            tracing::warn!(%error, "a prebuilt tree could not be moved to its place; the files are written instead");
        }
        Ok(())
    }

    /// Starts to build a tree at `head` for the users of `sandbox`, if the repository is large and has no prebuilt
    /// tree. `index` is the index of such a tree. Builds nothing if the files take more than `disk_bytes`.
    pub(crate) async fn make(
        &self,
        mirror: &Mirror,
        head: &Sha,
        index: &Path,
        sandbox: &Arc<dyn Sandbox>,
        disk_bytes: u64,
    ) {
        let path = self.path_of(mirror);
        let is_small = tokio::fs::metadata(index).await.map_or(true, |metadata| metadata.len() < MIN_INDEX_BYTES);
        let is_there = lock(&self.ready).contains(&path) && path.exists();
        if is_small || is_there || !lock(&self.making).insert(path.clone()) {
            return;
        }
        let (making, ready) = (Arc::clone(&self.making), Arc::clone(&self.ready));
        let (mirror, head) = (mirror.clone(), head.clone());
        let sandbox = Arc::clone(sandbox);
        tokio::spawn(async move {
            tokio::time::sleep(PAUSE).await;
            match make(&mirror, &head, &path, &*sandbox, disk_bytes).await {
                Ok(()) => {
                    lock(&ready).insert(path.clone());
                }
                Err(error) => tracing::warn!(%error, "a prebuilt tree could not be built"),
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

async fn make(
    mirror: &Mirror,
    head: &Sha,
    path: &Path,
    sandbox: &dyn Sandbox,
    disk_bytes: u64,
) -> Result<(), RunError> {
    tree_size::check(mirror, head, disk_bytes).await?;
    let draft = path.with_extension("draft");
    for left in [&draft, path] {
        remove_folder(left).await?;
    }
    create_repository(&draft, mirror, head.as_str()).await?;
    mirror.check_out(&draft, head).await?;
    // Before git records the files' metadata: git reads files again whose metadata has changed.
    sandbox.adopt(std::slice::from_ref(&draft)).await?;
    // Git rereads files that were modified in the same second as its index, which are all files of a tree that was
    // checked out within a second. A later index avoids that.
    tokio::time::sleep(NEXT_SECOND).await;
    let refresh = ["update-index", "-q", "--refresh", "--force-write-index"];
    mirror.git.command(refresh).directory(&draft).run().await?;
    Ok(tokio::fs::rename(draft, path).await?)
}

/// Returns the modification time of a tree.
async fn modified_at(tree: &Path) -> Option<Timestamp> {
    let modified = tokio::fs::metadata(tree).await.ok()?.modified().ok()?;
    Some(Timestamp::default() + modified.duration_since(UNIX_EPOCH).ok()?)
}
