//! The marker of a workspace: the state that its tree was in after the last turn.

use std::io;
use std::path::{Path, PathBuf};

use std::os::fd::AsFd;

use journeyman_core::ids::{MessageId, Sha};
use journeyman_core::job::turn::Ending;
use journeyman_core::run::Reason;
use rustix::fs::syncfs;
use serde::{Deserialize, Serialize};

use super::state::TreeState;
use crate::turn::result::Turn;

/// The state of a workspace. Another version of the program may give a field another meaning, so a marker with unknown
/// fields is not valid.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Marker {
    /// The ID of the process that wrote the marker. Files of a tree are not synced, so after a power failure some may
    /// be missing or empty, and a process cannot detect whether there was a power failure since another process wrote
    /// the marker.
    pub(super) instance: String,
    /// The commit that is checked out.
    pub(super) head: Sha,
    /// The objects of the mirror that the repositories of the workspace use. Another URL has another mirror, and a
    /// sandbox sees only that of its turn.
    #[serde(default)]
    pub(super) objects: PathBuf,
    /// The key of the session's archive after the last turn. A turn on another machine may have changed no file, so the
    /// commit alone does not show that this workspace has missed a turn.
    #[serde(default)]
    pub(super) session: Option<String>,
    /// The state of the tree, whose list of files is in another file. In a workspace with an answered turn, it is the
    /// state before the turn.
    pub(super) tree: TreeState,
    /// The turn that the agent has ended here, until its work is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) answered: Option<AnsweredTurn>,
}

/// A turn that the agent has ended, with everything that is needed to collect its work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnsweredTurn {
    pub(super) message: MessageId,
    session: String,
    answer: Option<String>,
    cut_short: Option<Reason>,
    /// The boot of the machine in which the files were written; `None` if they are synced. After another boot, files that
    /// were not synced may be missing.
    pub(super) boot: Option<String>,
}

impl AnsweredTurn {
    /// Returns the record of a turn that no interrupting message has stopped; `None` for one that was stopped, or if the
    /// boot is not known.
    pub(super) async fn of(message: MessageId, turn: &Turn) -> Option<Self> {
        let cut_short = match &turn.ending {
            Ending::Done => None,
            Ending::CutShort(reason) => Some(reason.clone()),
            Ending::Stopped => return None,
        };
        let (session, answer, boot) = (turn.session.clone(), turn.answer.clone(), Some(boot().await?));
        Some(Self { message, session, answer, cut_short, boot })
    }

    /// Returns whether the files of the workspace are as they were after the turn.
    pub(super) async fn is_whole(&self) -> bool {
        self.boot.is_none() || self.boot == boot().await
    }

    pub(super) fn turn(self) -> Turn {
        let ending = self.cut_short.map_or(Ending::Done, Ending::CutShort);
        Turn { session: self.session, ending, answer: self.answer }
    }
}

/// Returns the ID of the machine's current boot; `None` if it cannot be read.
async fn boot() -> Option<String> {
    let id = tokio::fs::read_to_string("/proc/sys/kernel/random/boot_id").await.ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

/// Syncs everything on the file systems of these folders.
pub(super) async fn sync_all(folders: Vec<PathBuf>) -> io::Result<()> {
    let sync = move || folders.iter().try_for_each(|folder| Ok(syncfs(std::fs::File::open(folder)?.as_fd())?));
    tokio::task::spawn_blocking(sync).await.map_err(io::Error::other)?
}

impl Marker {
    /// Returns the marker in a file; `None` if there is no valid one.
    pub(super) async fn read(path: &Path) -> Option<Self> {
        let text = tokio::fs::read(path).await.ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Replaces the marker in a file. When this returns, it survives a crash of the process, and after [`sync_all`] one of
    /// the machine.
    pub(super) async fn write(&self, path: &Path) -> io::Result<()> {
        let text = serde_json::to_string(self).map_err(io::Error::other)?;
        let draft = path.with_extension("draft");
        tokio::fs::write(&draft, text).await?;
        tokio::fs::rename(&draft, path).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_of_another_version_is_not_valid() {
        let head = "a".repeat(40);
        let tree = serde_json::to_string(&TreeState::default()).unwrap();
        let own = format!(r#"{{"instance":"x","head":"{head}","session":null,"tree":{tree}}}"#);
        assert!(serde_json::from_str::<Marker>(&own).is_ok());
        let other = format!(r#"{{"instance":"x","head":"{head}","message":null,"session":null,"tree":{tree}}}"#);
        assert!(serde_json::from_str::<Marker>(&other).is_err());
        let earlier = format!(r#"{{"instance":"x","head":"{head}","session":null,"fingerprint":null}}"#);
        assert!(serde_json::from_str::<Marker>(&earlier).is_err());
    }
}
