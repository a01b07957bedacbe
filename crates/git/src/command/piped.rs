//! A git process whose caller handles its streams, such as a server.
//!
//! Invariant: dropping a [`Piped`] before its process was waited for kills all processes of its group.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tracing::Instrument as _;

use super::{GRACE, GitCommand, Group, Output, progress, read_some};
use crate::failure::GitError;

/// The size of the pieces in which output is passed on.
const PIECE_BYTES: usize = 64 << 10;

/// The receiver of the output needs no more of it.
struct Stopped;

/// A running git process. The streams that the caller does not take are closed when it is dropped.
pub struct Piped {
    /// The input of the process.
    pub stdin: Option<ChildStdin>,
    /// The output of the process.
    pub stdout: Option<ChildStdout>,
    /// The error messages of the process.
    pub stderr: Option<ChildStderr>,
    group: Group,
}

impl GitCommand {
    /// Starts the command for a caller that handles its streams. Its processor time is limited, but its run time and
    /// its output are not, and [`GitCommand::stdin`] is not written to it.
    ///
    /// # Errors
    /// Returns an error if the process did not start.
    pub fn spawn(&self) -> Result<Piped, GitError> {
        let mut command = self.build()?;
        if let Some(file) = &self.stdin_file {
            command.stdin(file.try_clone().map_err(|error| GitError::NotStarted(error.to_string()))?);
        }
        let mut group = Group::spawn(command, self.limits())?;
        let child = &mut group.0;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        Ok(Piped { stdin, stdout, stderr, group })
    }

    /// Runs the command for the first `bytes` of its output. The flag is true if there was more output; the command was
    /// then stopped.
    ///
    /// # Errors
    /// As [`GitCommand::run_while`].
    pub async fn run_beginning(self, bytes: usize) -> Result<(Output, bool), GitError> {
        let (command, mut stdout) = (self.name(), Vec::new());
        let is_whole = self.run_while(|piece| {
            stdout.extend_from_slice(piece);
            stdout.len() <= bytes
        });
        let is_whole = is_whole.await?;
        stdout.truncate(bytes);
        Ok((Output { command, stdout, warnings: String::new() }, !is_whole))
    }

    /// Runs the command, and passes its output to `take` piece by piece. Stops the command once `take` returns false.
    /// Returns whether `take` got the whole output.
    ///
    /// # Errors
    /// Returns an error if the command did not start, exceeded its time limit, or failed before it was stopped.
    pub async fn run_while(self, take: impl FnMut(&[u8]) -> bool + Send) -> Result<bool, GitError> {
        let span = self.span();
        self.pass_on_while(take).instrument(span).await
    }

    async fn pass_on_while(self, mut take: impl FnMut(&[u8]) -> bool + Send) -> Result<bool, GitError> {
        let (command, timeout) = (self.name(), self.timeout);
        let mut piped = self.spawn()?;
        drop(piped.stdin.take());
        let (stdout, stderr) = (piped.stdout.take(), piped.stderr.take());
        let pass_on = async {
            let mut buffer = vec![0; PIECE_BYTES];
            if let Some(mut pipe) = stdout {
                // Output that cannot be read counts as not printed; the exit code decides.
                while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
                    if !take(&buffer[..read]) {
                        return Err(Stopped);
                    }
                }
            }
            Ok(())
        };
        let used = piped.group.processor_time();
        let work = async {
            // The pipe of the errors is read too: git would be killed by writing to a closed one.
            let ((), stderr) = tokio::try_join!(pass_on, async { Ok(read_some(stderr).await) })?;
            Ok((stderr, piped.group.0.wait().await))
        };
        match progress::within(timeout, used, work).await {
            Err(passed) => {
                piped.stop(GRACE).await;
                Err(GitError::TimedOut { command, seconds: passed.as_secs() })
            }
            Ok(Err(Stopped)) => Ok(false),
            Ok(Ok((_, Err(error)))) => Err(GitError::NotStarted(error.to_string())),
            Ok(Ok((_, Ok(status)))) if status.success() => Ok(true),
            Ok(Ok((stderr, Ok(status)))) => Err(self.failing().describe(command, status, &stderr)),
        }
    }
}

impl Piped {
    /// Waits for the end of the process.
    ///
    /// # Errors
    /// Returns an error if the system does not report how the process ended.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.group.0.wait().await
    }

    /// Asks the process to end, and kills it after `grace`. Git removes its lock files when it is asked to end; if it
    /// is killed while it moves a branch, the branch stays locked.
    pub async fn stop(mut self, grace: Duration) {
        self.group.stop(grace).await;
    }
}

#[cfg(test)]
mod tests {
    use journeyman_testkit::{PATIENCE, within};

    use crate::{Git, GitError, Runner};

    /// Returns a git that is a shell: the tests are about running a process.
    fn shell() -> Git {
        let path = "/usr/local/bin:/usr/bin:/bin".into();
        Git::new(Runner { program: "sh".into(), path, environment: vec![], askpass: None })
    }

    #[tokio::test]
    async fn long_output_is_truncated_and_short_output_is_complete() {
        let (output, cut) = shell().command(["-c", "yes"]).run_beginning(10).await.unwrap();
        assert_eq!((output.stdout.as_slice(), cut), (b"y\ny\ny\ny\ny\n".as_slice(), true));
        let (output, cut) = shell().command(["-c", "printf abc"]).run_beginning(3).await.unwrap();
        assert_eq!((output.stdout.as_slice(), cut), (b"abc".as_slice(), false));
    }

    #[tokio::test]
    async fn an_error_is_returned_if_the_output_is_complete() {
        let error = shell().command(["-c", "echo no >&2; exit 3"]).run_beginning(10).await.unwrap_err();
        assert!(matches!(&error, GitError::Failed { code: Some(3), stderr, .. } if stderr == "no"), "{error}");
    }

    #[tokio::test]
    async fn a_stopped_process_may_clean_up() {
        use tokio::io::AsyncReadExt;
        let dir = tempfile::tempdir().unwrap();
        let seen = dir.path().join("seen");
        let script = format!("trap 'touch {}; exit' TERM; echo ready; while :; do sleep 0.05; done", seen.display());
        let mut piped = shell().command(["-c", &script]).spawn().unwrap();
        let mut ready = [0; 6];
        piped.stdout.take().unwrap().read_exact(&mut ready).await.unwrap();
        piped.stop(PATIENCE).await;
        assert!(seen.exists());
    }

    #[tokio::test]
    async fn a_stopped_process_takes_the_processes_that_ignore_the_signal_with_it() {
        use tokio::io::AsyncReadExt;
        let script = "(trap '' TERM; echo ready; sleep 86400) & wait";
        let mut piped = shell().command(["-c", script]).spawn().unwrap();
        let mut stdout = piped.stdout.take().unwrap();
        let mut ready = [0; 6];
        stdout.read_exact(&mut ready).await.unwrap();
        piped.stop(std::time::Duration::from_millis(200)).await;
        // The pipe closes only when no process has its other end open.
        assert_eq!(within("the pipe closes", stdout.read(&mut ready)).await.unwrap(), 0);
    }
}
