//! Removes the files of a run that was stopped because of the disk. They are removed immediately, because the space is
//! needed now, not after the workspace has been idle for a long time.

use std::io;
use std::path::Path;
use std::time::Duration;

use journeyman_core::ids::JobId;
use journeyman_repository::Scratch;

use crate::workspace::MARKER;
use crate::workspace::remove::remove_folder;

/// The number of attempts: killed processes may continue to write for a short time.
const ATTEMPTS: u32 = 20;

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// Removes the workspace of a job, and the job's files in the scratch folder. The caller holds the workspace lock, and
/// no program runs in the workspace.
pub(crate) async fn discard_workspace(data: &Path, job: JobId) {
    let root = data.join("workspaces").join(job.to_string());
    let discarded = async {
        discard(&root).await?;
        Scratch::new(data).clear(job).await
    };
    if let Err(error) = discarded.await {
        tracing::warn!(
            %job, workspace = %root.display(), %error,
            "the workspace of a run that filled the disk could not be removed; it is removed when the job has been \
             idle for workspace-idle"
        );
    }
}

async fn discard(root: &Path) -> io::Result<()> {
    // A half-removed tree must not be mistaken for a complete one.
    match tokio::fs::remove_file(root.join(MARKER)).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut attempts_left = ATTEMPTS;
    while let Err(error) = remove_folder(root).await {
        attempts_left -= 1;
        if attempts_left == 0 {
            return Err(error);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn the_workspace_and_the_scratch_files_of_the_job_are_removed_and_no_others() {
        let data = tempfile::tempdir().expect("a folder");
        let [job, other] = [1, 2].map(|number| JobId::from_uuid(Uuid::from_u128(number)));
        let (root, scratch) = (data.path().join(format!("workspaces/{job}")), data.path().join("scratch"));
        for folder in [root.join("tree/deep"), root.join("commit/git"), root.join("home"), scratch.clone()] {
            std::fs::create_dir_all(folder).expect("a folder");
        }
        let [own, foreign] = [job, other].map(|job| scratch.join(format!("{job}.session")));
        for file in [&root.join(MARKER), &root.join("tree/deep/x"), &own, &foreign] {
            std::fs::write(file, "x").expect("a file");
        }
        discard_workspace(data.path(), job).await;
        assert!(!root.exists() && !own.exists() && foreign.exists());
        discard(&root).await.expect("nothing to remove is not an error");
    }
}
