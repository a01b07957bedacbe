//! Temporary files of jobs, on the disk of the data directory.

use std::io;
use std::path::{Path, PathBuf};

use journeyman_core::ids::JobId;

/// The folder for temporary files of jobs. Each file's name starts with the ID of its job.
#[derive(Debug, Clone)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Returns the scratch folder of a data directory.
    #[must_use]
    pub fn new(data: &Path) -> Self {
        Self(data.join("scratch"))
    }

    /// Returns the path of a temporary file of a job, and creates the folder if it is missing.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub async fn file(&self, job: JobId, kind: &str) -> io::Result<PathBuf> {
        tokio::fs::create_dir_all(&self.0).await?;
        Ok(self.0.join(format!("{job}.{kind}")))
    }

    /// Removes all temporary files of a job.
    ///
    /// # Errors
    /// The folder cannot be read, or a file cannot be removed.
    pub async fn clear(&self, job: JobId) -> io::Result<()> {
        let mut entries = match tokio::fs::read_dir(&self.0).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        let prefix = format!("{job}.");
        while let Some(entry) = entries.next_entry().await? {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                tokio::fs::remove_file(entry.path()).await?;
            }
        }
        Ok(())
    }
}
