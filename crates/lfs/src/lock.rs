//! The lock that keeps objects from being removed while a client is told that they exist.
//!
//! Requests share it; the removal of objects has it alone. It is a lock of the file system, so it also holds between
//! machines that share the repositories.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use journeyman_git::FileLock;

use crate::disk::blocking;

/// The file in the git directory of a repository that is locked.
const FILE: &str = "journeyman-lfs-lock";

/// The time for which a removal waits for requests.
const PATIENCE: Duration = Duration::from_secs(2);

/// The number of attempts in this time.
const ATTEMPTS: u32 = 20;

/// A lock on the objects of a repository, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "its lock ends with it")] FileLock);

impl Lock {
    /// Waits for the lock of a request.
    ///
    /// # Errors
    /// The repository does not exist ([`io::ErrorKind::NotFound`]), or the disk failed.
    pub(crate) async fn shared(git_dir: &Path) -> io::Result<Self> {
        let git_dir = git_dir.to_owned();
        blocking(move || {
            let file = FileLock::shared(open(&git_dir)?)?;
            // The repository may have been moved aside meanwhile, to be removed, and a new one may have its name.
            let (held, there) = (file.metadata()?, git_dir.join(FILE).symlink_metadata()?);
            match (held.dev(), held.ino()) == (there.dev(), there.ino()) {
                true => Ok(Self(file)),
                false => Err(io::ErrorKind::NotFound.into()),
            }
        })
        .await
    }

    /// Takes the lock of a removal; `None` if requests have it for longer than [`PATIENCE`].
    ///
    /// # Errors
    /// As [`Lock::shared`].
    pub(crate) async fn alone(git_dir: &Path) -> io::Result<Option<Self>> {
        for _ in 0..ATTEMPTS {
            if let Some(lock) = Self::try_alone(git_dir.to_owned()).await? {
                return Ok(Some(lock));
            }
            tokio::time::sleep(PATIENCE / ATTEMPTS).await;
        }
        Self::try_alone(git_dir.to_owned()).await
    }

    async fn try_alone(git_dir: std::path::PathBuf) -> io::Result<Option<Self>> {
        blocking(move || Ok(FileLock::try_exclusive(open(&git_dir)?)?.map(Self))).await
    }
}

fn open(git_dir: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(git_dir.join(FILE))
}
