//! Runs one tool call: announces it, runs it, and reports the result.
//!
//! Invariant: the client learns of the end of every announced call, unless the turn itself is dropped.

use agent_client_protocol::v1::schema::ToolKind;
use serde_json::Value;

use crate::tools::{Announcement, Context, ToolOutput, ToolRequest};
use crate::turn::Turn;

/// The result of a refused call, for the model.
const REFUSED: &str = "permission for this call was refused; do not try it again, and say what could not be done";

/// The result of a call whose permission request was pending when the turn was cancelled, for the model.
const NOT_ASKED: &str = "the turn was cancelled";

/// Runs the call that a model requested by name. An invalid call is reported as a failed one.
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

/// Runs a call; the client sees `raw_input` as its input.
pub(crate) async fn run(turn: &Turn<'_>, id: &str, request: ToolRequest, raw_input: Value) -> ToolOutput {
    let announcement = request.announcement(turn.workspace);
    turn.reporter.call_started(id, request.name(), &announcement, raw_input);
    let context = Context { workspace: turn.workspace, cancel: turn.cancel };
    let output = match permission(turn, id, &announcement).await {
        Ok(()) => request.run(&context).await.unwrap_or_else(|error| ToolOutput::failure(&error.to_string())),
        Err(reason) => ToolOutput::failure(reason),
    };
    turn.reporter.call_finished(id, &output);
    if let Some(plan) = &output.plan {
        turn.reporter.plan(plan);
    }
    output
}

/// Asks the client for permission if the agent is configured to ask and the call edits files or runs a command. The
/// error is the result for the model.
async fn permission(turn: &Turn<'_>, id: &str, announcement: &Announcement) -> Result<(), &'static str> {
    if !turn.asks || !matches!(announcement.kind, ToolKind::Edit | ToolKind::Execute) {
        return Ok(());
    }
    let asking = turn.reporter.ask(id, &announcement.title, announcement.kind);
    match turn.cancel.run_until_cancelled(asking).await {
        Some(true) => Ok(()),
        Some(false) => Err(REFUSED),
        None => Err(NOT_ASKED),
    }
}
