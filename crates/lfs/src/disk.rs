//! Disk operations: how they run, and their errors.

use std::io;

use journeyman_core::ports::LfsError;

/// Returns the error for a failure of the disk of this machine.
pub(crate) fn disk(error: &io::Error) -> LfsError {
    LfsError::Failed(format!("the file of an object could not be used: {error}"))
}

/// Runs blocking disk operations.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
