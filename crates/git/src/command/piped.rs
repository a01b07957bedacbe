//! A git process whose streams its caller drives, such as a server.
//!
//! Invariant: when a [`Piped`] is dropped before its end was seen, no process of its group is left.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use super::{GRACE, GitCommand, Group, Output, failed, read_some};
use crate::failure::GitError;

/// A running git. Take the streams that you drive; the others are closed with it.
pub struct Piped {
    /// What it reads.
    pub stdin: Option<ChildStdin>,
    /// What it prints.
    pub stdout: Option<ChildStdout>,
    /// What it complains of.
    pub stderr: Option<ChildStderr>,
    group: Group,
}

impl GitCommand {
    /// Starts the command for a caller that handles its streams. Its processor time is limited, but its run time and
    /// its output are not, and [`GitCommand::stdin`] is not written to it.
    ///
    /// # Errors
    /// It did not start.
    pub fn spawn(&self) -> Result<Piped, GitError> {
        let mut group = Group::spawn(self.build(), self.limits())?;
        let child = &mut group.0;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        Ok(Piped { stdin, stdout, stderr, group })
    }

    /// Runs it for the first `bytes` of what it prints; true where there was more, and it was stopped.
    ///
    /// # Errors
    /// It did not start, took too long, or ended with an error.
    pub async fn run_beginning(self, bytes: usize) -> Result<(Output, bool), GitError> {
        let (command, timeout) = (self.name(), self.timeout);
        let mut piped = self.spawn()?;
        drop(piped.stdin.take());
        let (stdout, stderr) = (piped.stdout.take(), piped.stderr.take());
        let shown = async {
            let mut shown = Vec::new();
            if let Some(pipe) = stdout {
                // What cannot be read is as if it was not printed; the exit code decides.
                let _ = pipe.take(bytes as u64 + 1).read_to_end(&mut shown).await;
            }
            if shown.len() > bytes { Err(shown) } else { Ok(shown) }
        };
        let work = async {
            let (shown, stderr) = tokio::try_join!(shown, async { Ok(read_some(stderr).await) })?;
            Ok::<_, Vec<u8>>((shown, stderr, piped.group.0.wait().await))
        };
        let finished = tokio::time::timeout(timeout, work).await;
        match finished {
            Err(_) => {
                piped.stop(GRACE).await;
                Err(GitError::TimedOut { command, seconds: timeout.as_secs() })
            }
            Ok(Err(mut stdout)) => {
                stdout.truncate(bytes);
                Ok((Output { command, stdout }, true))
            }
            Ok(Ok((_, _, Err(error)))) => Err(GitError::NotStarted(error.to_string())),
            Ok(Ok((stdout, _, Ok(status)))) if status.success() => Ok((Output { command, stdout }, false)),
            Ok(Ok((_, stderr, Ok(status)))) => {
                Err(failed(command, status, &stderr, self.secret.as_deref(), self.limits()))
            }
        }
    }
}

impl Piped {
    /// Waits for its end.
    ///
    /// # Errors
    /// The system cannot say how it ended.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.group.0.wait().await
    }

    /// Asks it to end, and kills it after `grace`. A git that is asked removes its lock files; one that is killed while
    /// it moves a branch leaves the branch locked for ever.
    pub async fn stop(mut self, grace: Duration) {
        self.group.stop(grace).await;
    }
}

#[cfg(test)]
mod tests {
    use crate::{Git, GitError, Runner};

    /// A shell in git's place: what is tested is how a process is run.
    fn shell() -> Git {
        let path = "/usr/local/bin:/usr/bin:/bin".into();
        Git::new(Runner { program: "sh".into(), path, environment: vec![], askpass: None })
    }

    #[tokio::test]
    async fn the_beginning_is_cut_and_a_short_output_is_whole() {
        let (output, cut) = shell().command(["-c", "yes"]).run_beginning(10).await.unwrap();
        assert_eq!((output.stdout.as_slice(), cut), (b"y\ny\ny\ny\ny\n".as_slice(), true));
        let (output, cut) = shell().command(["-c", "printf abc"]).run_beginning(3).await.unwrap();
        assert_eq!((output.stdout.as_slice(), cut), (b"abc".as_slice(), false));
    }

    #[tokio::test]
    async fn an_error_is_told_where_nothing_was_cut() {
        let error = shell().command(["-c", "echo no >&2; exit 3"]).run_beginning(10).await.unwrap_err();
        assert!(matches!(&error, GitError::Failed { code: Some(3), stderr, .. } if stderr == "no"), "{error}");
    }

    #[tokio::test]
    async fn a_git_that_is_stopped_may_clean_up() {
        use tokio::io::AsyncReadExt;
        let dir = tempfile::tempdir().unwrap();
        let seen = dir.path().join("seen");
        let script = format!("trap 'touch {}; exit' TERM; echo ready; while :; do sleep 0.05; done", seen.display());
        let mut piped = shell().command(["-c", &script]).spawn().unwrap();
        let mut ready = [0; 6];
        piped.stdout.take().unwrap().read_exact(&mut ready).await.unwrap();
        piped.stop(std::time::Duration::from_secs(20)).await;
        assert!(seen.exists());
    }
}
