//! Carrying out the directives of one prompt.
//!
//! Invariant: every directive is told to the client, as a tool call or as a message, and a last message sums up what
//! was done, unless the turn was cancelled or failed.

use agent_client_protocol::v1::schema::ToolKind;
use serde_json::json;

use super::directive::{self, Directive, KNOWN};
use crate::execute;
use crate::store::{SessionFile, Speaker};
use crate::tools::ToolRequest;
use crate::turn::{Turn, TurnError};

/// The file that takes prompts without a directive.
const NOTES: &str = "AGENT_NOTES.md";

/// The first line of a new notes file.
const NOTES_HEADING: &str = "# Agent notes\n";

/// Whether the turn goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// It does.
    Continue,
    /// It was cancelled.
    Cancelled,
}

/// One prompt on its way.
pub(crate) struct Performance<'a> {
    turn: &'a Turn<'a>,
    file: &'a mut SessionFile,
    die: &'a (dyn Fn() + Send + Sync),
    /// What was done, each in a few words.
    deeds: Vec<String>,
}

impl<'a> Performance<'a> {
    /// Begins; `die` ends the process.
    pub(crate) fn new(turn: &'a Turn<'a>, file: &'a mut SessionFile, die: &'a (dyn Fn() + Send + Sync)) -> Self {
        Self { turn, file, die, deeds: Vec::new() }
    }

    /// Does what the prompt says.
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
        let summary = match self.deeds.as_slice() {
            [] => "There was nothing to do.".to_owned(),
            deeds => format!("Done: {}.", deeds.join("; ")),
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
                self.deeds.push("said something".to_owned());
            }
            Directive::Sleep(time) => {
                self.turn.cancel.run_until_cancelled(tokio::time::sleep(time)).await;
                self.deeds.push(format!("slept for {} s", time.as_secs_f64()));
            }
            Directive::Ask(question) => self.ask(&question).await,
            Directive::Fail(text) => return Err(TurnError::Failed(text)),
            Directive::Die => {
                (self.die)();
                return Err(TurnError::Failed("the process was told to die and did not".to_owned()));
            }
            Directive::Unknown(body) => {
                self.say(&format!("unknown directive [[{body}]], known are {KNOWN}"));
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

    /// The text of a file, or `None` if there is none or it may not be read: the writing then says what is wrong.
    fn present_text(&self, path: &str) -> Option<String> {
        let path = self.turn.workspace.resolve(path).ok()?;
        if !path.is_file() {
            return None;
        }
        let bytes = std::fs::read(path).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    async fn write(&mut self, path: &str, text: String, deed: &str) {
        let input = json!({"path": path, "content": text});
        let id = self.file.next_call_id();
        let output = execute::run(self.turn, &id, ToolRequest::write_file(path, text), input).await;
        self.deeds.push(if output.failed {
            format!("could not write `{path}` ({})", output.text)
        } else {
            format!("{deed} `{path}`")
        });
    }

    async fn run(&mut self, command: &str) {
        let input = json!({"command": command});
        let id = self.file.next_call_id();
        let output = execute::run(self.turn, &id, ToolRequest::run_command(command), input).await;
        let outcome = if output.failed { ", which failed" } else { "" };
        self.deeds.push(format!("ran `{command}`{outcome}"));
    }

    async fn ask(&mut self, question: &str) {
        let id = self.file.next_call_id();
        let asking = self.turn.reporter.ask(&id, question, ToolKind::Other);
        let Some(granted) = self.turn.cancel.run_until_cancelled(asking).await else {
            return;
        };
        let answer = if granted { "permission granted" } else { "permission refused" };
        self.say(answer);
        self.deeds.push(format!("asked \"{question}\", {answer}"));
    }

    /// Says a whole message; the empty line makes the next one a paragraph of its own, also where it is read as Markdown.
    fn say(&mut self, text: &str) {
        self.turn.reporter.message(&format!("{text}\n\n"));
        self.file.push_line(Speaker::Agent, text);
    }
}
