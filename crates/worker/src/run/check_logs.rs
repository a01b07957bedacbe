//! Gives the logs of failed checks to the agent, as files in its home.

use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use journeyman_core::checks::{LOG_BYTES, LOG_FOLDER, MOST_LOG_FILES};
use journeyman_core::message::SourceLog;
use journeyman_core::ports::Forge;

use crate::claim::redaction::Redactor;
use crate::error::RunError;
use crate::run::home_files;

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
        let files: Vec<(String, Bytes)> = logs
            .iter()
            .zip(texts)
            .enumerate()
            .map(|(index, (log, text))| (file_name(index, &log.name), text.into()))
            .collect();
        let home = self.home.to_owned();
        let written = tokio::task::spawn_blocking(move || home_files::write(&home, LOG_FOLDER, &files)).await;
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
fn file_name(index: usize, check: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = check.chars().map(plain).take(NAME_CHARS).collect();
    format!("{}-{name}.log", index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

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
