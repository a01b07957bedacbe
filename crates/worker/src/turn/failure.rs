//! The failures of agents, as errors of their runs.

use std::time::Duration;

use journeyman_core::ports::{Exit, Process};
use journeyman_core::run::ReasonCode;

use crate::acp::{AcpError, Update};
use crate::claim::deadline::{Overdue, WorkLimits};
use crate::error::RunError;

/// The time that a process may take to exit after its streams have ended.
const EXIT_TIME: Duration = Duration::from_secs(3);

/// The time that a process may take to exit after it has violated the protocol. It may not intend to exit.
const VIOLATION_EXIT_TIME: Duration = Duration::from_millis(500);

/// Returns the error of an agent that did not start, which another attempt would not change. `what` completes the
/// sentence "the agent's process ended before …".
pub(super) fn not_started(error: AcpError, what: &str) -> RunError {
    match error {
        AcpError::Exited => {
            RunError::failed(ReasonCode::AgentExited, format!("the agent's process ended before {what}"))
        }
        error => of_turn(error),
    }
}

/// Returns the error of an agent that did not answer `initialize` within its limits. Another attempt may succeed, when
/// the machine is less busy.
pub(super) fn too_slow(overdue: Overdue, limits: WorkLimits) -> RunError {
    let how = match overdue {
        Overdue::Busy => format!("after {} s of processor time", limits.processor.as_secs()),
        Overdue::Blocked => format!("within {} s, in which it did nothing", limits.blocked.as_secs()),
        Overdue::Long => format!("within {} s", limits.longest.as_secs()),
    };
    let text = format!(
        "the agent did not answer initialize {how}; a slower agent needs a larger initialize-seconds in its table \
         (docs/agents.md)"
    );
    RunError::may_pass(ReasonCode::AgentNotStarted, text)
}

/// Adds the first line that was no message of the protocol, which may explain why an agent did not start.
pub(super) fn with_first_line(mut error: RunError, dropped: &[Update]) -> RunError {
    if let (RunError::Failed { reason, .. }, Some(Update::Dropped { beginning, .. })) = (&mut error, dropped.first()) {
        reason.text.push_str(&format!("; its first line was no message of the protocol: {beginning}"));
    }
    error
}

/// Returns the error of a failed turn.
pub(super) fn of_turn(error: AcpError) -> RunError {
    match error {
        AcpError::Exited => {
            RunError::may_pass(ReasonCode::AgentExited, "the agent's process ended in the middle of the turn")
        }
        AcpError::Agent { message, .. } => RunError::failed(ReasonCode::AgentFailed, message),
        AcpError::TooMuch { .. } => {
            RunError::failed(ReasonCode::OutputLimit, format!("{error}; raise limits.outputBytes of the project"))
        }
        AcpError::Timeout { .. } => RunError::may_pass(ReasonCode::AgentProtocol, error.to_string()),
        AcpError::Protocol(_) | AcpError::Version(_) => RunError::failed(ReasonCode::AgentProtocol, error.to_string()),
    }
}

/// Returns how a process with an unexplained error ended by itself; `None` if it still runs. Its streams may have ended
/// just before the process.
pub(super) async fn exit_of(process: &mut dyn Process, error: &RunError) -> Option<Exit> {
    let has_ended = matches!(error, RunError::Failed { reason, .. } if reason.code == ReasonCode::AgentExited);
    let time = if has_ended { EXIT_TIME } else { VIOLATION_EXIT_TIME };
    tokio::time::timeout(time, process.wait()).await.ok()
}

/// Returns whether the agent's exit status and its last output may explain the failure.
pub(super) fn is_unexplained(error: &RunError) -> bool {
    let RunError::Failed { reason, .. } = error else { return false };
    matches!(reason.code, ReasonCode::AgentExited | ReasonCode::AgentProtocol)
}

/// Adds the exit status and the last output of an agent that ended by itself, if they may explain the failure.
pub(super) fn explain(mut error: RunError, exit: Option<Exit>, last_output: &str) -> RunError {
    if is_unexplained(&error)
        && let RunError::Failed { reason, .. } = &mut error
    {
        if let Some(exit) = exit {
            reason.text.push_str(&format!(" ({exit})"));
        }
        if !last_output.is_empty() {
            reason.text.push_str(&format!("; it printed last: {last_output}"));
        }
    }
    error
}
