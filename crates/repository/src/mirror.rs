//! The mirror of a repository: its bare repository, and what is known about its remote.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use journeyman_core::ids::Sha;
use journeyman_core::ports::Remote;
use journeyman_core::pull::base_comparison::Conflicts;
use journeyman_git::{Folders, Git, KnownConflicts};

use crate::RepositoryError;
use crate::signing::Signer;
use crate::sync::{folders_of, sync};
use crate::tree_size::TreeSizes;

/// A mirror, and the branches of its remote at the time of the last fetch.
#[derive(Debug, Clone)]
pub struct Mirror {
    /// The runner of git on the host.
    pub git: Git,
    /// The bare repository.
    pub path: PathBuf,
    /// The remote that the mirror follows.
    pub remote: Remote,
    /// The newest commit of each branch of the remote whose name is UTF-8.
    pub heads: BTreeMap<String, Sha>,
    /// The default branch of the remote. It is not in `heads` if its name is not UTF-8; the name then has escapes.
    pub default_branch: Option<String>,
    /// True if the remote names its default branch; otherwise `default_branch` is a guess.
    pub names_default_branch: bool,
    /// The known sizes of commits' trees, in any mirror of this machine.
    pub tree_sizes: TreeSizes,
    /// The known conflicts between commits, in any mirror of this machine.
    pub conflicts: KnownConflicts,
    /// Signs the commits of jobs, if the server has a key for that.
    pub signer: Option<Arc<Signer>>,
}

impl Mirror {
    /// Creates or moves the ref `refs/jobs/{name}`, which protects the commit from garbage collection and names it for
    /// people who inspect the mirror.
    ///
    /// # Errors
    /// Git failed.
    pub async fn keep(&self, name: &str, commit: &Sha) -> Result<(), RepositoryError> {
        self.git.at(&self.path, ["update-ref", &format!("refs/jobs/{name}"), commit.as_str()]).run().await?;
        Ok(())
    }

    /// Returns the files in which two commits, a base and a head, conflict.
    ///
    /// # Errors
    /// Git failed, for example because the commits have no history in common.
    pub async fn conflicts_between(&self, base: &Sha, head: &Sha) -> Result<Conflicts, RepositoryError> {
        Ok(self.conflicts.between(&self.git, &self.path, (base.clone(), head.clone())).await?)
    }

    /// Records the folders of the mirror before commits are written to it; [`Mirror::sync`] then makes the commits
    /// durable.
    ///
    /// # Errors
    /// The mirror cannot be read.
    pub async fn folders(&self) -> Result<Folders, RepositoryError> {
        folders_of(&self.path).await
    }

    /// Syncs everything that was written to the mirror since its folders were recorded.
    ///
    /// # Errors
    /// The disk failed.
    pub async fn sync(&self, folders: Folders) -> Result<(), RepositoryError> {
        sync(folders).await
    }

    /// Returns the folder of the mirror's objects.
    #[must_use]
    pub fn objects(&self) -> PathBuf {
        self.path.join("objects")
    }
}
