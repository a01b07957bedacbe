//! The session of an agent between turns: its home, archived in the blob store.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use journeyman_core::checkout::HomeReason;
use journeyman_core::ports::Blobs;

use super::home_archive::{Excess, HomeLimits};
use super::merge_home::merge;
use super::owner::create_like;
use super::remove::remove_folder;
use super::unpack::restore;
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

/// The archive of a home, downloaded to a file.
struct Fetched {
    file: Option<PathBuf>,
    /// `true` if the file is the job's own home, and not the prepared one.
    is_own: bool,
}

/// A home that was not stored or not restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotKept {
    pub(crate) reason: HomeReason,
    /// The cause, as a sentence.
    pub(crate) cause: String,
}

impl NotKept {
    /// Returns what is told if an error means that the home is given up, and not that the run must end.
    fn because(error: &io::Error, what: &str, time: Duration) -> Self {
        let excess = error.get_ref().and_then(|inner| inner.downcast_ref::<Excess>());
        let (reason, why) = match (error.kind(), excess) {
            (ErrorKind::TimedOut, _) => {
                (HomeReason::TooSlow, format!("it took longer than {} seconds", time.as_secs()))
            }
            (_, Some(excess @ Excess::Entries(_))) => (HomeReason::TooManyFiles, excess.to_string()),
            (_, Some(excess @ Excess::Depth(_))) => (HomeReason::TooDeep, excess.to_string()),
            (_, Some(excess @ Excess::Bytes(_))) => (HomeReason::TooLarge, excess.to_string()),
            (ErrorKind::FileTooLarge, None) => {
                let most = Excess::Bytes(HomeLimits::OF_JOBS.bytes);
                (HomeReason::TooLarge, most.to_string())
            }
            _ => (HomeReason::Damaged, format!("its archive cannot be unpacked ({error})")),
        };
        Self { reason, cause: format!("The agent's home could not be {what}: {why}.") }
    }

    fn missing() -> Self {
        let cause = "The agent's home of the last turn is not stored: it was given up then, or its archive is gone.";
        Self { reason: HomeReason::NotStored, cause: cause.to_owned() }
    }
}

impl Session<'_> {
    /// Downloads the archive to a file, or copies the prepared home if there is none. A missing archive is not an error:
    /// the agent then gets the earlier messages as text.
    async fn fetch(&self, workspace: &Workspace) -> Result<Fetched, RunError> {
        if self.archive.is_none() && self.prepared.is_none() {
            return Ok(Fetched { file: None, is_own: false });
        }
        let file = workspace.scratch.file(workspace.job, "session").await?;
        if let Some(key) = self.archive
            && self.blobs.get(key, &file).await?
        {
            return Ok(Fetched { file: Some(file), is_own: true });
        }
        let Some(prepared) = self.prepared else { return Ok(Fetched { file: None, is_own: false }) };
        let is_there = prepared_home::take(prepared, &file).await?;
        Ok(Fetched { file: is_there.then_some(file), is_own: false })
    }

    /// Returns whether the home may have content.
    pub(crate) const fn has_home(&self) -> bool {
        self.archive.is_some() || self.prepared.is_some()
    }
}

impl Workspace {
    /// Replaces the home with the one of the session, and returns what is told if that is not possible: the home is then
    /// new. The tree must belong to the user of the sandbox, to whom the home is given; with the rights of this user, it
    /// is unpacked.
    ///
    /// # Errors
    /// The blob store does not answer, or the disk is full or failed.
    pub(crate) async fn restore_home(&self, session: &Session<'_>) -> Result<Option<NotKept>, RunError> {
        let Fetched { file, is_own } = session.fetch(self).await?;
        self.create_home().await?;
        let Some(file) = file else { return Ok(session.archive.map(|_| NotKept::missing())) };
        let (home, archive) = (self.home.clone(), file.clone());
        let end = Instant::now() + deadline::UNPACK;
        let restored = blocking(move || restore(&home, &archive, HomeLimits::OF_JOBS, end)).await;
        tokio::fs::remove_file(file).await?;
        let lost = match restored {
            Err(error) if !is_disk_full(&error) => {
                tracing::warn!(home = %self.home.display(), %error, is_own, "an agent's home could not be restored");
                self.create_home().await?;
                is_own.then(|| NotKept::because(&error, "restored", deadline::UNPACK))
            }
            restored => {
                restored?;
                None
            }
        };
        // A prepared home does not replace what an earlier turn had.
        Ok(lost.or_else(|| session.archive.filter(|_| !is_own).map(|_| NotKept::missing())))
    }

    /// Creates an empty home, which belongs to the owner of the tree.
    async fn create_home(&self) -> Result<(), RunError> {
        remove_folder(&self.home).await?;
        Ok(create_like(&self.home, &self.tree)?)
    }

    /// Restores the session's home, and merges the home of the setup command into it. Of two files with the same name,
    /// the setup command's is kept, as if it had run in the restored home. Returns what [`Self::restore_home`] does.
    pub(crate) async fn restore_session(&self, session: &Session<'_>) -> Result<Option<NotKept>, RunError> {
        let (setup_home, home) = (self.setup_home(), self.home.clone());
        tokio::fs::rename(&self.home, &setup_home).await?;
        let lost = self.restore_home(session).await?;
        let from = setup_home.clone();
        blocking(move || merge(&from, &home)).await?;
        remove_folder(&setup_home).await?;
        Ok(lost)
    }

    /// Stores the agent's current home under `key`. A home that is too large is not stored, which does not fail the
    /// turn, and is returned: if the workspace is lost, the agent gets the earlier messages as text.
    pub(crate) async fn save_session(&self, blobs: &dyn Blobs, key: &str) -> Result<Option<NotKept>, RunError> {
        self.save_within(blobs, key, HomeLimits::OF_JOBS, Instant::now() + deadline::ARCHIVE).await
    }

    async fn save_within(
        &self,
        blobs: &dyn Blobs,
        key: &str,
        limits: HomeLimits,
        end: Instant,
    ) -> Result<Option<NotKept>, RunError> {
        let (home, file) = (self.home.clone(), self.scratch.file(self.job, "session").await?);
        let archive = file.clone();
        match blocking(move || home_archive::save(&home, &archive, limits, end)).await {
            Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::FileTooLarge) => {
                let lost = NotKept::because(&error, "stored", deadline::ARCHIVE);
                tracing::warn!(home = %self.home.display(), %error, "an agent's home was not stored");
                tokio::fs::remove_file(&file).await?;
                Ok(Some(lost))
            }
            saved => {
                saved?;
                deadline::storing("storing the agent's session", blobs.put(key, &file)).await?;
                Ok(None)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::fixture;

    #[tokio::test]
    async fn a_home_that_is_not_stored_is_returned_with_its_reason() {
        let fixture = fixture("true").await;
        let workspace = &fixture.sandbox.workspace;
        std::fs::create_dir_all(&workspace.home).unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(workspace.home.join(name), vec![7; 10_000]).unwrap();
        }
        let later = Instant::now() + journeyman_testkit::PATIENCE;
        let over = Instant::now() - Duration::from_millis(1);
        for (bytes, entries, end, expected) in [
            (10_000, 10, later, Some((HomeReason::TooLarge, "it has more than 10000 bytes"))),
            (1 << 20, 2, later, Some((HomeReason::TooManyFiles, "it has more than 2 files"))),
            (1 << 20, 10, over, Some((HomeReason::TooSlow, "it took longer than 120 seconds"))),
            (1 << 20, 10, later, None),
        ] {
            let lost = workspace.save_within(&fixture.blobs, "home", HomeLimits { bytes, entries }, end).await.unwrap();
            assert_eq!(lost.as_ref().map(|lost| lost.reason), expected.map(|(reason, _)| reason), "{lost:?}");
            let cause = lost.map(|lost| lost.cause).unwrap_or_default();
            assert!(cause.contains(expected.map_or("", |(_, text)| text)), "{cause}");
            let is_stored = fixture.blobs.get("home", &fixture.dir.path().join("got")).await.unwrap();
            assert_eq!(is_stored, expected.is_none());
        }
    }

    #[tokio::test]
    async fn a_home_that_is_not_restored_is_replaced_by_a_new_one_and_returned() {
        let fixture = fixture("true").await;
        let workspace = &fixture.sandbox.workspace;
        std::fs::create_dir_all(&workspace.tree).unwrap();
        fixture.store_home(&[("note", "text")]).await;
        let (whole, prepared) = (fixture.dir.path().join("whole"), fixture.prepared_home());
        assert!(fixture.blobs.get("home", &whole).await.unwrap());
        std::fs::rename(&whole, &prepared).unwrap();
        let bytes = std::fs::read(&prepared).unwrap();
        let broken = fixture.dir.path().join("broken");
        std::fs::write(&broken, &bytes[..bytes.len() / 2]).unwrap();
        fixture.blobs.put("broken", &broken).await.unwrap();
        let session = |archive, prepared| Session { blobs: &fixture.blobs, archive, prepared };
        let note = || fixture.home("note");
        for (session, expected, text) in [
            (session(Some("home"), None), None, Some("text")),
            (session(Some("broken"), None), Some(HomeReason::Damaged), None),
            (session(Some("gone"), None), Some(HomeReason::NotStored), None),
            (session(Some("gone"), Some(prepared.as_path())), Some(HomeReason::NotStored), Some("text")),
            (session(None, Some(prepared.as_path())), None, Some("text")),
            // The operator finds a prepared home that is damaged in the log; nothing of the job is lost.
            (session(None, Some(broken.as_path())), None, None),
            (session(None, None), None, None),
        ] {
            let lost = workspace.restore_home(&session).await.unwrap();
            let case = (session.archive, session.prepared);
            assert_eq!(lost.map(|lost| lost.reason), expected, "{case:?}");
            assert_eq!(note().as_deref(), text, "{case:?}");
            let left = workspace.home.read_dir().unwrap().count();
            assert_eq!(left, usize::from(text.is_some()), "{case:?}: nothing is left of an archive that is given up");
        }
    }
}
