//! The parts of a job's page that change with the job's state: the bar, the numbers on the tabs, the column at the side,
//! and the queue.

use askama::Template;
use journeyman_core::code_host::PullState;
use journeyman_core::ids::MessageId;
use journeyman_core::job::{Job, JobStatus};
use journeyman_core::message::{DeliveryMode, Message};
use journeyman_core::ports::{StoreError, Sums};

use super::block::author;
use super::messages_and_runs::MessagesAndRuns;
use super::outcome::{retried, retry_key};
use super::side::SideData;
use super::{InJob, side, status};
use crate::conversation::Plan;
use crate::fragment::Fragment;
use crate::frame::Frame;
use crate::pages::pulls::badge::Pill;
use crate::size::Size;
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
    /// The start of the current run, and the time since then.
    clock: Option<(String, String)>,
    /// The sum of the durations of the runs.
    time: Option<String>,
    pull: Option<Pill>,
    /// True if the next thing to do is to review the changes.
    reviews: bool,
    size: Option<Size>,
    /// The message that *Try again* sends, and the key of the form.
    retry: Option<(MessageId, String)>,
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

/// The numbers on the tabs.
#[derive(Template)]
#[template(path = "_job_counts.html")]
struct Counts {
    id: &'static str,
    count: u64,
    size: Option<Size>,
}

/// The rendered parts, all of the same state of the job.
pub(super) struct Parts {
    pub(super) head: Fragment,
    /// The number of changed files, and the size of the changes.
    pub(super) changes: Fragment,
    /// The number of runs.
    pub(super) runs: Fragment,
    pub(super) side: Fragment,
    /// The line that opens the side on narrow screens.
    pub(super) brief: Fragment,
    pub(super) queue: Fragment,
}

/// Renders the parts of a page of a job other than its conversation.
pub(super) async fn parts(shared: &Shared, at: &InJob, messages: &[Message]) -> Result<Parts, StoreError> {
    let history = MessagesAndRuns::with(shared, at.job.id, messages.to_vec()).await?;
    parts_with(shared, at, &history, None).await
}

/// Renders the parts of the page with the conversation of a job, with the agent's plan.
pub(super) async fn parts_with(
    shared: &Shared,
    at: &InJob,
    history: &MessagesAndRuns,
    plan: Option<&Plan>,
) -> Result<Parts, StoreError> {
    let job = &at.job;
    let data = SideData {
        pulls: shared.services.store.indexed_pulls_of(vec![job.id]).await?,
        watch: shared.services.store.watch_of(job.id).await?,
        used: shared.services.store.used(&Sums { project: job.project.clone(), job: job.id, day: 0 }).await?[0],
    };
    let render = |error: askama::Error| {
        StoreError::Unavailable(format!("a part of a job's page could not be rendered: {error}"))
    };
    let runs = u64::try_from(history.runs.len()).unwrap_or(u64::MAX);
    let (size, spent) = (Size::of(job.diff), data.used.spent);
    let files = size.as_ref().map_or(0, |size| size.files);
    Ok(Parts {
        head: Fragment::of(&head(at, history)).map_err(render)?,
        changes: Fragment::of(&Counts { id: "count-changes", count: files, size }).map_err(render)?,
        runs: Fragment::of(&Counts { id: "count-runs", count: runs, size: None }).map_err(render)?,
        side: side::render(at, history, plan, data).map_err(render)?,
        brief: side::brief(at, history, plan, spent).map_err(render)?,
        queue: Fragment::of(&queue(at, &history.messages)).map_err(render)?,
    })
}

fn head<'a>(at: &'a InJob, history: &MessagesAndRuns) -> Head<'a> {
    let job = &at.job;
    let run = history.running().filter(|_| job.lease().is_some());
    Head {
        at,
        frame: at,
        title: visible::line(&job.title).into_owned(),
        badge: status::badge(job),
        active: status::is_active(job),
        archived: job.status() == JobStatus::Archived,
        clock: run.map(|run| (run.started_at.to_string(), words::clock(at.now.since(run.started_at)))),
        time: Some(history.worked()).filter(|time| !time.is_zero()).map(words::duration),
        pull: Pill::of_job(at, job),
        reviews: reviews(job, history),
        size: Size::of(job.diff),
        retry: retried(at, history).map(|message| (message.id, retry_key(message.id))),
    }
}

/// Returns true if the job is completed and people have not accepted or rejected its changes yet.
fn reviews(job: &Job, history: &MessagesAndRuns) -> bool {
    let is_open = job.pull.as_ref().is_none_or(|pull| pull.state == PullState::Open);
    let has_changes = history.messages.iter().any(|message| !message.commits.is_empty());
    job.status() == JobStatus::Completed && is_open && has_changes
}

/// Returns the queue, in the order of delivery. The status of the messages is not used: they were read later than the job,
/// and may have left the queue since.
fn queue<'a>(at: &'a InJob, messages: &[Message]) -> Queue<'a> {
    let queued = at.job.queue.iter().filter_map(|id| messages.iter().find(|message| message.id == *id));
    let rows = queued.map(|message| QueueRow {
        id: message.id.to_string(),
        text: visible::line(message.prompt.lines().next().unwrap_or_default()).into_owned(),
        author: author(message),
        interrupts: message.delivery == DeliveryMode::Interrupt,
    });
    Queue { at, frame: at, rows: rows.collect() }
}
