//! The session of an agent between turns: its home, archived in the blob store.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use journeyman_core::ports::Blobs;

use super::merge_home::merge;
use super::remove::remove_folder;
use super::{Workspace, home_archive, prepared_home};
use crate::claim::deadline;
use crate::error::RunError;

/// The session that a new workspace starts with.
#[derive(Clone, Copy)]
pub(crate) struct Session<'a> {
    pub(crate) blobs: &'a dyn Blobs,
    /// The blob with the agent's home, if a turn has ended before.
    pub(crate) archive: Option<&'a str>,
    /// The prepared home of the agent, with which a new home begins. The file may not exist.
    pub(crate) prepared: Option<&'a Path>,
}

impl Session<'_> {
    /// Downloads the archive to a file, or copies the prepared home if there is none. A missing archive is not an error:
    /// the agent then gets the earlier messages as text.
    pub(super) async fn fetch(&self, workspace: &Workspace) -> Result<Option<PathBuf>, RunError> {
        if self.archive.is_none() && self.prepared.is_none() {
            return Ok(None);
        }
        let file = workspace.scratch.file(workspace.job, "session").await?;
        if let Some(key) = self.archive
            && self.blobs.get(key, &file).await?
        {
            return Ok(Some(file));
        }
        let Some(prepared) = self.prepared else { return Ok(None) };
        Ok(prepared_home::take(prepared, &file).await?.then_some(file))
    }

    /// Returns whether the home may have content.
    pub(crate) const fn has_home(&self) -> bool {
        self.archive.is_some() || self.prepared.is_some()
    }
}

impl Workspace {
    /// Replaces the home with the content of `archive`. A damaged archive is not an error, like a missing one.
    pub(super) async fn restore_home(&self, archive: Option<PathBuf>) -> Result<(), RunError> {
        remove_folder(&self.home).await?;
        let (home, file) = (self.home.clone(), archive.clone());
        let restored = blocking(move || home_archive::restore(&home, file.as_deref(), home_archive::HOME_BYTES)).await;
        if let Some(file) = archive {
            tokio::fs::remove_file(file).await?;
        }
        match restored {
            Err(error) if !is_disk_full(&error) => {
                tracing::warn!(home = %self.home.display(), %error, "an agent's session could not be restored");
                remove_folder(&self.home).await?;
                Ok(tokio::fs::create_dir_all(&self.home).await?)
            }
            restored => Ok(restored?),
        }
    }

    /// Restores the session's home, and merges the home of the setup command into it. Of two files with the same name,
    /// the setup command's is kept, as if it had run in the restored home.
    pub(crate) async fn restore_session(&self, session: &Session<'_>) -> Result<(), RunError> {
        let archive = session.fetch(self).await?;
        if archive.is_none() {
            return Ok(());
        }
        let (setup_home, home) = (self.setup_home(), self.home.clone());
        tokio::fs::rename(&self.home, &setup_home).await?;
        self.restore_home(archive).await?;
        let from = setup_home.clone();
        blocking(move || merge(&from, &home)).await?;
        Ok(remove_folder(&setup_home).await?)
    }

    /// Stores the agent's current home under `key`. A home that is too large is not stored, which does not fail the
    /// turn: if the workspace is lost, the agent gets the earlier messages as text.
    pub(crate) async fn save_session(&self, blobs: &dyn Blobs, key: &str) -> Result<(), RunError> {
        let (home, file) = (self.home.clone(), self.scratch.file(self.job, "session").await?);
        let archive = file.clone();
        let end = Instant::now() + deadline::ARCHIVE;
        match blocking(move || home_archive::save(&home, &archive, home_archive::HOME_BYTES, end)).await {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                let seconds = deadline::ARCHIVE.as_secs();
                tracing::warn!(
                    home = %self.home.display(), seconds,
                    "archiving an agent's home took too long; it was not stored"
                );
                Ok(tokio::fs::remove_file(&file).await?)
            }
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                let limit = home_archive::HOME_BYTES;
                tracing::warn!(home = %self.home.display(), limit, "an agent's home is too large to be stored");
                Ok(tokio::fs::remove_file(&file).await?)
            }
            saved => {
                saved?;
                deadline::storing("storing the agent's session", blobs.put(key, &file)).await
            }
        }
    }
}

/// Returns whether the disk has no space left, or none for the service.
pub(super) fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

async fn blocking(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
