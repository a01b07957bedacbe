//! The consequence of a failure for its message: the message fails, is retried, or waits until a cause outside it has
//! passed.

use std::time::Duration;

use journeyman_core::job::Job;
use journeyman_core::job::command::{NextAttempt, Outcome};
use journeyman_core::ports::WorkStore;
use journeyman_core::project::hold::{HoldCause, HoldFailure};
use journeyman_core::retry::{OUTAGE_PATIENCE, REFUSAL_PATIENCE};
use journeyman_core::run::{Reason, ReasonCode};
use journeyman_core::time::IdGen;

use crate::claim::assignment::{Assignment, Stage};

/// The time for which messages wait for causes outside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// The time for outages: a code host, a model provider or a sandbox that does not answer, or a full disk.
    pub outage: Duration,
    /// The time for refusals: a code host or a model provider refuses a credential, or a repository does not exist.
    pub refusal: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { outage: OUTAGE_PATIENCE, refusal: REFUSAL_PATIENCE }
    }
}

/// The consequence of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The message fails.
    Final,
    /// The message fails if another attempt finds the same: what the code host says is final, unless it was just
    /// changed.
    Confirm,
    /// The message is retried a few times.
    Attempt,
    /// The message waits for a cause that affects only this job or this machine.
    Wait(Kind),
    /// The message waits for a cause that affects all jobs of its project.
    Hold(Kind, HoldCause),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Outage,
    Refusal,
}

/// Returns the consequence of a failure at a stage of a run; `may_pass` is the judgment of the step that failed.
const fn verdict(code: ReasonCode, may_pass: bool, stage: Stage) -> Verdict {
    let host = match stage {
        Stage::Preparing | Stage::Prompting | Stage::Answered => HoldCause::Fetch,
        Stage::Publishing => HoldCause::Push,
    };
    match code {
        ReasonCode::RepositoryUnreachable | ReasonCode::CodeHostRateLimited => Verdict::Hold(Kind::Outage, host),
        ReasonCode::RepositoryNotFound | ReasonCode::CredentialRefused => Verdict::Hold(Kind::Refusal, host),
        ReasonCode::RepositoryArchived => Verdict::Final,
        ReasonCode::PermissionMissing => Verdict::Confirm,
        ReasonCode::ModelUnauthorized => Verdict::Hold(Kind::Refusal, HoldCause::Model),
        ReasonCode::ModelUnavailable | ReasonCode::ModelRateLimited | ReasonCode::ModelTimedOut if may_pass => {
            Verdict::Hold(Kind::Outage, HoldCause::Model)
        }
        ReasonCode::DiskFull
        | ReasonCode::StorageUnavailable
        | ReasonCode::SandboxUnsafe
        | ReasonCode::SandboxUnavailable
            if may_pass =>
        {
            Verdict::Wait(Kind::Outage)
        }
        _ if !may_pass => Verdict::Final,
        // The agent has not been prompted yet, or its turn is over: a retry costs nothing and repeats no turn.
        _ if !matches!(stage, Stage::Prompting) => Verdict::Wait(Kind::Outage),
        _ => Verdict::Attempt,
    }
}

/// Returns the outcome of a failed run, and puts the project on hold if the cause affects the whole project.
pub(crate) async fn outcome(
    store: &dyn WorkStore,
    ids: &dyn IdGen,
    patience: Patience,
    assignment: &Assignment,
    (reason, may_pass): (Reason, bool),
) -> Outcome {
    let verdict = verdict(reason.code, may_pass, assignment.stage());
    let jitter = ids.permille();
    let kind = match verdict {
        Verdict::Final => return Outcome::Failed { reason, retry: None },
        Verdict::Attempt => return Outcome::Failed { reason, retry: Some(jitter) },
        Verdict::Confirm if is_confirmed(&assignment.claimed.job, &reason) => {
            return Outcome::Failed { reason, retry: None };
        }
        Verdict::Confirm => Kind::Refusal,
        Verdict::Wait(kind) | Verdict::Hold(kind, _) => kind,
    };
    let patience = match kind {
        Kind::Outage => patience.outage,
        Kind::Refusal => patience.refusal,
    };
    let now = assignment.reporter.now();
    let (mut since, mut next) = (now, NextAttempt::Backoff(jitter));
    if let Verdict::Hold(_, cause) = verdict
        && is_of_the_project(assignment, cause)
    {
        let reason = assignment.reporter.redact(&reason);
        let started_at = assignment.started_at;
        let failure = HoldFailure { reason, cause, started_at, at: now, permille: jitter };
        match store.hold_project(assignment.project.id.clone(), failure).await {
            Ok(Some(hold)) => {
                since = hold.since.max(assignment.claimed.message.created_at);
                next = NextAttempt::AfterHold;
            }
            Ok(None) => {}
            // The message then waits on its own schedule.
            Err(error) => {
                tracing::warn!(project = %assignment.project.id, %error, "the project could not be put on hold");
            }
        }
    }
    Outcome::Waiting { reason, since, patience, next }
}

/// Returns whether an earlier attempt at the message has found the same reason.
fn is_confirmed(job: &Job, reason: &Reason) -> bool {
    let before = job.in_flight().and_then(|in_flight| in_flight.waiting.as_ref());
    before.is_some_and(|before| before.reason.code == reason.code)
}

/// Returns whether the cause also affects the other jobs of the project; a job with a different model may be the only
/// one.
fn is_of_the_project(assignment: &Assignment, cause: HoldCause) -> bool {
    match cause {
        HoldCause::Fetch | HoldCause::Push => assignment.claimed.job.source.repository == assignment.project.repository,
        HoldCause::Model => assignment.claimed.job.model == assignment.project.model,
    }
}

/// Ends the hold of the project if this run probed it and has got past one of `causes`.
pub(crate) async fn passed(store: &dyn WorkStore, assignment: &Assignment, causes: &[HoldCause]) {
    if assignment.claimed.hold.as_ref().is_some_and(|hold| causes.contains(&hold.cause))
        && let Err(error) = store.release_project(assignment.project.id.clone()).await
    {
        // The next probe ends the hold.
        tracing::warn!(project = %assignment.project.id, %error, "the hold of the project could not be ended");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_outside_the_message_are_waited_for() {
        use ReasonCode::{
            AgentExited, CredentialRefused, DiskFull, Internal, ModelUnauthorized, ModelUnavailable, PermissionMissing,
            PushRefused, RepositoryArchived, RepositoryEmpty, RepositoryNotFound, RepositoryUnreachable,
            SandboxUnavailable, SandboxUnsafe, SetupFailed, StorageUnavailable, UnknownRef, WorkspaceRefused,
        };
        use Stage::{Answered, Preparing, Prompting, Publishing};
        for (code, may_pass, stage, expected) in [
            (RepositoryUnreachable, true, Preparing, Verdict::Hold(Kind::Outage, HoldCause::Fetch)),
            (RepositoryUnreachable, true, Publishing, Verdict::Hold(Kind::Outage, HoldCause::Push)),
            (RepositoryNotFound, false, Preparing, Verdict::Hold(Kind::Refusal, HoldCause::Fetch)),
            (CredentialRefused, false, Publishing, Verdict::Hold(Kind::Refusal, HoldCause::Push)),
            (ModelUnavailable, true, Prompting, Verdict::Hold(Kind::Outage, HoldCause::Model)),
            (ModelUnauthorized, false, Prompting, Verdict::Hold(Kind::Refusal, HoldCause::Model)),
            (DiskFull, true, Prompting, Verdict::Wait(Kind::Outage)),
            (SandboxUnsafe, true, Preparing, Verdict::Wait(Kind::Outage)),
            (SandboxUnavailable, true, Prompting, Verdict::Wait(Kind::Outage)),
            (Internal, true, Preparing, Verdict::Wait(Kind::Outage)),
            (Internal, true, Publishing, Verdict::Wait(Kind::Outage)),
            (Internal, true, Prompting, Verdict::Attempt),
            (Internal, true, Answered, Verdict::Wait(Kind::Outage)),
            (StorageUnavailable, true, Preparing, Verdict::Wait(Kind::Outage)),
            (StorageUnavailable, true, Prompting, Verdict::Wait(Kind::Outage)),
            (StorageUnavailable, true, Answered, Verdict::Wait(Kind::Outage)),
            (SandboxUnavailable, true, Answered, Verdict::Wait(Kind::Outage)),
            (StorageUnavailable, true, Publishing, Verdict::Wait(Kind::Outage)),
            (RepositoryUnreachable, true, Answered, Verdict::Hold(Kind::Outage, HoldCause::Fetch)),
            (WorkspaceRefused, false, Answered, Verdict::Final),
            (AgentExited, true, Prompting, Verdict::Attempt),
            (RepositoryEmpty, false, Preparing, Verdict::Final),
            (UnknownRef, false, Preparing, Verdict::Final),
            (SetupFailed, false, Preparing, Verdict::Final),
            (PushRefused, false, Publishing, Verdict::Final),
            (RepositoryArchived, false, Preparing, Verdict::Final),
            (RepositoryArchived, false, Publishing, Verdict::Final),
            (PermissionMissing, false, Preparing, Verdict::Confirm),
            (PermissionMissing, false, Publishing, Verdict::Confirm),
        ] {
            assert_eq!(verdict(code, may_pass, stage), expected, "{code:?} while {stage:?}");
        }
    }
}
