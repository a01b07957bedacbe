//! The folder of a temporary database.

use std::thread::JoinHandle;

use tempfile::TempDir;

/// The folder of a temporary database.
pub(super) struct TemporaryFolder {
    /// The thread that closes the database.
    pub(super) writer: Option<JoinHandle<()>>,
    /// Removed when this is dropped.
    pub(super) _folder: TempDir,
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has closed the database too.
            let _ = writer.join();
        }
    }
}
