//! Immediately removes the files of a run that was stopped because of the disk: the space is needed now, not after the
//! workspace has been idle for a long time.

use std::io;
use std::path::Path;
use std::time::Duration;

use journeyman_core::ids::JobId;
use journeyman_core::run::ReasonCode;

use crate::removal::remove_folder;
use crate::worker::Host;
use crate::workspace::MARKER;

/// The number of attempts: killed processes may continue to write for a moment.
const ATTEMPTS: u32 = 20;

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// Returns whether the files of a run that ended for this reason are removed immediately.
pub(crate) const fn is_for_the_disk(code: ReasonCode) -> bool {
    matches!(code, ReasonCode::DiskLimit | ReasonCode::DiskFull)
}

impl Host {
    /// Removes the workspace of a job, and the job's files in the scratch folder. The caller holds the workspace lock,
    /// and no program runs in the workspace.
    pub(crate) async fn discard_workspace(&self, job: JobId) {
        let root = self.data.join("workspaces").join(job.to_string());
        if let Err(error) = discard(&root, &self.data.join("scratch"), &format!("{job}.")).await {
            tracing::warn!(%job, workspace = %root.display(), %error, "the workspace of a run that filled the disk could \
                           not be removed; it is removed when the job has been idle for workspace-idle");
        }
    }
}

async fn discard(root: &Path, scratch: &Path, prefix: &str) -> io::Result<()> {
    // A half-removed tree must not be mistaken for a complete one.
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
