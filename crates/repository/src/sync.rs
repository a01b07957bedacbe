//! Makes changes to a repository durable: everything that was written is synced before the database records it as
//! stored.

use std::io;
use std::path::Path;

use journeyman_git::Folders;

use crate::RepositoryError;

/// Records the folders of a local repository that is about to be changed.
pub(crate) async fn folders_of(git_dir: &Path) -> Result<Folders, RepositoryError> {
    let path = git_dir.to_owned();
    let folders = tokio::task::spawn_blocking(move || Folders::look(&path)).await;
    match folders.map_err(io::Error::other)? {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(RepositoryError::MirrorDamaged(error.to_string())),
        folders => Ok(folders?),
    }
}

/// Syncs everything that was written to a repository since its folders were recorded.
pub(crate) async fn sync(folders: Folders) -> Result<(), RepositoryError> {
    Ok(tokio::task::spawn_blocking(move || folders.sync()).await.map_err(io::Error::other)??)
}
