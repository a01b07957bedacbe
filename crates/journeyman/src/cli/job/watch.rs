//! `journeyman job watch`: prints the transcript of a job as it grows.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use journeyman_client::models::Event;

use super::transcript::{Transcript, activity};
use crate::cli::exit::{Exit, Failure};
use crate::cli::session::Session;
use crate::cli::store::{print, print_lines};

/// The longest time for which the command tries to reconnect, which is enough for a restart of the server.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// The text of the progress line before the first run.
const WAITING: &str = "waiting for a run";

/// Prints a job's events after `after` until the job is no longer active, and then its record.
pub(super) async fn watch(session: &Session, job: &str, after: u64) -> Result<Exit, Failure> {
    let job = session.job(job);
    let mut events = job.stream_events().after(after).reconnect_timeout(Some(RECONNECT_TIMEOUT));
    let mut screen = Screen::new(session);
    while let Some(event) = events.next().await? {
        screen.show(&event)?;
    }
    screen.end();
    let record = job.get().raw().await?;
    session.show_record(&record).await?;
    Ok(Exit::of(&record))
}

/// Prints events as lines on stdout, with a progress line below them if stderr is a terminal.
struct Screen {
    json: bool,
    progress: Option<ProgressBar>,
    transcript: Transcript,
    run: String,
    activity: String,
}

impl Screen {
    fn new(session: &Session) -> Self {
        let json = session.json;
        let progress = (!json && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
                bar.set_style(style);
            }
            bar.set_message(WAITING);
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        let transcript = Transcript::new(session.look.paint);
        Self { json, progress, transcript, run: WAITING.to_owned(), activity: String::new() }
    }

    fn show(&mut self, event: &Event) -> std::io::Result<()> {
        if self.json {
            return print(&event.document.to_string());
        }
        let data = &event.document["data"];
        if event.kind == "run.started" {
            self.run = format!("attempt {}", data["attempt"]);
        }
        if let Some(activity) = activity(&event.kind, data) {
            self.activity = activity;
        }
        let lines = self.transcript.lines(&event.kind, data);
        match &self.progress {
            Some(bar) => {
                bar.set_message(message(&self.run, &self.activity));
                bar.suspend(|| print_lines(&lines))
            }
            None => print_lines(&lines),
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.progress {
            bar.finish_and_clear();
        }
    }
}

/// Returns the text of the progress line.
fn message(run: &str, activity: &str) -> String {
    if activity.is_empty() { run.to_owned() } else { format!("{run}: {activity}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_line_has_a_colon_only_before_an_activity() {
        assert_eq!(message(WAITING, ""), "waiting for a run");
        assert_eq!(message("attempt 1", "finishing"), "attempt 1: finishing");
    }
}
