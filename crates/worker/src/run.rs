//! One run as a straight line of steps, each reported before the next.

use journeyman_core::engine::Claimed;
use journeyman_core::ids::Sha;
use journeyman_core::job::command::{Ending, Kept, Outcome, Published, Report, TurnBegun};
use journeyman_core::job::{Job, Progress};
use journeyman_core::ports::{Store, StoreError};
use journeyman_core::project::hold::HoldCause;
use journeyman_core::run::ReasonCode;

use crate::agent::Turn;
use crate::executor::{Assignment, Collected, Execution, Executor, Stage};
use crate::failure::Stopped;
use crate::lease::{Reporter, Signals};
use crate::outage::passed;
use crate::publish::Pushed;

/// Pushes that are tried while people push to the same branch.
const PUSHES: usize = 5;

/// What is over.
pub(crate) struct Done {
    /// The turn's end, where it was not reported yet.
    pub(crate) ended: Option<Report>,
    pub(crate) outcome: Outcome,
}

/// What a run has to do.
pub(crate) async fn assign(
    store: &dyn Store,
    claimed: &Claimed,
    reporter: &Reporter,
    signals: &Signals,
) -> Result<Assignment, Stopped> {
    let (claimed, reporter, signals) = (claimed.clone(), reporter.clone(), signals.clone());
    let project = store.project(claimed.job.project.clone()).await.map_err(gone)?.ok_or(Stopped::LeaseLost)?;
    Ok(Assignment::new(claimed, project, reporter, signals))
}

/// Carries out an assignment and returns its outcome, which the caller reports. A mirror that turns out to be damaged
/// is recreated. Before the agent was prompted, the run then begins again; while its work is being published, the next
/// attempt publishes it.
pub(crate) async fn carry_out(
    store: &dyn Store,
    executor: &dyn Executor,
    assignment: &Assignment,
) -> Result<Done, Stopped> {
    match attempt(store, executor, assignment).await {
        Err(Stopped::MirrorDamaged(detail)) => {
            tracing::warn!(job = %assignment.claimed.job.id, %detail, "the mirror is damaged and is being rebuilt");
            executor.repair(assignment).await?;
            match assignment.stage() {
                Stage::Preparing => attempt(store, executor, assignment).await,
                Stage::Prompting | Stage::Publishing => Err(Stopped::MirrorDamaged(detail)),
            }
        }
        done => done,
    }
}

async fn attempt(store: &dyn Store, executor: &dyn Executor, assignment: &Assignment) -> Result<Done, Stopped> {
    let execution = executor.begin(assignment).await?;
    passed(store, assignment, &[HoldCause::Fetch]).await;
    let run = Run { store, executor, assignment, execution: &*execution };
    let job = &assignment.claimed.job;
    // A turn that has ended is not repeated: what it led to is published.
    let fetched = execution.has_head().await?;
    if let Some(Progress::Publishing { head, commits, .. }) = job.delivery().map(|delivery| &delivery.progress)
        && fetched
    {
        let outcome = run.publish(job.clone(), head.clone(), commits.clone()).await?;
        return Ok(Done { ended: None, outcome });
    }
    run.turn().await
}

struct Run<'a> {
    store: &'a dyn Store,
    executor: &'a dyn Executor,
    assignment: &'a Assignment,
    execution: &'a dyn Execution,
}

impl Run<'_> {
    async fn report(&self, report: Report) -> Result<Job, Stopped> {
        Ok(self.assignment.reporter.report(report).await?)
    }

    async fn turn(&self) -> Result<Done, Stopped> {
        let begun = self.execution.prepare().await?;
        let job = self.begin(&begun).await?;
        if let Some((head, commits)) = self.execution.published_before(&begun).await? {
            tracing::warn!(
                job = %job.id, %head,
                "the message's commits are already on the branch; its turn is not repeated"
            );
            let ended = Report::TurnEnded {
                head: head.clone(),
                commits: commits.clone(),
                kept: Kept::default(),
                ending: Ending::Done,
            };
            let job = self.report(ended).await?;
            let outcome = self.publish(job, head, commits).await?;
            return Ok(Done { ended: None, outcome });
        }
        self.assignment.reach(Stage::Prompting);
        let turn = self.execution.prompt().await?;
        passed(self.store, self.assignment, &[HoldCause::Model]).await;
        let Collected { head, commits, kept } = self.collect(&job, &begun, &turn).await?;
        let archive = kept.archive.clone().unwrap_or_default();
        let ended =
            Report::TurnEnded { head: head.clone(), commits: commits.clone(), kept, ending: turn.ending.clone() };
        if has_nothing_to_publish(&job, &head) {
            // No effect lies between the end of the turn and that of the run: they are one report.
            self.execution.release(&head, &archive).await;
            let outcome = Outcome::Published { pushed: None, pull: Published::Nothing };
            return Ok(Done { ended: Some(ended), outcome });
        }
        let job = self.report(ended).await?;
        let release = self.execution.release(&head, &archive);
        let publish = self.publish(job, head.clone(), commits.clone());
        let ((), outcome) = tokio::join!(release, publish);
        Ok(Done { ended: None, outcome: outcome? })
    }

    /// Collects the work of a turn. The tree does not change meanwhile: if the mirror is damaged, the tree is read
    /// again with a new mirror.
    async fn collect(&self, job: &Job, begun: &TurnBegun, turn: &Turn) -> Result<Collected, Stopped> {
        match self.execution.collect(job, begun, turn).await {
            Err(Stopped::MirrorDamaged(detail)) => {
                tracing::warn!(job = %job.id, %detail, "the mirror is damaged and is being rebuilt");
                self.executor.repair(self.assignment).await?;
                self.execution.collect(job, begun, turn).await
            }
            collected => collected,
        }
    }

    /// A beginning that changes nothing is not reported while the lease that was claimed lasts: nobody else has the run
    /// before it ends, and a cancellation is heard of anyway.
    async fn begin(&self, begun: &TurnBegun) -> Result<Job, Stopped> {
        let Assignment { claimed, reporter, .. } = self.assignment;
        if claimed.job.is_ready_for(begun) && reporter.now() < claimed.lease.until {
            return Ok(claimed.job.clone());
        }
        self.report(Report::TurnBegun(begun.clone())).await
    }

    /// Push, then pull request. A run that was taken over after its turn begins here.
    async fn publish(&self, mut job: Job, mut head: Sha, mut commits: Vec<Sha>) -> Result<Outcome, Stopped> {
        self.assignment.reach(Stage::Publishing);
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
                    let ending = job.delivery().and_then(|delivery| delivery.progress.ending()).unwrap_or_default();
                    let kept = Kept { bundle, ..Kept::default() };
                    job = self.report(Report::TurnEnded { head, commits, kept, ending }).await?;
                }
            }
        }
        if !changed && has_nothing_to_publish(&job, &head) {
            return Ok(Outcome::Published { pushed: None, pull: Published::Nothing });
        }
        let Some(branch) = &job.branch else { return Err(Stopped::LeaseLost) };
        self.still_ours()?;
        let pull = self.execution.pull_request(&job, branch).await?;
        passed(self.store, self.assignment, &[HoldCause::Push]).await;
        Ok(Outcome::Published { pushed: changed.then_some(head), pull })
    }

    /// Asked before each effect that others see: a run that was cancelled or taken over makes none. What slips through
    /// in the moment between is harmless: a push is not forced, and a pull request is looked for first.
    fn still_ours(&self) -> Result<(), Stopped> {
        if self.assignment.signals.lost.is_cancelled() { Err(Stopped::LeaseLost) } else { Ok(()) }
    }
}

/// Whether the code host lacks commits up to `head`.
fn unpushed(job: &Job, head: &Sha) -> bool {
    job.branch.as_ref().is_some_and(|branch| *head != branch.base && branch.pushed.as_ref() != Some(head))
}

/// Whether the code host has all of the job's work, and its pull request if there can be one.
fn has_nothing_to_publish(job: &Job, head: &Sha) -> bool {
    let has_pull = job.pull.is_some() || job.branch.as_ref().is_some_and(|branch| branch.pushed.is_none());
    !unpushed(job, head) && has_pull
}

pub(crate) fn gone(error: StoreError) -> Stopped {
    Stopped::may_pass(ReasonCode::Internal, error.to_string())
}
