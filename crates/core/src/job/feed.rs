//! The events of the feed that the changes of jobs cause.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::code_host::PullState;
use crate::feed::{FeedEntry, FeedEvent, FeedKind};
use crate::ids::{JobId, MessageId, ProjectId, RunId};
use crate::job::event::Event;
use crate::job::{Job, JobState, Source};
use crate::message::MessageStatus;
use crate::pull::Pull;
use crate::run::{Reason, ReasonCode};
use crate::time::Timestamp;

/// Returns the events of the feed for the events of one change; `job` is the job after the change.
#[must_use]
pub fn of_change(job: &Job, events: &[Event], now: Timestamp) -> Vec<FeedEvent> {
    let mut feed = Vec::new();
    let mut last_run = None;
    for event in events {
        if let Event::RunFinished { run, .. } = event {
            last_run = Some(*run);
        }
        if let Some(notice) = notice(job, event, last_run) {
            let data = data(job, &notice);
            feed.push(FeedEvent { kind: notice.kind, at: now, project: job.project.clone(), job: job.id, data });
        }
    }
    feed
}

/// The fields of an event in addition to the record of its job.
struct Notice<'a> {
    kind: FeedKind,
    message: Option<MessageId>,
    run: Option<RunId>,
    pull: Option<(u64, Option<&'a str>)>,
    reason: Option<&'a Reason>,
}

impl Notice<'_> {
    const fn new(kind: FeedKind) -> Self {
        Self { kind, message: None, run: None, pull: None, reason: None }
    }
}

fn notice<'a>(job: &'a Job, event: &'a Event, last_run: Option<RunId>) -> Option<Notice<'a>> {
    let of_pull = |kind, pull: &'a Pull, run| Notice {
        run,
        pull: Some((pull.number, Some(pull.url.as_str()))),
        message: job.in_flight().map(|message| message.message),
        ..Notice::new(kind)
    };
    Some(match event {
        Event::JobCreated(_) => Notice::new(FeedKind::JobCreated),
        Event::JobCompleted => Notice::new(FeedKind::JobCompleted),
        Event::JobFailed(reason) => Notice { reason: Some(reason), ..Notice::new(FeedKind::JobFailed) },
        Event::ArchiveRequested | Event::JobArchived { requested_at: None } => Notice::new(FeedKind::JobArchived),
        Event::JobUnarchived => Notice::new(FeedKind::JobUnarchived),
        Event::MessageEnded { message, status, reason, .. } => {
            let kind = match status {
                MessageStatus::Finished => FeedKind::MessageFinished,
                _ => FeedKind::MessageFailed,
            };
            Notice { message: Some(*message), run: last_run, reason: reason.as_ref(), ..Notice::new(kind) }
        }
        Event::PullRequestOpened { run, pull } => of_pull(FeedKind::PullRequestOpened, pull, Some(*run)),
        Event::PullRequestUpdated { run, pull } => of_pull(FeedKind::PullRequestUpdated, pull, Some(*run)),
        Event::PullRequestState { pull, state, .. } => {
            let kind = match state {
                PullState::Open => FeedKind::PullRequestReopened,
                PullState::Merged => FeedKind::PullRequestMerged,
                PullState::Closed => FeedKind::PullRequestClosed,
            };
            let url = job.pull.as_ref().filter(|known| known.is(pull)).map(|known| known.url.as_str());
            Notice { pull: Some((pull.number, url)), ..Notice::new(kind) }
        }
        Event::ChecksSettled { .. } => {
            let pull = job.pull.as_ref().map(|pull| (pull.number, Some(pull.url.as_str())));
            Notice { pull, ..Notice::new(FeedKind::ChecksSettled) }
        }
        Event::RunFinished { run, reason: Some(reason), .. } if reason.code == ReasonCode::OverBudget => {
            let message = job.in_flight().map(|message| message.message);
            Notice { run: Some(*run), reason: Some(reason), message, ..Notice::new(FeedKind::BudgetReached) }
        }
        _ => return None,
    })
}

fn data(job: &Job, notice: &Notice<'_>) -> Value {
    json!({
        "job": job.record(),
        "projectId": job.project,
        "title": job.title,
        "messageId": notice.message,
        "runId": notice.run,
        "pullRequest": notice.pull.map(|(number, url)| json!({ "number": number, "url": url })),
        "reason": notice.reason,
    })
}

/// Returns an event that is not stored and is about no job, to test an endpoint with.
#[must_use]
pub fn example_event(project: &ProjectId, now: Timestamp) -> FeedEntry {
    let source = Source { repository: "https://example.com/test.git".to_owned(), reference: "main".to_owned() };
    let job = Job::new(JobId::from_uuid(Uuid::nil()), project.clone(), source, now);
    let job = Job {
        title: "A test of this webhook".to_owned(),
        model: "test/scripted".to_owned(),
        state: JobState::Completed,
        ..job
    };
    let notice = Notice::new(FeedKind::JobCompleted);
    let (kind, data) = (notice.kind.name().to_owned(), data(&job, &notice));
    FeedEntry { position: 0, kind, at: now, project: project.clone(), job: job.id, data }
}
