//! Gives the logs of failed checks to the agent, as files in its home.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use futures::future::join_all;
use journeyman_core::checks::{LOG_BYTES, LOG_FOLDER, MOST_LOG_FILES};
use journeyman_core::message::SourceLog;
use journeyman_core::ports::Forge;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

use crate::claim::redaction::Redactor;
use crate::error::RunError;
use crate::workspace::owner::as_owner;
use crate::workspace::remove::{open, remove_at};

/// The time limit for reading all logs. The agent can also find many failures without them.
const LIMIT: Duration = Duration::from_secs(60);

/// The maximum length of the name of a file, in characters.
const NAME_CHARS: usize = 80;

/// Reads logs, and writes them to the home of an agent that is not running.
pub(super) struct CheckLogs<'a> {
    pub(super) forge: &'a dyn Forge,
    pub(super) redactor: Option<&'a Redactor>,
    pub(super) home: &'a Path,
}

impl CheckLogs<'_> {
    /// Replaces the folder with the logs of earlier failures. A log that cannot be read is replaced by the reason.
    pub(super) async fn write(&self, logs: &[SourceLog]) -> Result<(), RunError> {
        let texts = join_all(logs.iter().take(MOST_LOG_FILES).map(|log| self.read(log))).await;
        let files: Vec<(String, String)> = logs
            .iter()
            .zip(texts)
            .enumerate()
            .map(|(place, (log, text))| (file_name(place, &log.name), text))
            .collect();
        let home = self.home.to_owned();
        let written = tokio::task::spawn_blocking(move || write(&home, &files)).await;
        Ok(written.map_err(io::Error::other)??)
    }

    async fn read(&self, log: &SourceLog) -> String {
        let Some(checks) = self.forge.checks() else { return "The code host has no logs.".to_owned() };
        match tokio::time::timeout(LIMIT, checks.log(&log.log, LOG_BYTES)).await {
            Ok(Ok(Some(bytes))) => {
                let text = String::from_utf8_lossy(&bytes);
                self.redactor.map_or_else(|| text.clone().into_owned(), |redactor| redactor.text(&text).into_owned())
            }
            Ok(Ok(None)) => "The code host no longer has this log.".to_owned(),
            Ok(Err(error)) => format!("This log could not be read: {error}"),
            Err(_) => "The code host did not send this log in time.".to_owned(),
        }
    }
}

/// Returns a name without characters that are special in a path or in a shell.
fn file_name(place: usize, check: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = check.chars().map(plain).take(NAME_CHARS).collect();
    format!("{}-{name}.log", place + 1)
}

/// Writes the files with the rights of the owner of the home. The agent may have left links or other files in their place, which are removed.
fn write(home: &Path, files: &[(String, String)]) -> io::Result<()> {
    let home = File::from(open(CWD, home)?);
    as_owner(&home, || write_beneath(&home, files))
}

fn write_beneath(home: &File, files: &[(String, String)]) -> io::Result<()> {
    remove_at(home, LOG_FOLDER)?;
    mkdirat(home, LOG_FOLDER, Mode::from_raw_mode(0o755))?;
    let folder = open(home, LOG_FOLDER)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for (name, text) in files {
        let file = openat(&folder, name.as_str(), flags, Mode::from_raw_mode(0o644))?;
        File::from(file).write_all(text.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, read_to_string};
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn logs_replace_those_of_an_earlier_failure() {
        let home = tempfile::tempdir().unwrap();
        for (name, text) in [("1-old.log", "old"), ("1-test.log", "new")] {
            write(home.path(), &[(name.to_owned(), text.to_owned())]).unwrap();
        }
        let names: Vec<_> =
            home.path().join("ci").read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["1-test.log"]);
        assert_eq!(read_to_string(home.path().join("ci/1-test.log")).unwrap(), "new");
    }

    #[test]
    fn a_link_of_the_agent_is_not_followed() {
        let (home, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        symlink(outside.path(), home.path().join("ci")).unwrap();
        write(home.path(), &[("1-test.log".to_owned(), "log".to_owned())]).unwrap();
        assert_eq!(outside.path().read_dir().unwrap().count(), 0);
        assert_eq!(read_to_string(home.path().join("ci/1-test.log")).unwrap(), "log");
    }

    #[test]
    fn a_folder_of_the_agent_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        create_dir_all(home.path().join("ci/1-test.log/deep")).unwrap();
        write(home.path(), &[("1-test.log".to_owned(), "log".to_owned())]).unwrap();
        assert_eq!(read_to_string(home.path().join("ci/1-test.log")).unwrap(), "log");
    }

    #[test]
    fn the_name_of_a_file_has_no_special_characters() {
        for (check, expected) in [
            ("test / unit (3.12)", "1-test---unit--3.12-.log"),
            ("../../etc/passwd", "1-..-..-etc-passwd.log"),
            ("$(id)", "1---id-.log"),
        ] {
            assert_eq!(file_name(0, check), expected);
        }
        assert!(file_name(9, &"x".repeat(500)).len() < 100);
    }
}
