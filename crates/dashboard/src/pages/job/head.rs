//! The parts of a job's page that change with the job's state: header, sidebar, and queue.

use askama::Template;
use journeyman_core::job::{Job, JobState, JobStatus};
use journeyman_core::message::{DeliveryMode, Message};
use journeyman_core::ports::StoreError;
use journeyman_core::project::hold::Hold;
use journeyman_core::run::{Run, Usage};
use journeyman_core::time::Timestamp;

use super::block::author;
use super::checks::ChecksLine;
use super::{InJob, status};
use crate::fragment::Fragment;
use crate::frame::Frame;
use crate::moment::Moment;
use crate::pages::pulls::badge::Pill;
use crate::{Shared, visible, words};

#[derive(Template)]
#[template(path = "_job_head.html")]
struct Head<'a> {
    at: &'a InJob,
    frame: &'a Frame,
    title: String,
    badge: (&'static str, &'static str),
    active: bool,
    archived: bool,
    branch: Option<String>,
    pull: Option<Pill>,
    created: Moment,
    /// The reason why the job failed.
    reason: Option<String>,
    waiting: Option<WaitsFor>,
}

/// The cause of a job's wait, with the time of the next attempt.
struct WaitsFor {
    reason: String,
    /// The time of the next attempt.
    next: Moment,
    /// The time at which the message fails if the cause persists; `None` before the first attempt.
    deadline: Option<Moment>,
    /// True if the project is on hold, so that all its jobs wait.
    project: bool,
}

impl WaitsFor {
    fn of(at: &InJob, hold: Option<&Hold>) -> Option<Self> {
        let next = |due: Timestamp| at.moment(hold.map_or(due, |hold| due.max(hold.next_probe_at)));
        let (reason, next, deadline) = match (at.job.waiting(), hold) {
            (Some((waiting, due)), _) => (&waiting.reason, next(due), Some(at.moment(waiting.deadline))),
            (None, Some(hold)) if at.job.may_be_claimed() => (&hold.reason, at.moment(hold.next_probe_at), None),
            _ => return None,
        };
        Some(Self { reason: visible::lines(&reason.text).into_owned(), next, deadline, project: hold.is_some() })
    }
}

#[derive(Template)]
#[template(path = "_job_side.html")]
struct Side<'a> {
    frame: &'a Frame,
    job: &'a Job,
    agent: String,
    model: String,
    reference: String,
    branch: Option<String>,
    /// All pull requests, oldest first: a follow-up after a merge opens another one.
    pulls: Vec<Pill>,
    checks: Option<ChecksLine>,
    runs: usize,
    time: Option<String>,
    tokens: Option<String>,
    cost: Option<String>,
}

#[derive(Template)]
#[template(path = "_job_queue.html")]
struct Queue<'a> {
    at: &'a InJob,
    frame: &'a Frame,
    rows: Vec<QueueRow>,
}

struct QueueRow {
    id: String,
    text: String,
    author: String,
    interrupts: bool,
}

/// The rendered parts, all of the same state of the job.
pub(super) struct Parts {
    pub(super) head: Fragment,
    pub(super) side: Fragment,
    pub(super) queue: Fragment,
}

/// Renders the parts of a job's page.
pub(super) async fn parts(shared: &Shared, at: &InJob, messages: &[Message]) -> Result<Parts, StoreError> {
    let job = &at.job;
    let runs = shared.services.store.runs(job.id).await?;
    let hold = shared.services.store.holds().await?.remove(&job.project);
    let spent = shared.services.store.spent(job.project.clone(), job.id, 0).await?[0];
    let pulls = shared.services.store.indexed_pulls_of(vec![job.id]).await?;
    let watch = shared.services.store.watch_of(job.id).await?;
    let render = |error: askama::Error| {
        StoreError::Unavailable(format!("a part of a job's page could not be rendered: {error}"))
    };
    let branch = job.branch.as_ref().map(|branch| visible::line(&branch.name).into_owned());
    let frame: &Frame = at;
    let head = Head {
        at,
        frame,
        title: visible::line(&job.title).into_owned(),
        badge: status::badge(job),
        active: status::is_active(job),
        archived: job.status() == JobStatus::Archived,
        branch: branch.clone(),
        pull: Pill::of_job(at, job),
        created: at.moment(job.created_at),
        reason: match &job.state {
            JobState::Failed(reason) => Some(visible::lines(&reason.text).into_owned()),
            _ => None,
        },
        waiting: WaitsFor::of(at, hold.as_ref()),
    };
    let used = used(&runs);
    let side = Side {
        frame,
        job,
        agent: visible::line(&job.agent).into_owned(),
        model: visible::line(&job.model).into_owned(),
        reference: visible::line(&job.source.reference).into_owned(),
        branch,
        pulls: pulls.iter().filter_map(|pull| Pill::of_indexed(at, pull)).collect(),
        checks: ChecksLine::of(job, watch),
        runs: runs.len(),
        time: time(&runs),
        tokens: (used.tokens() > 0)
            .then(|| format!("{} in, {} out", words::tokens(used.input_tokens), words::tokens(used.output_tokens))),
        cost: (spent > 0).then(|| words::money(spent)),
    };
    // The job's queue is in the order of delivery. The status of the messages is not used: they were read later, and
    // may have left the queue since.
    let queued = job.queue.iter().filter_map(|id| messages.iter().find(|message| message.id == *id));
    let rows = queued.map(|message| QueueRow {
        id: message.id.to_string(),
        text: visible::line(message.prompt.lines().next().unwrap_or_default()).into_owned(),
        author: author(message),
        interrupts: message.delivery == DeliveryMode::Interrupt,
    });
    let queue = Queue { at, frame, rows: rows.collect() };
    Ok(Parts {
        head: Fragment::of(&head).map_err(render)?,
        side: Fragment::of(&side).map_err(render)?,
        queue: Fragment::of(&queue).map_err(render)?,
    })
}

fn used(runs: &[Run]) -> Usage {
    runs.iter().fold(Usage::default(), |sum, run| sum.and(&run.usage))
}

/// Formats the total time of all finished runs; returns `None` if it is zero.
fn time(runs: &[Run]) -> Option<String> {
    let all = runs.iter().filter_map(|run| Some(run.finished_at?.since(run.started_at)));
    Some(all.sum()).filter(|time: &std::time::Duration| !time.is_zero()).map(words::duration)
}
