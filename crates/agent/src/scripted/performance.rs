//! Carries out the directives of one prompt.
//!
//! Invariant: the client learns of every directive through a tool call, a message, or the final message, which
//! summarizes the actions. A turn that was cancelled or failed has no final message.

use std::path::Path;
use std::time::Duration;

use agent_client_protocol::v1::schema::ToolKind;
use serde_json::json;

use super::directive::{self, Directive, KNOWN};
use crate::execute;
use crate::options::Options;
use crate::store::{SessionFile, Speaker};
use crate::tools::ToolRequest;
use crate::turn::{Turn, TurnError};

/// The file that receives prompts without a directive.
const NOTES: &str = "AGENT_NOTES.md";

/// The first line of a new notes file.
const NOTES_HEADING: &str = "# Agent notes\n";

/// The pause between two looks for the file that ends `[[hold]]`.
const HOLD_PAUSE: Duration = Duration::from_millis(20);

/// The outcome of a prompt that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Every directive was carried out.
    Continue,
    /// The turn was cancelled.
    Cancelled,
}

/// The execution of one prompt.
pub(crate) struct Performance<'a> {
    turn: &'a Turn<'a>,
    file: &'a mut SessionFile,
    options: &'a Options,
    /// A short description of each action, for the summary.
    actions: Vec<String>,
}

impl<'a> Performance<'a> {
    /// Prepares the execution.
    pub(crate) fn new(turn: &'a Turn<'a>, file: &'a mut SessionFile, options: &'a Options) -> Self {
        Self { turn, file, options, actions: Vec::new() }
    }

    /// Carries out the directives of the prompt, or adds the prompt to the notes if it has none.
    pub(crate) async fn perform(&mut self, prompt: &str) -> Result<Flow, TurnError> {
        let directives = directive::parse(prompt);
        if directives.is_empty() {
            self.take_note(prompt).await;
        }
        for directive in directives {
            if self.turn.cancel.is_cancelled() {
                return Ok(Flow::Cancelled);
            }
            self.step(directive).await?;
        }
        if self.turn.cancel.is_cancelled() {
            return Ok(Flow::Cancelled);
        }
        let summary = match self.actions.as_slice() {
            [] => "There was nothing to do.".to_owned(),
            actions => format!("Done: {}.", actions.join("; ")),
        };
        self.say(&summary);
        Ok(Flow::Continue)
    }

    async fn step(&mut self, directive: Directive) -> Result<(), TurnError> {
        match directive {
            Directive::Write { path, text } => self.write(&path, text, "wrote").await,
            Directive::Append { path, text } => {
                let text = self.present_text(&path).unwrap_or_default() + &text;
                self.write(&path, text, "added to").await;
            }
            Directive::Run(command) => self.run(&command).await,
            Directive::Say(text) => {
                self.say(&text);
                self.actions.push("said something".to_owned());
            }
            Directive::Sleep(time) => {
                self.turn.cancel.run_until_cancelled(tokio::time::sleep(time)).await;
                self.actions.push(format!("slept for {} s", time.as_secs_f64()));
            }
            Directive::Hold => {
                self.turn.cancel.run_until_cancelled(hold(&self.options.home)).await;
                self.actions.push("waited".to_owned());
            }
            Directive::Ask(question) => self.ask(&question).await,
            Directive::Fail(text) => return Err(TurnError::Failed(text)),
            Directive::Die => {
                (self.options.die)();
                return Err(TurnError::Failed("the process did not end on [[die]]".to_owned()));
            }
            Directive::Unknown(body) => {
                self.say(&format!("unknown directive [[{body}]]; known directives: {KNOWN}"));
            }
        }
        Ok(())
    }

    async fn take_note(&mut self, prompt: &str) {
        let mut notes = self.present_text(NOTES).unwrap_or_else(|| NOTES_HEADING.to_owned());
        if !notes.is_empty() && !notes.ends_with('\n') {
            notes.push('\n');
        }
        notes.push('\n');
        notes.push_str(prompt.trim());
        notes.push('\n');
        self.write(NOTES, notes, "added the message as a paragraph to").await;
    }

    /// Returns the text of a file, or `None` if it does not exist or cannot be read. The write that follows then
    /// reports the error.
    fn present_text(&self, path: &str) -> Option<String> {
        let path = self.turn.workspace.resolve(path).ok()?;
        if !path.is_file() {
            return None;
        }
        let bytes = std::fs::read(path).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    async fn write(&mut self, path: &str, text: String, action: &str) {
        let input = json!({"path": path, "content": text});
        let id = self.file.next_call_id();
        let output = execute::run(self.turn, &id, ToolRequest::write_file(path, text), input).await;
        self.actions.push(if output.failed {
            format!("could not write `{path}` ({})", output.text)
        } else {
            format!("{action} `{path}`")
        });
    }

    async fn run(&mut self, command: &str) {
        let input = json!({"command": command});
        let id = self.file.next_call_id();
        let output = execute::run(self.turn, &id, ToolRequest::run_command(command), input).await;
        let outcome = if output.failed { ", which failed" } else { "" };
        self.actions.push(format!("ran `{command}`{outcome}"));
    }

    async fn ask(&mut self, question: &str) {
        let id = self.file.next_call_id();
        let asking = self.turn.reporter.ask(&id, question, ToolKind::Other);
        let Some(granted) = self.turn.cancel.run_until_cancelled(asking).await else {
            return;
        };
        let answer = if granted { "permission granted" } else { "permission refused" };
        self.say(answer);
        self.actions.push(format!("asked \"{question}\", {answer}"));
    }

    /// Sends a whole message. The empty line at its end separates it from the next message, even where the messages are
    /// rendered as Markdown.
    fn say(&mut self, text: &str) {
        self.turn.reporter.message(&format!("{text}\n\n"));
        self.file.push_line(Speaker::Agent, text);
    }
}

/// Waits until the file `released` is in `home`. The file `held` says that the model waits.
async fn hold(home: &Path) {
    // If the file cannot be created, a test does not see that the model waits, but it can still end the wait.
    let _ = std::fs::write(home.join("held"), "");
    while !home.join("released").exists() {
        tokio::time::sleep(HOLD_PAUSE).await;
    }
}
