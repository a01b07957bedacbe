//! One run as a straight line of steps, each reported before the next.

use journeyman_core::engine::{Claimed, Engine};
use journeyman_core::ids::Sha;
use journeyman_core::job::command::{Kept, Outcome, Published, Report};
use journeyman_core::job::{Job, Progress};
use journeyman_core::ports::{Store, StoreError};
use journeyman_core::run::{ReasonCode, Usage};

use crate::executor::{Assignment, Collected, Execution, Executor};
use crate::failure::Stopped;
use crate::lease::Signals;
use crate::publish::Pushed;

/// Pushes that are tried while people push to the same branch.
const PUSHES: usize = 5;

/// What is over, and what it cost.
pub(crate) struct Done {
    pub(crate) outcome: Outcome,
    pub(crate) usage: Usage,
}

/// What a run has to do.
pub(crate) async fn assign(store: &dyn Store, claimed: &Claimed, signals: &Signals) -> Result<Assignment, Stopped> {
    let (claimed, signals) = (claimed.clone(), signals.clone());
    let project = store.project(claimed.job.project.clone()).await.map_err(gone)?.ok_or(Stopped::LeaseLost)?;
    let message = claimed.job.delivery().ok_or(Stopped::LeaseLost)?.message;
    let mut earlier = store.messages(claimed.job.id).await.map_err(gone)?;
    let own = earlier.iter().position(|other| other.id == message).ok_or(Stopped::LeaseLost)?;
    let message = earlier.remove(own);
    earlier.retain(|message| message.delivered_at.is_some());
    Ok(Assignment { claimed, project, message, earlier, signals })
}

/// Carries out an assignment up to its outcome, which the caller reports.
pub(crate) async fn carry_out(
    engine: &Engine,
    executor: &dyn Executor,
    assignment: &Assignment,
) -> Result<Done, Stopped> {
    let execution = executor.begin(assignment).await?;
    let run = Run { engine, assignment, execution: &*execution };
    let job = &assignment.claimed.job;
    // A turn that has ended is not repeated: what it led to is published.
    let fetched = execution.has_head().await?;
    if let Some(Progress::Publishing { head, commits, stopped: _ }) = job.delivery().map(|delivery| &delivery.progress)
        && fetched
    {
        let outcome = run.publish(job.clone(), head.clone(), commits.clone()).await?;
        return Ok(Done { outcome, usage: Usage::default() });
    }
    run.turn().await
}

struct Run<'a> {
    engine: &'a Engine,
    assignment: &'a Assignment,
    execution: &'a dyn Execution,
}

impl Run<'_> {
    async fn report(&self, report: Report) -> Result<Job, Stopped> {
        let claimed = &self.assignment.claimed;
        Ok(self.engine.report(claimed.job.id, claimed.lease.token, report).await?)
    }

    async fn turn(&self) -> Result<Done, Stopped> {
        let begun = self.execution.prepare().await?;
        let job = self.report(Report::TurnBegun(begun.clone())).await?;
        let turn = self.execution.prompt().await?;
        let Collected { head, commits, kept } = self.execution.collect(&job, &begun, &turn).await?;
        let ended = Report::TurnEnded { head: head.clone(), commits: commits.clone(), kept, stopped: turn.stopped };
        let job = self.report(ended).await?;
        let release = self.execution.release(&job, &head);
        let publish = self.publish(job.clone(), head.clone(), commits);
        let ((), outcome) = tokio::join!(release, publish);
        Ok(Done { outcome: outcome?, usage: turn.usage })
    }

    /// Push, then pull request. A run that was taken over after its turn begins here.
    async fn publish(&self, mut job: Job, mut head: Sha, mut commits: Vec<Sha>) -> Result<Outcome, Stopped> {
        let unpushed = |job: &Job, head: &Sha| {
            job.branch.as_ref().is_some_and(|branch| *head != branch.base && branch.pushed.as_ref() != Some(head))
        };
        let changed = unpushed(&job, &head);
        for attempt in 0.. {
            let Some(branch) = job.branch.clone().filter(|_| unpushed(&job, &head)) else { break };
            self.still_ours()?;
            match self.execution.push(&job, &branch, &head, &commits).await? {
                Pushed::Done => break,
                Pushed::Rebased { .. } if attempt == PUSHES => {
                    let text = "people pushed to the branch again and again; try later";
                    return Err(Stopped::may_pass(ReasonCode::PushRefused, text));
                }
                Pushed::Rebased { head: on_top, commits: moved, bundle } => {
                    (head, commits) = (on_top, moved);
                    let (head, commits) = (head.clone(), commits.clone());
                    let stopped = matches!(
                        job.delivery().map(|delivery| &delivery.progress),
                        Some(Progress::Publishing { stopped: true, .. })
                    );
                    let kept = Kept { bundle, ..Kept::default() };
                    job = self.report(Report::TurnEnded { head, commits, kept, stopped }).await?;
                }
            }
        }
        let Some(branch) = &job.branch else { return Err(Stopped::LeaseLost) };
        if !changed && (job.pull.is_some() || branch.pushed.is_none()) {
            return Ok(Outcome::Published { pushed: None, pull: Published::Nothing });
        }
        self.still_ours()?;
        let pull = self.execution.pull_request(&job, branch).await?;
        Ok(Outcome::Published { pushed: changed.then_some(head), pull })
    }

    /// Asked before each effect that others see: a run that was cancelled or taken over makes none. What slips through
    /// in the moment between is harmless: a push is not forced, and a pull request is looked for first.
    fn still_ours(&self) -> Result<(), Stopped> {
        if self.assignment.signals.lost.is_cancelled() { Err(Stopped::LeaseLost) } else { Ok(()) }
    }
}

pub(crate) fn gone(error: StoreError) -> Stopped {
    Stopped::may_pass(ReasonCode::Internal, error.to_string())
}
