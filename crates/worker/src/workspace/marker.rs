//! The marker of a workspace: the state that its tree was in after the last turn.

use std::io;
use std::path::{Path, PathBuf};

use journeyman_core::ids::Sha;
use serde::{Deserialize, Serialize};

use super::state::TreeState;

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
    /// The state of the tree, whose list of files is in another file.
    pub(super) tree: TreeState,
}

impl Marker {
    /// Returns the marker in a file; `None` if there is no valid one.
    pub(super) async fn read(path: &Path) -> Option<Self> {
        let text = tokio::fs::read(path).await.ok()?;
        serde_json::from_slice(&text).ok()
    }

    pub(super) async fn write(&self, path: &Path) -> io::Result<()> {
        let text = serde_json::to_string(self).map_err(io::Error::other)?;
        tokio::fs::write(path, text).await
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
