//! The disk usage of a job: counted by the kernel if it can, otherwise by walking the job's folders.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use journeyman_core::ports::{Process, Sandbox};
use journeyman_core::project::LimitSettings;
use journeyman_core::run::ReasonCode;

use crate::error::{RunError, disk_full};
use crate::sandbox::job_sandbox::JobSandbox;
use crate::workspace::disk_usage::{Used, used};

/// Returns whether the files of a run that ended for this reason are removed immediately.
pub(crate) const fn is_for_the_disk(code: ReasonCode) -> bool {
    matches!(code, ReasonCode::DiskLimit | ReasonCode::DiskFull)
}

/// The result of counting a job's disk usage.
pub(crate) enum Counted {
    /// The usage in bytes, which is within the limit.
    Bytes(u64),
    /// The reason why the run ends.
    Exceeded(RunError),
}

/// The disk usage of a job, and its limit.
pub(crate) struct Disk {
    sandbox: Arc<dyn Sandbox>,
    folders: [PathBuf; 3],
    most: u64,
}

impl Disk {
    pub(crate) fn of(sandbox: &JobSandbox, limits: &LimitSettings) -> Self {
        Self { sandbox: Arc::clone(&sandbox.sandbox), folders: sandbox.workspace.folders(), most: limits.disk_bytes() }
    }

    /// Returns the kernel's count, if the kernel counts; does not walk the folders.
    pub(crate) async fn by_kernel(&self) -> Option<Counted> {
        let bytes = self.sandbox.disk_usage(&self.folders[0]).await?;
        // A count equal to the limit also ends the run, because the kernel refuses more soon after.
        Some(if bytes < self.most { Counted::Bytes(bytes) } else { Counted::Exceeded(self.too_much(bytes)) })
    }

    fn too_much(&self, bytes: u64) -> RunError {
        let text = format!(
            "the job uses more than {} bytes of disk space, including deleted files that are still open ({bytes} when \
             it was stopped); raise limits.diskBytes of the project",
            self.most
        );
        RunError::failed(ReasonCode::DiskLimit, text)
    }

    /// Returns the failure of a run if the disk is the reason why one of its programs failed with `complaints`. After
    /// the kernel refused it more space, a program may end before the next check. `complaints` must come from git:
    /// other programs may complain about another disk.
    pub(crate) async fn failure(&self, complaints: &str) -> Option<RunError> {
        let is_refused = complaints.contains("Disk quota exceeded");
        match self.by_kernel().await {
            Some(Counted::Exceeded(error)) => Some(error),
            Some(Counted::Bytes(bytes)) if is_refused => Some(self.too_much(bytes)),
            // Not the job's limit, but the file system's own quota for the service's user, or no space at all.
            None if is_refused => Some(disk_full()),
            _ if complaints.contains("No space left on device") => Some(disk_full()),
            _ => None,
        }
    }

    /// Counts the files in the folders, and the deleted files from them that a program still has open.
    pub(crate) async fn count(&self, process: Option<&dyn Process>) -> Counted {
        let most = self.most;
        let exceeded = |code, text: String| Counted::Exceeded(RunError::failed(code, text));
        // If the usage cannot be counted, the limit cannot be enforced.
        let failed = |error: std::io::Error| {
            let text = format!("the disk usage of the job could not be counted: {error}");
            Counted::Exceeded(RunError::may_pass(ReasonCode::Internal, text))
        };
        let deleted = match (process, self.folders[0].metadata()) {
            (Some(process), Ok(metadata)) => process.deleted_bytes(metadata.dev()).await,
            (None, _) => 0,
            (_, Err(error)) => return failed(error),
        };
        let (folders, left) = (self.folders.clone(), most.saturating_sub(deleted));
        let counted = tokio::task::spawn_blocking(move || used(&folders, left)).await.map_err(std::io::Error::other);
        match counted.flatten() {
            Ok(Used::All(bytes)) if deleted <= most => Counted::Bytes(bytes + deleted),
            Ok(Used::All(_) | Used::MoreThan(_)) => {
                let text = format!(
                    "the workspace and home of the job use more than {most} bytes, {deleted} of them in deleted files \
                     that are still open; raise limits.diskBytes of the project"
                );
                exceeded(ReasonCode::DiskLimit, text)
            }
            Ok(Used::TooDeep) => {
                let text = "folders are nested so deeply that their content cannot be counted; remove them";
                exceeded(ReasonCode::DiskLimit, text.to_owned())
            }
            Err(error) => failed(error),
        }
    }

    /// Checks the usage after a turn: the kernel's count first, then the folders, because folders that are nested too
    /// deeply must also be refused if the kernel counts.
    pub(crate) async fn check(&self, process: Option<&dyn Process>) -> Counted {
        match self.by_kernel().await {
            Some(Counted::Exceeded(error)) => Counted::Exceeded(error),
            _ => self.count(process).await,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use async_trait::async_trait;
    use journeyman_core::ports::Exit;
    use journeyman_testkit::FakeSandbox;

    use super::*;

    pub(crate) fn disk(root: &tempfile::TempDir, kernel: Option<u64>, most: u64) -> Disk {
        let sandbox = FakeSandbox::new().with_disk_usage(kernel);
        Disk { sandbox: Arc::new(sandbox), folders: folders(root), most }
    }

    /// A program that has this many bytes of deleted files open.
    pub(crate) struct Holding(pub(crate) u64);

    #[async_trait]
    impl Process for Holding {
        async fn wait(&mut self) -> Exit {
            std::future::pending().await
        }

        async fn deleted_bytes(&self, _device: u64) -> u64 {
            self.0
        }

        async fn end(&mut self) -> Exit {
            Exit::Code(0)
        }
    }

    fn folders(root: &tempfile::TempDir) -> [PathBuf; 3] {
        ["tree", "home", "commit"].map(|name| {
            let folder = root.path().join(name);
            std::fs::create_dir_all(&folder).expect("a folder");
            folder
        })
    }

    pub(crate) fn code(error: &RunError) -> ReasonCode {
        let RunError::Failed { reason, .. } = error else { panic!("{error}") };
        reason.code
    }

    #[tokio::test]
    async fn deleted_files_that_a_program_has_open_count() {
        const MOST: u64 = 8 << 20;
        let root = tempfile::tempdir().expect("a folder");
        let disk = disk(&root, None, MOST);
        std::fs::write(root.path().join("tree/x"), vec![1; 1 << 20]).expect("a file");
        for (held, is_too_much) in [(0, false), (6 << 20, false), (15 << 19, true), (9 << 20, true)] {
            let counted = disk.check(Some(&Holding(held))).await;
            match counted {
                Counted::Bytes(bytes) => assert!(!is_too_much && bytes >= held + (1 << 20), "{held}: {bytes}"),
                Counted::Exceeded(RunError::Failed { reason, .. }) => {
                    assert!(is_too_much && reason.code == ReasonCode::DiskLimit, "{held}: {}", reason.text);
                    assert!(reason.text.contains(&held.to_string()), "{}", reason.text);
                }
                Counted::Exceeded(other) => panic!("{other}"),
            }
        }
    }

    #[tokio::test]
    async fn a_program_that_failed_for_lack_of_space_ends_its_run_with_that_reason() {
        let root = tempfile::tempdir().expect("a folder");
        let quota = "fatal: unable to write loose object file: Disk quota exceeded";
        let full = "fatal: write error: No space left on device";
        for (kernel, complaints, expected) in [
            (Some(100), "killed", Some(ReasonCode::DiskLimit)),
            (Some(99), "killed", None),
            (Some(10), quota, Some(ReasonCode::DiskLimit)),
            (None, quota, Some(ReasonCode::DiskFull)),
            (Some(10), full, Some(ReasonCode::DiskFull)),
            (None, full, Some(ReasonCode::DiskFull)),
            (None, "killed", None),
        ] {
            let error = disk(&root, kernel, 100).failure(complaints).await;
            assert_eq!(error.as_ref().map(code), expected, "{kernel:?} {complaints}");
        }
    }

    #[tokio::test]
    async fn after_a_turn_the_count_of_the_kernel_can_refuse_it() {
        let root = tempfile::tempdir().expect("a folder");
        assert!(matches!(disk(&root, Some(100), 100).check(None).await, Counted::Exceeded(_)));
        assert!(matches!(disk(&root, Some(99), 100).check(None).await, Counted::Bytes(0)));
        std::fs::write(root.path().join("tree/x"), "more than 100 bytes, as each entry counts").expect("a file");
        assert!(matches!(disk(&root, Some(99), 100).check(None).await, Counted::Exceeded(_)));
    }
}
