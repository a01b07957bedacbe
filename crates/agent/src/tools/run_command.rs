//! `run_command`: runs a shell command in the working directory.
//!
//! Invariants: when a call ends, for any reason, all processes of its process group are killed; at most
//! [`MAX_OUTPUT_BYTES`] of output are held in memory.

use std::collections::VecDeque;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use agent_client_protocol::v1::schema::ToolKind;
use genai::chat::Tool;
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use super::process_group::ProcessGroup;
use super::{Announcement, Context, ToolError, ToolOutput, arguments};
use crate::model::KEY_VARIABLES;
use crate::text;
use crate::workspace::Workspace;

/// The name of the tool.
pub(crate) const NAME: &str = "run_command";

/// The time limit of a command in seconds, if the call does not give one.
const DEFAULT_SECONDS: u64 = 120;

/// The longest time limit of a command, in seconds.
const MAX_SECONDS: u64 = 600;

/// The maximum number of bytes of output that are returned: 30,000, from the start and the end.
const MAX_OUTPUT_BYTES: usize = 30_000;
const HEAD_BYTES: usize = 10_000;
const TAIL_BYTES: usize = MAX_OUTPUT_BYTES - HEAD_BYTES;

/// The time for reading output after the shell has ended: a background process may hold the pipe open.
const DRAIN: Duration = Duration::from_millis(500);

/// The arguments of the tool.
#[derive(Debug, Deserialize)]
pub(crate) struct Args {
    /// The command, for `sh -c`.
    pub(crate) command: String,
    /// The time limit in seconds. Default: 120, at most 600.
    #[serde(default, deserialize_with = "arguments::number")]
    pub(crate) timeout_seconds: Option<u64>,
}

impl Args {
    /// Describes the call before it runs.
    pub(crate) fn announcement(&self) -> Announcement {
        Announcement::new(ToolKind::Execute, text::clip(&self.command, 200))
    }
}

/// Returns the definition of the tool for a model.
pub(crate) fn definition() -> Tool {
    Tool::new(NAME)
        .with_description(
            "Run a shell command (sh -c) in the working directory. It has no input and no terminal. Processes that it \
             leaves in the background are ended with it. Of long output the start and the end are shown.",
        )
        .with_schema(json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The command"},
                "timeout_seconds": {"type": "integer", "description": "Default 120, at most 600"},
            },
            "required": ["command"],
        }))
}

/// Runs the tool. A failing command produces a failed output, not an error.
pub(crate) async fn run(args: &Args, context: &Context<'_>) -> Result<ToolOutput, ToolError> {
    let seconds = args.timeout_seconds.unwrap_or(DEFAULT_SECONDS).clamp(1, MAX_SECONDS);
    let mut child = start(&args.command, context.workspace).map_err(ToolError::io("run", &args.command))?;
    let group = ProcessGroup::of(&child);
    let mut output = Capture::default();
    let end = tokio::select! {
        biased;
        () = context.cancel.cancelled() => return Err(ToolError::Cancelled),
        () = tokio::time::sleep(Duration::from_secs(seconds)) => None,
        status = follow(&mut child, &mut output) => Some(status.map_err(ToolError::io("run", &args.command))?),
    };
    drop(group);
    Ok(result(end, seconds, &output.into_text()))
}

fn start(command: &str, workspace: &Workspace) -> io::Result<Child> {
    let mut shell = Command::new("sh");
    // A command that waits for the input of a person would wait forever.
    shell
        .arg("-c")
        .arg(command)
        .current_dir(workspace.root())
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_PAGER", "cat")
        .env("PAGER", "cat")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    for variable in KEY_VARIABLES {
        shell.env_remove(variable);
    }
    shell.spawn()
}

/// Reads the output until the shell has ended.
async fn follow(child: &mut Child, output: &mut Capture) -> io::Result<ExitStatus> {
    let mut pipes = Pipes {
        stdout: child.stdout.take(),
        stderr: child.stderr.take(),
        buffers: (vec![0; 8 * 1024], vec![0; 8 * 1024]),
    };
    let status = loop {
        tokio::select! {
            more = pipes.read(output), if pipes.are_open() => more?,
            ended = child.wait() => break ended?,
        }
    };
    let rest = async {
        while pipes.are_open() {
            pipes.read(output).await?;
        }
        Ok::<(), io::Error>(())
    };
    // Neither a pipe that stays open nor an error in the rest of the output changes how the command ended.
    let _ = tokio::time::timeout(DRAIN, rest).await;
    Ok(status)
}

/// The output pipes of a command, which are read as data arrives.
struct Pipes {
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    buffers: (Vec<u8>, Vec<u8>),
}

impl Pipes {
    fn are_open(&self) -> bool {
        self.stdout.is_some() || self.stderr.is_some()
    }

    /// Reads once from either pipe. The future may be dropped at any time without losing output.
    async fn read(&mut self, output: &mut Capture) -> io::Result<()> {
        let (out_buffer, err_buffer) = (&mut self.buffers.0, &mut self.buffers.1);
        let (from_stdout, bytes) = tokio::select! {
            count = read_some(self.stdout.as_mut(), out_buffer), if self.stdout.is_some() => (true, count?),
            count = read_some(self.stderr.as_mut(), err_buffer), if self.stderr.is_some() => (false, count?),
            else => return Ok(()),
        };
        match (from_stdout, bytes) {
            (true, 0) => self.stdout = None,
            (false, 0) => self.stderr = None,
            (true, count) => output.push(self.buffers.0.get(..count).unwrap_or_default()),
            (false, count) => output.push(self.buffers.1.get(..count).unwrap_or_default()),
        }
        Ok(())
    }
}

async fn read_some<R: tokio::io::AsyncRead + Unpin>(pipe: Option<&mut R>, buffer: &mut [u8]) -> io::Result<usize> {
    match pipe {
        Some(pipe) => pipe.read(buffer).await,
        None => Ok(0),
    }
}

/// The start and the end of an output.
#[derive(Debug, Default)]
struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: usize,
}

impl Capture {
    fn push(&mut self, bytes: &[u8]) {
        let head_bytes = HEAD_BYTES.saturating_sub(self.head.len()).min(bytes.len());
        let (head, tail) = bytes.split_at(head_bytes);
        self.head.extend_from_slice(head);
        self.tail.extend(tail);
        let excess = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..excess);
        self.left_out += excess;
    }

    fn into_text(self) -> String {
        let mut bytes = self.head;
        if self.left_out > 0 {
            bytes.extend_from_slice(format!("\n[… {} bytes left out …]\n", self.left_out).as_bytes());
        }
        bytes.extend(self.tail);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Creates the result for the model. `end` is `None` if the command exceeded its time limit.
fn result(end: Option<ExitStatus>, seconds: u64, output: &str) -> ToolOutput {
    let note = match end {
        None => Some(format!("[The command was stopped after {seconds} seconds.]")),
        Some(status) if status.success() => None,
        Some(status) => Some(format!("[The command failed: {status}.]")),
    };
    let mut text = output.trim_end().to_owned();
    let failed = note.is_some();
    if let Some(note) = note {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&note);
    } else if text.is_empty() {
        text.push_str("[The command succeeded without output.]");
    }
    ToolOutput { text, failed, ..ToolOutput::default() }
}

#[cfg(test)]
mod tests;
