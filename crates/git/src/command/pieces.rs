//! The output of a git process in pieces, as fast as the caller takes them.
//!
//! Invariant: dropping [`Pieces`] kills all processes of the group.

use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStdout;
use tokio::task::JoinHandle;

use super::{Failing, GitCommand, Piped, read_some};
use crate::failure::GitError;

/// The maximum size of a piece in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// The output of a running git process.
pub struct Pieces {
    process: Piped,
    stdout: Option<ChildStdout>,
    stderr: JoinHandle<Vec<u8>>,
    command: String,
    failing: Failing,
}

impl GitCommand {
    /// Starts the command for a caller that takes its output in pieces. The processor time of the command is limited, but
    /// its run time and its output are not, because the caller may be slow.
    ///
    /// # Errors
    /// Returns an error if the process did not start.
    pub fn pieces(self) -> Result<Pieces, GitError> {
        let mut process = self.spawn()?;
        drop(process.stdin.take());
        let (stdout, stderr) = (process.stdout.take(), process.stderr.take());
        // git would wait if nobody read its errors.
        let stderr = tokio::spawn(read_some(stderr));
        let (command, failing) = (self.name(), self.failing());
        Ok(Pieces { process, stdout, stderr, command, failing })
    }
}

impl Pieces {
    /// Returns the next piece; `None` at the end of the whole output.
    ///
    /// # Errors
    /// Returns an error if the command failed.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, GitError> {
        if let Some(stdout) = &mut self.stdout {
            let mut piece = Vec::with_capacity(PIECE_BYTES);
            // Output that cannot be read counts as not printed; the exit code decides.
            if let Ok(1..) = stdout.read_buf(&mut piece).await {
                return Ok(Some(piece));
            }
            self.stdout = None;
        }
        let status = self.process.wait().await.map_err(|error| GitError::NotStarted(error.to_string()))?;
        if status.success() {
            return Ok(None);
        }
        let stderr = (&mut self.stderr).await.unwrap_or_default();
        Err(self.failing.describe(self.command.clone(), status, &stderr))
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        self.stderr.abort();
    }
}

#[cfg(test)]
mod tests {
    use journeyman_testkit::until_async;

    use crate::{Git, GitError, Runner};

    /// Returns a git that is a shell: the tests are about running a process.
    fn shell() -> Git {
        let path = "/usr/local/bin:/usr/bin:/bin".into();
        Git::new(Runner { program: "sh".into(), path, environment: vec![], askpass: None })
    }

    #[tokio::test]
    async fn the_output_comes_in_pieces_and_a_failure_after_it_is_an_error() {
        let mut pieces = shell().command(["-c", "printf abc; echo no >&2; exit 3"]).pieces().unwrap();
        assert_eq!(pieces.next().await.unwrap().unwrap(), b"abc");
        let error = pieces.next().await.unwrap_err();
        assert!(matches!(&error, GitError::Failed { code: Some(3), stderr, .. } if stderr == "no"), "{error}");
        let mut pieces = shell().command(["-c", "printf abc"]).pieces().unwrap();
        assert_eq!(pieces.next().await.unwrap().unwrap(), b"abc");
        assert_eq!((pieces.next().await.unwrap(), pieces.next().await.unwrap()), (None, None));
    }

    #[tokio::test]
    async fn a_process_waits_for_its_reader_and_ends_with_it() {
        let mut pieces = shell().command(["-c", "echo $$; exec yes"]).pieces().unwrap();
        let first = String::from_utf8(pieces.next().await.unwrap().unwrap()).unwrap();
        let pid = first.lines().next().unwrap().to_owned();
        let stat = format!("/proc/{pid}/stat");
        assert!(std::fs::exists(&stat).unwrap());
        drop(pieces);
        // A zombie counts as ended: the test does not control who reaps orphans.
        let has_ended = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
        until_async("the process ends", async || has_ended().then_some(())).await;
    }
}
