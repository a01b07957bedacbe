//! The working tree that an agent gets.
//!
//! A workspace is kept between turns and used again if it is where the job is; else it is built anew from the mirror,
//! which is always possible: a workspace holds nothing that must not be lost. Host git is run in a tree only before an
//! agent has ever touched it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use journeyman_core::ids::Sha;
use journeyman_core::job::Job;
use journeyman_core::job::command::TurnBegun;
use journeyman_core::ports::Blobs;
use serde::{Deserialize, Serialize};

use crate::archive;
use crate::clerk::set_desk;
use crate::failure::Stopped;
use crate::mirror::Mirror;
use crate::phase;
use crate::removal::remove_folder;
use crate::setup::home::merge;
use crate::spare::Spares;
use crate::tree_size;

/// The file that says where a tree is. It is there between turns only, and without it the tree is not used again.
pub(crate) const MARKER: &str = "marker.json";

/// The folders of one job on this machine.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) tree: PathBuf,
    pub(crate) home: PathBuf,
    /// Where the clerk works ([`crate::clerk`]).
    pub(crate) desk: PathBuf,
    scratch: PathBuf,
    /// The id of this process, from [`crate::worker::Host`].
    instance: Arc<str>,
}

/// Where a workspace is, written beside it.
///
/// One with other fields was written by another version, which may mean something else by it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Marker {
    /// The id of the process that wrote the marker, from [`crate::worker::Host`]. Files of a tree are not synced, so
    /// after a power failure some may be missing or empty, and a process cannot detect whether there was a power
    /// failure since another process wrote the marker.
    instance: String,
    /// The commit that the tree stands on.
    head: Sha,
    /// The session that the turn before left, as its archive is named. A turn on another machine may have changed no
    /// file, so the commit alone does not tell whether this workspace has missed one.
    #[serde(default)]
    session: Option<String>,
    /// How the tree looked then, if it held nothing to commit ([`crate::survey`]).
    #[serde(default)]
    fingerprint: Option<String>,
}

impl Workspace {
    pub(crate) fn new(data: &Path, job: &Job, instance: &Arc<str>) -> Self {
        let root = data.join("workspaces").join(job.id.to_string());
        Self {
            tree: root.join("tree"),
            home: root.join("home"),
            desk: root.join("desk"),
            scratch: data.join("scratch"),
            instance: Arc::clone(instance),
            root,
        }
    }

    /// Whether the tree is ready for a turn at `turn.head` as it is; if so, its fingerprint, if that is known.
    pub(crate) async fn can_be_used(&self, turn: &TurnBegun, session: Option<&str>) -> Option<Option<String>> {
        let marker = self.marker().await?;
        let is_ours = *marker.instance == *self.instance;
        let is_it = is_ours && marker.head == turn.head && marker.session.as_deref() == session;
        let is_whole = self.tree.is_dir() && self.desk.is_dir() && self.home.is_dir();
        (is_it && is_whole).then_some(marker.fingerprint)
    }

    /// All that programs may write.
    pub(crate) fn folders(&self) -> [PathBuf; 3] {
        [self.tree.clone(), self.home.clone(), self.desk.clone()]
    }

    /// The index over the tree that is not the agent's.
    pub(crate) fn index(&self) -> PathBuf {
        self.desk.join("index")
    }

    /// Builds a fresh tree and session, if the files of the commit take no more than `disk_bytes`.
    pub(crate) async fn build(
        &self,
        mirror: &Mirror,
        spares: &Spares,
        turn: &TurnBegun,
        session: &Session<'_>,
        disk_bytes: u64,
    ) -> Result<(), Stopped> {
        tree_size::check(mirror, &turn.head, disk_bytes).await?;
        for note in [self.marker_path(), self.session_path()] {
            remove(&note).await?;
        }
        for folder in [&self.tree, &self.desk, &self.setup_home()] {
            remove_folder(folder).await?;
        }
        tokio::fs::create_dir_all(&self.root).await?;
        spares.take(mirror, &self.tree).await?;
        begin_repository(&self.tree, mirror, &format!("ref: refs/heads/{}", turn.branch)).await?;
        mirror.check_out(&self.tree, &turn.head).await?;
        set_desk(self, mirror, &turn.head).await?;
        let archive = session.fetch(self).await?;
        self.restore(archive).await
    }

    /// Makes the home what `archive` says. One that cannot be restored is no failure, like one that is gone.
    async fn restore(&self, archive: Option<PathBuf>) -> Result<(), Stopped> {
        remove_folder(&self.home).await?;
        let (home, file) = (self.home.clone(), archive.clone());
        let restored = blocking(move || archive::restore(&home, file.as_deref(), archive::HOME_BYTES)).await;
        if let Some(file) = archive {
            tokio::fs::remove_file(file).await?;
        }
        match restored {
            Err(error) if !is_full(&error) => {
                tracing::warn!(home = %self.home.display(), %error, "an agent's session could not be restored");
                remove_folder(&self.home).await?;
                Ok(tokio::fs::create_dir_all(&self.home).await?)
            }
            restored => Ok(restored?),
        }
    }

    /// Restores the session's home, and merges the home of the setup command into it: of two files with the same name,
    /// the setup command's is kept, as if it had run in the restored home.
    pub(crate) async fn restore_session(&self, session: &Session<'_>) -> Result<(), Stopped> {
        let archive = session.fetch(self).await?;
        if archive.is_none() {
            return Ok(());
        }
        let (made, home) = (self.setup_home(), self.home.clone());
        tokio::fs::rename(&self.home, &made).await?;
        self.restore(archive).await?;
        let from = made.clone();
        blocking(move || merge(&from, &home)).await?;
        Ok(remove_folder(&made).await?)
    }

    /// A file for a moment, on the disk of the workspaces.
    pub(crate) async fn scratch(&self, kind: &str) -> Result<PathBuf, Stopped> {
        tokio::fs::create_dir_all(&self.scratch).await?;
        let job = self.root.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(self.scratch.join(format!("{job}.{kind}")))
    }

    /// A turn begins in the tree. If it does not come to its end, whatever it leaves behind goes, in the tree and in the
    /// session: the agent may have put it there to harm the next.
    pub(crate) async fn take(&self) -> Result<(), Stopped> {
        remove(&self.marker_path()).await
    }

    /// Notes where the tree and the session are after a turn.
    pub(crate) async fn mark(&self, head: &Sha, session: &str, fingerprint: Option<String>) -> Result<(), Stopped> {
        let instance = self.instance.to_string();
        let marker = Marker { instance, head: head.clone(), session: Some(session.to_owned()), fingerprint };
        let text = serde_json::to_string(&marker).map_err(std::io::Error::other)?;
        Ok(tokio::fs::write(self.marker_path(), text).await?)
    }

    /// The session that the agent had last in this workspace, also where its turn was not finished.
    pub(crate) async fn session(&self) -> Option<String> {
        tokio::fs::read_to_string(self.session_path()).await.ok()
    }

    /// Notes the agent's session.
    pub(crate) async fn note_session(&self, session: &str) -> Result<(), Stopped> {
        Ok(tokio::fs::write(self.session_path(), session).await?)
    }

    /// Returns the temporary path of the setup command's home.
    fn setup_home(&self) -> PathBuf {
        self.root.join("setup-home")
    }

    fn session_path(&self) -> PathBuf {
        self.root.join("session")
    }

    fn marker_path(&self) -> PathBuf {
        self.root.join(MARKER)
    }

    async fn marker(&self) -> Option<Marker> {
        let text = tokio::fs::read(self.marker_path()).await.ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Stores the agent's home as it is now, under `key`. One that is too large is not stored, and the work of the turn
    /// is not lost for that: where the workspace is gone, the agent is told what was said before.
    pub(crate) async fn save_session(&self, blobs: &dyn Blobs, key: &str) -> Result<(), Stopped> {
        let (home, file) = (self.home.clone(), self.scratch("session").await?);
        let archive = file.clone();
        let deadline = Instant::now() + phase::ARCHIVE;
        match blocking(move || archive::save(&home, &archive, archive::HOME_BYTES, deadline)).await {
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                let seconds = phase::ARCHIVE.as_secs();
                tracing::warn!(
                    home = %self.home.display(), seconds,
                    "storing an agent's home took too long; it was not stored"
                );
                Ok(tokio::fs::remove_file(&file).await?)
            }
            Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                let limit = archive::HOME_BYTES;
                tracing::warn!(home = %self.home.display(), limit, "an agent's home is too large to be stored");
                Ok(tokio::fs::remove_file(&file).await?)
            }
            saved => {
                saved?;
                phase::within(phase::STORE, "storing the agent's session", blobs.put(key, &file)).await
            }
        }
    }
}

/// Returns whether the disk has no space left, or none for the service.
fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

async fn remove(file: &Path) -> Result<(), Stopped> {
    match tokio::fs::remove_file(file).await {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// The session that a fresh workspace begins with.
pub(crate) struct Session<'a> {
    pub(crate) blobs: &'a dyn Blobs,
    /// The blob with the agent's home, if a turn has ended before.
    pub(crate) archive: Option<&'a str>,
}

impl Session<'_> {
    /// The archive as a file. One that is gone is no failure: the agent is told what was said before.
    async fn fetch(&self, workspace: &Workspace) -> Result<Option<PathBuf>, Stopped> {
        let Some(key) = self.archive else { return Ok(None) };
        let file = workspace.scratch("session").await?;
        Ok(self.blobs.get(key, &file).await?.then_some(file))
    }
}

async fn blocking(work: impl FnOnce() -> std::io::Result<()> + Send + 'static) -> std::io::Result<()> {
    tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)?
}

/// A repository with that `HEAD`, whose objects are those of the mirror: what `git init` makes, without a process for it
/// (gitrepository-layout(5)). One that is there keeps its index.
pub(crate) async fn begin_repository(tree: &Path, mirror: &Mirror, head: &str) -> Result<(), Stopped> {
    let git = tree.join(".git");
    for dir in ["objects/info", "objects/pack", "refs/heads", "refs/tags"] {
        tokio::fs::create_dir_all(git.join(dir)).await?;
    }
    let files = [
        ("HEAD", format!("{head}\n")),
        ("config", "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n".to_owned()),
        ("objects/info/alternates", format!("{}\n", mirror.objects().display())),
    ];
    for (name, text) in files {
        tokio::fs::write(git.join(name), text).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_of_another_version_is_none() {
        let head = "a".repeat(40);
        let own = format!(r#"{{"instance":"x","head":"{head}","session":null}}"#);
        assert!(serde_json::from_str::<Marker>(&own).is_ok());
        let other = format!(r#"{{"instance":"x","head":"{head}","message":null,"session":null}}"#);
        assert!(serde_json::from_str::<Marker>(&other).is_err());
    }
}
