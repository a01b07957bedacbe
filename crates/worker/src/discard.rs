//! Removes at once what a run has left that was stopped for the disk: the space is wanted now, and not when the workspace
//! has been idle for long.

use std::io;
use std::path::Path;
use std::time::Duration;

use journeyman_core::ids::JobId;
use journeyman_core::run::ReasonCode;

use crate::removal::remove_folder;
use crate::worker::Host;
use crate::workspace::MARKER;

/// Processes that were killed may write for a moment still.
const ATTEMPTS: u32 = 20;

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// Whether what a run has left is removed at once when it ends for this.
pub(crate) const fn is_for_the_disk(code: ReasonCode) -> bool {
    matches!(code, ReasonCode::DiskLimit | ReasonCode::DiskFull)
}

impl Host {
    /// Removes the workspace of a job, and its files in the scratch folder. The lock of the workspace is held, and no
    /// program runs in it.
    pub(crate) async fn discard_workspace(&self, job: JobId) {
        let root = self.data.join("workspaces").join(job.to_string());
        if let Err(error) = discard(&root, &self.data.join("scratch"), &format!("{job}.")).await {
            tracing::warn!(%job, workspace = %root.display(), %error, "the workspace of a run that filled the disk could \
                           not be removed; it is removed when the job has been idle for workspace-idle");
        }
    }
}

async fn discard(root: &Path, scratch: &Path, prefix: &str) -> io::Result<()> {
    // A tree that is half removed must not be taken for a whole one.
    match tokio::fs::remove_file(root.join(MARKER)).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut left = ATTEMPTS;
    while let Err(error) = remove_folder(root).await {
        left -= 1;
        if left == 0 {
            return Err(error);
        }
        tokio::time::sleep(PAUSE).await;
    }
    let mut entries = match tokio::fs::read_dir(scratch).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    while let Some(entry) = entries.next_entry().await? {
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            tokio::fs::remove_file(entry.path()).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_workspace_and_the_scratch_files_of_the_job_go_and_no_others() {
        let data = tempfile::tempdir().expect("a folder");
        let (root, scratch) = (data.path().join("workspaces/a"), data.path().join("scratch"));
        for folder in [root.join("tree/deep"), root.join("desk/git"), root.join("home"), scratch.clone()] {
            std::fs::create_dir_all(folder).expect("a folder");
        }
        for file in [root.join(MARKER), root.join("tree/deep/x"), scratch.join("a.session"), scratch.join("b.session")]
        {
            std::fs::write(file, "x").expect("a file");
        }
        discard(&root, &scratch, "a.").await.expect("removed");
        assert!(!root.exists() && !scratch.join("a.session").exists() && scratch.join("b.session").exists());
        discard(&root, &data.path().join("none"), "a.").await.expect("nothing to remove");
    }
}
