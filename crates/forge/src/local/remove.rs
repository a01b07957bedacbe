//! The removal of repositories whose projects were deleted.
//!
//! Invariants:
//!
//! - A repository that a project uses is not removed. It is moved aside first, and the projects are read after that. One
//!   that a project is just being created with stays until that project exists, or does not.
//! - A repository that was moved aside is either moved back or removed with everything that has its name. Until then, no
//!   other repository gets the name.
//! - Each step can be repeated: a process that dies leaves the folder, which the next attempt finds.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use journeyman_core::ports::ForgeError;
use journeyman_core::project::{Address, parse_address};
use journeyman_core::time::Timestamp;

use super::{LocalHost, blocking, lock};

/// The ending of the names of folders with repositories that were moved aside.
const REMOVED: &str = ".removed";

/// The file in a repository with the time at which a project was about to use it, in microseconds since 1970.
const PREPARED: &str = "journeyman-prepared";

/// The time after which a project that was about to use a repository exists, or never will.
const CREATION: Duration = Duration::from_secs(600);

/// What became of a repository that was moved aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settled {
    /// There was none, or it was removed.
    Removed,
    /// A project uses it, so it is where it was.
    Kept,
    /// A project is being created with it, so it is where it was.
    Awaited,
}

impl LocalHost {
    /// Returns the folder into which a repository is moved before it is removed.
    fn aside(&self, name: &str) -> PathBuf {
        self.repositories.join(format!(".{name}{REMOVED}"))
    }

    /// Removes a repository, unless a project uses it.
    pub(crate) async fn remove(&self, name: &str) -> Result<(), ForgeError> {
        let (path, aside) = (self.path(name), self.aside(name));
        if !aside.exists() {
            if !path.exists() || self.is_used(name).await? {
                return Ok(());
            }
            match tokio::fs::rename(&path, &aside).await {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                moved => moved.map_err(|error| failed(&error))?,
            }
            self.sync_folder().await?;
        }
        match self.settle(name).await? {
            Settled::Awaited => Err(failed(&format!("a project is being created with the repository {name}"))),
            Settled::Removed | Settled::Kept => Ok(()),
        }
    }

    /// Finishes removals that were interrupted.
    ///
    /// # Errors
    /// The store, the disk or the blob store failed. The next attempt continues.
    pub async fn finish_removals(&self) -> Result<(), ForgeError> {
        let folder = self.repositories.clone();
        let names = blocking(move || names_aside(&folder)).await.map_err(|error| failed(&error))?;
        for name in names {
            self.settle(&name).await?;
        }
        Ok(())
    }

    /// Moves a repository back that was moved aside and that a project uses, or removes it.
    async fn settle(&self, name: &str) -> Result<Settled, ForgeError> {
        let (path, aside) = (self.path(name), self.aside(name));
        if !aside.exists() {
            return Ok(Settled::Removed);
        }
        let held = lock(&aside);
        let _held = held.ok_or_else(|| failed(&format!("another process is removing the repository {name}")))?;
        let is_used = self.is_used(name).await?;
        let is_prepared = prepared_at(&aside).await.is_some_and(|at| self.clock.now().since(at) < CREATION);
        if is_used || is_prepared {
            tokio::fs::rename(&aside, &path).await.map_err(|error| failed(&error))?;
            self.sync_folder().await?;
            return Ok(if is_used { Settled::Kept } else { Settled::Awaited });
        }
        self.pulls.remove_pulls(name.to_owned()).await.map_err(|error| failed(&error))?;
        self.objects.remove(name, &aside).await.map_err(|error| failed(&error))?;
        tokio::fs::remove_dir_all(&aside).await.map_err(|error| failed(&error))?;
        self.sync_folder().await?;
        tracing::info!(repository = name, "the repository of a deleted project was removed");
        Ok(Settled::Removed)
    }

    /// Makes sure that no removal of a repository with this name is unfinished, before a project is created with it.
    pub(super) async fn settle_before_use(&self, name: &str) -> Result<(), ForgeError> {
        self.settle(name).await.map(|_| ())
    }

    /// Returns whether a repository with this name was moved aside.
    pub(super) fn is_aside(&self, name: &str) -> bool {
        self.aside(name).exists()
    }

    /// Records that a project is about to use an existing repository. Returns false if the repository does not exist.
    pub(super) async fn mark_prepared(&self, path: &Path) -> io::Result<bool> {
        let now = self.clock.now().as_micros().to_string();
        match tokio::fs::write(path.join(PREPARED), now).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            // It may have been moved aside before.
            written => written.map(|()| path.join("HEAD").exists()),
        }
    }

    /// Returns whether a project has the repository with this name.
    async fn is_used(&self, name: &str) -> Result<bool, ForgeError> {
        let all = self.projects.projects().await.map_err(|error| failed(&error))?;
        let uses = |repository: &str| parse_address(repository) == Ok(Address::Local(name.to_owned()));
        Ok(all.iter().any(|project| uses(&project.repository)))
    }

    async fn sync_folder(&self) -> Result<(), ForgeError> {
        let folder = self.repositories.clone();
        blocking(move || std::fs::File::open(folder)?.sync_all()).await.map_err(|error| failed(&error))
    }
}

async fn prepared_at(repository: &Path) -> Option<Timestamp> {
    let text = tokio::fs::read_to_string(repository.join(PREPARED)).await.ok()?;
    text.parse().ok().map(Timestamp::from_micros)
}

/// Returns the names of the repositories that were moved aside.
fn names_aside(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let Ok(name) = entry?.file_name().into_string() else { continue };
        names.extend(name.strip_prefix('.').and_then(|name| name.strip_suffix(REMOVED)).map(str::to_owned));
    }
    names.sort_unstable();
    Ok(names)
}

fn failed(error: &dyn std::fmt::Display) -> ForgeError {
    ForgeError::Unclear(format!("the repository was not removed: {error}"))
}
