//! A job as a row of a list.

use std::collections::BTreeMap;

use journeyman_core::ids::ProjectId;
use journeyman_core::job::label::Attribute;
use journeyman_core::job::summary::JobSummary;
use journeyman_core::job::{Job, JobState, JobStatus, Progress, Work};
use journeyman_core::ports::StoreError;
use journeyman_core::project::Project;
use journeyman_core::run::ReasonCode;
use journeyman_core::time::Timestamp;

use crate::frame::Frame;
use crate::in_project::InProject;
use crate::moment::Moment;
use crate::pages::pulls::badge::Pill;
use crate::size::Size;
use crate::{Shared, visible, words};

/// The contexts of projects, by their IDs.
pub(in crate::pages) type ProjectContexts = BTreeMap<ProjectId, InProject>;

/// A row of a list of jobs.
pub(in crate::pages) struct JobRow {
    pub(in crate::pages) path: String,
    /// The project and the ID, for forms.
    pub(in crate::pages) key: String,
    pub(in crate::pages) title: String,
    /// The class of the mark, and the word for it.
    pub(in crate::pages) mark: (&'static str, &'static str),
    pub(in crate::pages) project: String,
    pub(in crate::pages) author: Option<String>,
    pub(in crate::pages) messages: String,
    /// The duration of all runs; `None` while a run is in progress.
    pub(in crate::pages) took: Option<String>,
    pub(in crate::pages) note: Option<Note>,
    /// The completed and all steps of the plan.
    pub(in crate::pages) plan: Option<(u64, u64)>,
    /// The size of the change, if it has lines.
    pub(in crate::pages) size: Option<Size>,
    pub(in crate::pages) pull: Option<Pill>,
    pub(in crate::pages) cost: Option<String>,
    pub(in crate::pages) clock: Option<Clock>,
    /// The time since which the job is in its state.
    pub(in crate::pages) since: Moment,
    pub(in crate::pages) can_archive: bool,
}

/// The one thing that matters about a job now: the step, or the reason why it does not continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::pages) struct Note {
    pub(in crate::pages) text: String,
    /// True for the title of a tool call.
    pub(in crate::pages) is_step: bool,
}

/// The running time of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::pages) struct Clock {
    /// The start, for the script that keeps the clock current.
    pub(in crate::pages) start: String,
    /// The time when the page was rendered.
    pub(in crate::pages) text: String,
}

impl Clock {
    pub(in crate::pages) fn since(start: Timestamp, now: Timestamp) -> Self {
        Self { start: start.to_string(), text: words::clock(now.since(start)) }
    }
}

/// Returns the contexts of these projects.
pub(in crate::pages) fn contexts(frame: &Frame, projects: impl IntoIterator<Item = Project>) -> ProjectContexts {
    let with_context = |project: Project| (project.id.clone(), InProject { frame: frame.clone(), project });
    projects.into_iter().map(with_context).collect()
}

/// The rows of a list, in the order of the jobs.
pub(in crate::pages) struct Rows {
    pub(in crate::pages) rows: Vec<JobRow>,
    /// The attributes of all the jobs.
    pub(in crate::pages) attributes: Vec<Attribute>,
}

/// Reads the summaries of jobs, and returns their rows. Jobs of projects that were deleted meanwhile are left out.
pub(in crate::pages) async fn rows(
    shared: &Shared,
    contexts: &ProjectContexts,
    jobs: &[Job],
) -> Result<Rows, StoreError> {
    let ids = jobs.iter().map(|job| job.id).collect();
    let summaries = shared.services.store.summaries_of_jobs(ids).await?;
    let none = JobSummary::default();
    let row = |job: &Job| Some(JobRow::new(contexts.get(&job.project)?, job, summaries.get(&job.id).unwrap_or(&none)));
    let rows = jobs.iter().filter_map(row).collect();
    Ok(Rows { rows, attributes: summaries.into_values().flat_map(|summary| summary.attributes).collect() })
}

impl JobRow {
    fn new(at: &InProject, job: &Job, summary: &JobSummary) -> Self {
        let line = |text: &str| visible::line(text).into_owned();
        Self {
            path: at.path(&format!("/jobs/{}", job.id)),
            key: format!("{}/{}", job.project, job.id),
            title: line(&job.title),
            mark: mark(job),
            project: job.project.to_string(),
            author: summary.author().map(line),
            messages: words::counted(usize::try_from(summary.messages).unwrap_or(usize::MAX), "message"),
            took: took(summary),
            note: note(job, summary),
            plan: summary.plan.as_ref().map(|plan| (plan.done, plan.total)),
            size: Size::of(job.diff).filter(Size::has_lines),
            pull: Pill::of_job(at, job),
            cost: (summary.cost_micros > 0).then(|| words::money(summary.cost_micros)),
            clock: summary.running_since.map(|start| Clock::since(start, at.now)),
            since: at.moment(job.rests_since().unwrap_or(job.waiting_since)),
            can_archive: at.viewer.can_write() && job.status() != JobStatus::Archived,
        }
    }
}

/// Returns the class of a job's mark, and the word for it.
pub(in crate::pages) fn mark(job: &Job) -> (&'static str, &'static str) {
    match &job.state {
        _ if job.status() == JobStatus::Archived => ("archived", "archived"),
        JobState::Active(Work::Running { .. }) => ("in_progress", "running"),
        JobState::Active(Work::Waiting) => ("queued", "queued"),
        JobState::Active(Work::Retrying { .. }) => ("queued", "waits to retry"),
        JobState::Failed(reason) if reason.code == ReasonCode::Cancelled => ("stopped", "cancelled"),
        JobState::Failed(_) => ("failed", "failed"),
        JobState::Completed | JobState::Archived { .. } => ("completed", "completed"),
    }
}

fn took(summary: &JobSummary) -> Option<String> {
    let is_over = summary.running_since.is_none() && !summary.run_time.is_zero();
    is_over.then(|| words::duration(summary.run_time))
}

fn note(job: &Job, summary: &JobSummary) -> Option<Note> {
    let text = |text: &str| Some(Note { text: visible::line(text).into_owned(), is_step: false });
    let first_line = |text: &str| text.lines().next().unwrap_or_default().trim().to_owned();
    match &job.state {
        JobState::Active(Work::Running { in_flight, .. }) if in_flight.progress != Progress::Prompting => {
            text("publishing the changes")
        }
        JobState::Active(Work::Running { .. }) => match &summary.step {
            Some(step) => Some(Note { text: visible::line(step).into_owned(), is_step: true }),
            None => text("working"),
        },
        JobState::Active(Work::Waiting) => text("waits for a worker"),
        JobState::Active(Work::Retrying { in_flight, .. }) => match &in_flight.waiting {
            Some(waiting) => text(&first_line(&waiting.reason.text)),
            None => text("waits to retry"),
        },
        JobState::Failed(reason) if reason.code == ReasonCode::Cancelled => text("cancelled"),
        JobState::Failed(reason) => text(&first_line(&reason.text)),
        JobState::Completed | JobState::Archived { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use journeyman_core::ids::JobId;
    use journeyman_core::job::Source;
    use journeyman_core::run::Reason;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_row_says_what_matters_now() {
        let source = Source { repository: "local:shop".to_owned(), reference: "main".to_owned() };
        let id = JobId::from_uuid(Uuid::from_u128(1));
        let job = Job::new(id, "shop".parse().unwrap(), source, Timestamp::default());
        let failed = |code, text: &str| Job { state: JobState::Failed(Reason::new(code, text)), ..job.clone() };
        let plain = JobSummary::default();
        let text = |job: &Job| note(job, &plain).map(|note| note.text);
        assert_eq!((mark(&job).0, text(&job).as_deref()), ("queued", Some("waits for a worker")));
        let memory = failed(ReasonCode::OutOfMemory, "out of memory (4 GiB)\nsecond line");
        assert_eq!((mark(&memory).0, text(&memory).as_deref()), ("failed", Some("out of memory (4 GiB)")));
        let cancelled = failed(ReasonCode::Cancelled, "the job was cancelled");
        assert_eq!((mark(&cancelled).0, text(&cancelled).as_deref()), ("stopped", Some("cancelled")));
        let done = Job { state: JobState::Completed, ..job };
        assert_eq!((mark(&done).0, text(&done)), ("completed", None));
    }

    #[test]
    fn the_duration_is_that_of_runs_which_have_ended() {
        let ran = JobSummary { run_time: Duration::from_secs(189), ..JobSummary::default() };
        assert_eq!(took(&ran).as_deref(), Some("3 min 9 s"));
        assert_eq!(took(&JobSummary { running_since: Some(Timestamp::default()), ..ran }), None);
        assert_eq!(took(&JobSummary::default()), None);
    }
}
