//! A spare tree for each large repository, checked out beforehand: the next job moves it into its place instead of
//! writing thousands of files while somebody waits.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use journeyman_core::ids::Sha;
use journeyman_core::ports::Sandbox;
use journeyman_core::time::Timestamp;

use crate::failure::Stopped;
use crate::mirror::Mirror;
use crate::release::touched;
use crate::removal::remove_folder;
use crate::tree_size;
use crate::workspace::begin_repository;

/// Trees with a smaller index are checked out in a moment. An entry has about 100 bytes (gitformat-index(5)).
const WORTH_IT: u64 = 256 << 10;

/// The agent starts first.
const PAUSE: Duration = Duration::from_secs(1);

/// By then the clock shows another second.
const NEXT_SECOND: Duration = Duration::from_millis(1100);

/// The spare trees of a machine, named after their mirrors. No agent has touched them.
#[derive(Debug)]
pub(crate) struct Spares {
    dir: PathBuf,
    /// Those that are being made.
    making: Arc<Mutex<HashSet<PathBuf>>>,
    /// Trees that this process has built. Their files are not synced, so a power failure may have damaged the trees of
    /// an earlier process.
    ready: Arc<Mutex<HashSet<PathBuf>>>,
}

impl Spares {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir, making: Arc::default(), ready: Arc::default() }
    }

    fn place(&self, mirror: &Mirror) -> PathBuf {
        self.dir.join(mirror.path.file_stem().unwrap_or_default())
    }

    /// Moves the spare tree of a repository to `tree`, if there is one. It stands on some commit of it.
    pub(crate) async fn take(&self, mirror: &Mirror, tree: &Path) -> Result<(), Stopped> {
        let place = self.place(mirror);
        if !lock(&self.ready).remove(&place) {
            return Ok(());
        }
        if let Err(error) = tokio::fs::rename(&place, tree).await {
            // A partial tree must not be mistaken for a complete one.
            remove_folder(tree).await?;
            tracing::warn!(%error, "a prebuilt tree could not be moved to its place; the files are written instead");
        }
        Ok(())
    }

    /// Begins to make a spare tree at `head`, if one is worth it and not there; `index` is that of a tree like it, and it is
    /// given to those who run in `sandbox`.
    /// Does nothing if the files take more than `disk_bytes`.
    pub(crate) async fn make(
        &self,
        mirror: &Mirror,
        head: &Sha,
        index: &Path,
        sandbox: &Arc<dyn Sandbox>,
        disk_bytes: u64,
    ) {
        let place = self.place(mirror);
        let is_small = tokio::fs::metadata(index).await.map_or(true, |note| note.len() < WORTH_IT);
        let is_there = lock(&self.ready).contains(&place) && place.exists();
        if is_small || is_there || !lock(&self.making).insert(place.clone()) {
            return;
        }
        let (making, ready) = (Arc::clone(&self.making), Arc::clone(&self.ready));
        let (mirror, head) = (mirror.clone(), head.clone());
        let sandbox = Arc::clone(sandbox);
        tokio::spawn(async move {
            tokio::time::sleep(PAUSE).await;
            match make(&mirror, &head, &place, &*sandbox, disk_bytes).await {
                Ok(()) => {
                    lock(&ready).insert(place.clone());
                }
                Err(error) => tracing::warn!(%error, "a prebuilt tree could not be made"),
            }
            lock(&making).remove(&place);
        });
    }

    /// Removes those that were made before a moment and not taken since.
    pub(crate) async fn release_older(&self, before: Timestamp) -> io::Result<()> {
        let mut spares = match tokio::fs::read_dir(&self.dir).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            spares => spares?,
        };
        while let Some(spare) = spares.next_entry().await? {
            if touched(&spare.path()).await.is_some_and(|at| at < before) {
                // Renamed first, because one that is half removed must not be taken.
                let gone = self.dir.join("gone");
                if gone.exists() {
                    tokio::fs::remove_dir_all(&gone).await?;
                }
                tokio::fs::rename(spare.path(), &gone).await?;
                tokio::fs::remove_dir_all(gone).await?;
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
    place: &Path,
    sandbox: &dyn Sandbox,
    disk_bytes: u64,
) -> Result<(), Stopped> {
    tree_size::check(mirror, head, disk_bytes).await?;
    let draft = place.with_extension("draft");
    for left in [&draft, place] {
        remove_folder(left).await?;
    }
    begin_repository(&draft, mirror, head.as_str()).await?;
    mirror.check_out(&draft, head).await?;
    // Before git notes how the files look: it reads those again that look otherwise.
    sandbox.adopt(std::slice::from_ref(&draft)).await?;
    // Git reads files again that have the second of its index, to be sure of them: all of a tree that was made in one.
    // With a later index it need not.
    tokio::time::sleep(NEXT_SECOND).await;
    let refresh = ["update-index", "-q", "--refresh", "--force-write-index"];
    mirror.git.command(refresh).directory(&draft).run().await?;
    Ok(tokio::fs::rename(draft, place).await?)
}
