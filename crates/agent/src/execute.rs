//! Running one tool call: announce it, run it, report what came of it.
//!
//! Invariant: every announced call is finished in the eyes of the client, unless the turn itself is dropped.

use serde_json::Value;

use crate::tools::{Announcement, Context, ToolOutput, ToolRequest};
use crate::turn::Turn;

/// Runs the call that a model asked for by name. A call that makes no sense is reported as a failed one.
pub(crate) async fn call(turn: &Turn<'_>, id: &str, name: &str, arguments: &Value) -> ToolOutput {
    match ToolRequest::parse(name, arguments) {
        Ok(request) => run(turn, id, request, arguments.clone()).await,
        Err(reason) => {
            let announcement = Announcement::unknown(name);
            turn.reporter.call_started(id, name, &announcement, arguments.clone());
            let output = ToolOutput::failure(&reason);
            turn.reporter.call_finished(id, &output);
            output
        }
    }
}

/// Runs a call; `raw_input` is what the client is shown as its input.
pub(crate) async fn run(turn: &Turn<'_>, id: &str, request: ToolRequest, raw_input: Value) -> ToolOutput {
    let announcement = request.announcement(turn.workspace);
    turn.reporter.call_started(id, request.name(), &announcement, raw_input);
    let context = Context { workspace: turn.workspace, cancel: turn.cancel };
    let output = request.run(&context).await.unwrap_or_else(|error| ToolOutput::failure(&error.to_string()));
    turn.reporter.call_finished(id, &output);
    if let Some(plan) = &output.plan {
        turn.reporter.plan(plan);
    }
    output
}
