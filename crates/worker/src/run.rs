//! A run as a sequence of steps, each of which is reported before the next begins.

mod check_logs;
mod comment_files;
mod home_files;
pub(crate) mod outcome;
pub(crate) mod port;
pub(crate) mod publish;
mod review;
pub(crate) mod setup;
pub(crate) mod steps;

use journeyman_core::checkout::{self, Missing};
use journeyman_core::engine::Claimed;
use journeyman_core::ids::Sha;
use journeyman_core::job::command::{Outcome, Published, Report};
use journeyman_core::job::event::{TranscriptEntry, TranscriptKind};
use journeyman_core::job::turn::{Ending, TurnArtifacts, TurnBegun};
use journeyman_core::job::{Job, Progress};
use journeyman_core::ports::WorkStore;
use journeyman_core::project::hold::HoldCause;
use journeyman_core::run::ReasonCode;
use journeyman_repository::push::Pushed;
use serde_json::json;
use tracing::{Instrument as _, Span};

use self::outcome::passed;
use self::port::{Collected, Machine, Steps};
use crate::claim::assignment::{Assignment, Stage};
use crate::claim::lease::{Reporter, Signals};
use crate::error::RunError;
use crate::turn::result::Turn;

/// The maximum number of pushes while people push to the same branch.
const PUSHES: usize = 5;

/// The end of a run.
pub(crate) enum Done {
    /// The outcome is not recorded yet.
    Reaches(Outcome),
    /// The outcome is recorded; this is the job after it.
    Recorded(Box<Job>),
}

/// Loads the project of a claimed run.
pub(crate) async fn assign(
    store: &dyn WorkStore,
    claimed: &Claimed,
    reporter: &Reporter,
    signals: &Signals,
) -> Result<Assignment, RunError> {
    let (claimed, reporter, signals) = (claimed.clone(), reporter.clone(), signals.clone());
    let project = store.project(claimed.job.project.clone()).await?.ok_or(RunError::LeaseLost)?;
    let project = if claimed.job.options.review.is_some() { review::without_secrets(project) } else { project };
    Ok(Assignment::new(claimed, project, reporter, signals))
}

/// Carries out an assignment and returns its outcome, which the caller reports. A mirror that turns out to be damaged
/// is recreated. Before the agent was prompted, the run then begins again; while its work is being published, the next
/// attempt publishes it.
pub(crate) async fn carry_out(
    store: &dyn WorkStore,
    machine: &dyn Machine,
    assignment: &Assignment,
) -> Result<Done, RunError> {
    match attempt(store, machine, assignment).await {
        Err(RunError::MirrorDamaged(detail)) => {
            tracing::warn!(job = %assignment.claimed.job.id, %detail, "the mirror is damaged and is being rebuilt");
            machine.repair_mirror(assignment).await?;
            match assignment.stage() {
                Stage::Preparing => attempt(store, machine, assignment).await,
                Stage::Prompting | Stage::Answered | Stage::Publishing => Err(RunError::MirrorDamaged(detail)),
            }
        }
        done => done,
    }
}

async fn attempt(store: &dyn WorkStore, machine: &dyn Machine, assignment: &Assignment) -> Result<Done, RunError> {
    let steps = machine.begin(assignment).instrument(step("begin")).await?;
    passed(store, assignment, &[HoldCause::Fetch]).await;
    let run = Run { store, machine, assignment, steps: &*steps };
    let job = &assignment.claimed.job;
    // A turn that has ended is not repeated; its commits are published.
    let fetched = steps.fetch_head().instrument(step("fetch")).await?;
    if let Some(Progress::Publishing { head, commits, .. }) = job.in_flight().map(|message| &message.progress)
        && fetched
    {
        return Ok(Done::Reaches(run.publish(job.clone(), head.clone(), commits.clone()).await?));
    }
    let done = run.turn().await;
    if assignment.stage() == Stage::Answered
        && let Err(RunError::Failed { retry: true, .. } | RunError::MirrorDamaged(_) | RunError::HandedBack) = &done
    {
        steps.sync_answered().await;
    }
    done
}

/// Returns the span of a step, which begins.
fn step(name: &'static str) -> Span {
    tracing::debug!(step = name, "a step begins");
    tracing::debug_span!("step", otel.name = name, name)
}

struct Run<'a> {
    store: &'a dyn WorkStore,
    machine: &'a dyn Machine,
    assignment: &'a Assignment,
    steps: &'a dyn Steps,
}

impl Run<'_> {
    async fn report(&self, report: Report) -> Result<Job, RunError> {
        Ok(self.assignment.reporter.report_until_lost(vec![report]).await?)
    }

    async fn turn(&self) -> Result<Done, RunError> {
        let resumed = self.resume().await?;
        let (begun, turn) = match resumed {
            Some((begun, turn)) => (begun, Some(turn)),
            None => (self.steps.prepare().instrument(step("prepare")).await?, None),
        };
        let job = match turn {
            Some(_) => self.assignment.claimed.job.clone(),
            None => self.begin(&begun).await?,
        };
        if let Some((head, commits)) = self.steps.published_before(&begun).await? {
            tracing::warn!(
                job = %job.id, %head,
                "the message's commits are already on the branch; its turn is not repeated"
            );
            let ended = Report::TurnEnded {
                head: head.clone(),
                commits: commits.clone(),
                artifacts: TurnArtifacts::default(),
                ending: Ending::Done,
            };
            let job = self.report(ended).await?;
            return Ok(Done::Reaches(self.publish(job, head, commits).await?));
        }
        let (turn, collected) = self.work(&job, &begun, turn).await?;
        passed(self.store, self.assignment, &[HoldCause::Model]).await;
        let Collected { head, commits, artifacts, refused, unfinished: _ } = collected;
        let archive = artifacts.archive.clone().unwrap_or_default();
        let ending = match (turn.ending, refused) {
            (Ending::Done, Some(reason)) => Ending::CutShort(reason),
            (ending, _) => ending,
        };
        let ended = Report::TurnEnded { head: head.clone(), commits: commits.clone(), artifacts, ending };
        if has_nothing_to_publish(&job, &head, &commits) {
            // Nothing happens between the end of the turn and the end of the run, so both are one report. Until it is
            // recorded, the workspace keeps the turn.
            let outcome = Outcome::Published { pushed: None, pull: Published::Nothing };
            let reporter = &self.assignment.reporter;
            let finished = Report::Finished { outcome, usage: reporter.usage() };
            let job = reporter.report_until_lost(vec![ended, finished]).await?;
            self.steps.keep_workspace(&head, &archive).await;
            return Ok(Done::Recorded(Box::new(job)));
        }
        let job = self.report(ended).await?;
        let keep = self.steps.keep_workspace(&head, &archive);
        let publish = self.publish(job, head.clone(), commits.clone());
        let ((), outcome) = tokio::join!(keep, publish);
        Ok(Done::Reaches(outcome?))
    }

    /// Returns the turn that the agent has ended in an earlier run of this message, if this machine has its work. If the
    /// work is lost, that is told: the agent is prompted again.
    async fn resume(&self) -> Result<Option<(TurnBegun, Turn)>, RunError> {
        let job = &self.assignment.claimed.job;
        let Some((begun, in_flight)) = job.branch.as_ref().map(TurnBegun::of_branch).zip(job.in_flight()) else {
            return Ok(None);
        };
        if let Some(turn) = self.steps.resume(&begun).instrument(step("resume")).await? {
            tracing::info!(job = %job.id, "the agent has ended its turn in an earlier run, whose work is collected now");
            self.assignment.reach(Stage::Answered);
            if in_flight.answered.is_none() {
                self.answered(&turn).await?;
            }
            return Ok(Some((begun, turn)));
        }
        if in_flight.answered.is_some() {
            tracing::warn!(job = %job.id, "the work of an ended turn is not on this machine; the agent is prompted again");
            let at = self.assignment.reporter.now();
            let data = checkout::event_data(&[Missing::turn()]).unwrap_or_default();
            let lost = TranscriptEntry { kind: TranscriptKind::CheckoutIncomplete, data, at };
            self.assignment.reporter.transcript(vec![lost]).await?;
        }
        Ok(None)
    }

    /// Carries out the turn, unless an earlier run did, and collects its work. If the agent has left conflicts, it is
    /// asked once to resolve them.
    async fn work(&self, job: &Job, begun: &TurnBegun, resumed: Option<Turn>) -> Result<(Turn, Collected), RunError> {
        let turn = match resumed {
            Some(turn) => turn,
            None => self.prompt(begun, None).await?,
        };
        let collected = self.collect(job, begun, &turn).await?;
        let Some(unfinished) = collected.unfinished.as_ref().filter(|_| turn.ending == Ending::Done) else {
            return Ok((turn, collected));
        };
        let data = json!({ "cause": "unresolved_conflicts", "continuation": 1, "most": 1 });
        let at = self.assignment.reporter.now();
        let continued = TranscriptEntry { kind: TranscriptKind::Continued, data, at };
        self.assignment.reporter.transcript(vec![continued]).await?;
        let next = self.prompt(begun, Some((&unfinished.prompt(), &turn))).await?;
        let collected = self.collect(job, begun, &next).await?;
        Ok((next, collected))
    }

    /// Prompts the agent, and records the end of its turn before anything else can fail: also before the agent is
    /// stopped. With `more`, continues an earlier turn with a prompt.
    async fn prompt(&self, begun: &TurnBegun, more: Option<(&str, &Turn)>) -> Result<Turn, RunError> {
        self.assignment.reach(Stage::Prompting);
        let next = self.steps.prompt(more.map(|(text, _)| text)).instrument(step("prompt")).await?;
        let turn = Turn { answer: next.answer.or_else(|| more.and_then(|(_, turn)| turn.answer.clone())), ..next };
        if self.steps.keep_answered(begun, &turn).await {
            self.assignment.reach(Stage::Answered);
            self.answered(&turn).await?;
        }
        self.steps.stop_agent(&turn).instrument(step("stop_agent")).await?;
        Ok(turn)
    }

    async fn answered(&self, turn: &Turn) -> Result<(), RunError> {
        let (answer, usage) = (turn.answer.clone(), self.assignment.reporter.usage());
        self.report(Report::Answered { answer, usage }).await.map(drop)
    }

    /// Collects the work of a turn. The tree does not change meanwhile: if the mirror is damaged, the tree is read
    /// again with a new mirror.
    async fn collect(&self, job: &Job, begun: &TurnBegun, turn: &Turn) -> Result<Collected, RunError> {
        match self.steps.collect(job, begun, turn).instrument(step("collect")).await {
            Err(RunError::MirrorDamaged(detail)) => {
                tracing::warn!(job = %job.id, %detail, "the mirror is damaged and is being rebuilt");
                self.machine.repair_mirror(self.assignment).await?;
                // The state of the tree may be that after the commits, which the new mirror does not have.
                self.steps.resume(begun).await?;
                self.steps.collect(job, begun, turn).await
            }
            collected => collected,
        }
    }

    /// Reports the beginning of the turn. A beginning that changes nothing is not reported while the claimed lease
    /// lasts: no other worker can have the run before the lease ends, and a cancellation is noticed in any case.
    async fn begin(&self, begun: &TurnBegun) -> Result<Job, RunError> {
        let Assignment { claimed, reporter, .. } = self.assignment;
        if claimed.job.is_ready_for(begun) && reporter.now() < claimed.lease.until {
            return Ok(claimed.job.clone());
        }
        self.report(Report::TurnBegun(begun.clone())).await
    }

    /// Pushes, then ensures the pull request. A run that was taken over after its turn starts here.
    async fn publish(&self, mut job: Job, mut head: Sha, mut commits: Vec<Sha>) -> Result<Outcome, RunError> {
        self.assignment.reach(Stage::Publishing);
        let changed = unpushed(&job, &head);
        for push in 1.. {
            let Some(branch) = job.branch.clone().filter(|_| unpushed(&job, &head)) else { break };
            self.check_lease()?;
            self.check_project().await?;
            match self.steps.push(&job, &branch, &head, &commits).instrument(step("push")).await? {
                Pushed::Done => break,
                Pushed::Rebased { .. } if push == PUSHES => {
                    let text = "people kept pushing to the branch while the job pushed to it; try again later";
                    return Err(RunError::may_pass(ReasonCode::PushRefused, text));
                }
                Pushed::Rebased { head: new_head, commits: new_commits, bundle, diff } => {
                    (head, commits) = (new_head, new_commits);
                    let (head, commits) = (head.clone(), commits.clone());
                    let ending = job.in_flight().and_then(|message| message.progress.ending()).unwrap_or_default();
                    let artifacts = TurnArtifacts { bundle, diff, ..TurnArtifacts::default() };
                    job = self.report(Report::TurnEnded { head, commits, artifacts, ending }).await?;
                }
            }
        }
        // The record of an earlier push may have been lost.
        let is_first = !commits.is_empty() && job.pull.as_ref().is_some_and(|pull| pull.is_untouched);
        if !changed && !is_first && has_nothing_to_publish(&job, &head, &commits) {
            return Ok(Outcome::Published { pushed: None, pull: Published::Nothing });
        }
        let Some(branch) = &job.branch else { return Err(RunError::LeaseLost) };
        self.check_lease()?;
        self.check_project().await?;
        let pull = self.steps.pull_request(&job, branch).instrument(step("pull_request")).await?;
        passed(self.store, self.assignment, &[HoldCause::Push]).await;
        Ok(Outcome::Published { pushed: changed.then_some(head), pull })
    }

    /// Checks before each effect that others can see that the project still has the repository of this run. The next
    /// attempt uses the new address, if it is one of the same repository.
    async fn check_project(&self) -> Result<(), RunError> {
        let project = &self.assignment.project;
        let current = self.store.project(project.id.clone()).await?.ok_or(RunError::LeaseLost)?;
        if current.repository == project.repository {
            return Ok(());
        }
        let text = "the repository of the project was changed while the job worked. Its commits are kept, and the next \
                    attempt publishes them if the new address is that of the same repository";
        Err(RunError::may_pass(ReasonCode::RepositoryChanged, text))
    }

    /// Checks the lease before each effect that others can see. An effect between this check and the loss of the lease
    /// is harmless: a push is never forced, and an existing pull request is looked up first.
    fn check_lease(&self) -> Result<(), RunError> {
        if self.assignment.signals.lost.is_cancelled() { Err(RunError::LeaseLost) } else { Ok(()) }
    }
}

/// Returns whether the code host lacks commits up to `head`.
fn unpushed(job: &Job, head: &Sha) -> bool {
    job.branch.as_ref().is_some_and(|branch| *head != branch.base && branch.pushed.as_ref() != Some(head))
}

/// Returns whether the code host has all of the job's commits, and its pull request if there can be one. `commits` are
/// those of the turn. A branch that begins with the work of a closed pull request is not published without new work.
fn has_nothing_to_publish(job: &Job, head: &Sha, commits: &[Sha]) -> bool {
    let is_new = job.branch.as_ref().is_some_and(|branch| branch.pushed.is_none());
    let has_new = unpushed(job, head) && !(is_new && commits.is_empty() && job.unpublished.is_empty());
    !has_new && (job.pull.is_some() || is_new)
}
