//! Builds a workspace from the mirror.

use journeyman_core::job::turn::TurnBegun;
use journeyman_repository::{Mirror, tree_size};

use super::git_dirs::{create_commit_dir, create_repository};
use super::prebuilt::PrebuiltTrees;
use super::remove::remove_folder;
use super::{Workspace, remove_file};
use crate::error::RunError;

impl Workspace {
    /// Builds a workspace with an empty home and without the files of the commit ([`super::checkout`]), if the files take no
    /// more than `disk_bytes`.
    pub(crate) async fn build(
        &self,
        mirror: &Mirror,
        prebuilt: &PrebuiltTrees,
        turn: &TurnBegun,
        disk_bytes: u64,
    ) -> Result<(), RunError> {
        tree_size::check(mirror, &turn.head, disk_bytes).await?;
        for file in [self.marker_path(), self.session_path()] {
            remove_file(&file).await?;
        }
        for folder in [&self.tree, &self.home, &self.commit_dir, &self.setup_home()] {
            remove_folder(folder).await?;
        }
        tokio::fs::create_dir_all(&self.home).await?;
        prebuilt.take(mirror, &self.tree).await?;
        create_repository(&self.tree, mirror, &turn.head, Some(&turn.branch)).await?;
        Ok(create_commit_dir(self, mirror, &turn.head).await?)
    }
}
