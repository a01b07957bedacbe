//! The lists and counts of jobs, for clients and pages.

use std::collections::BTreeMap;
use std::ops::Range;

use async_trait::async_trait;

use super::error::StoreError;
use super::jobs::JobStore;
use crate::code_host::PullState;
use crate::ids::{JobId, MessageId, ProjectId, RunId};
use crate::job::event::LogEntry;
use crate::job::label::Attribute;
use crate::job::summary::JobSummary;
use crate::job::{Job, JobStatus};
use crate::message::{Message, MessageStatus};
use crate::project::hold::Hold;
use crate::pull::IndexedPull;
use crate::run::{Run, Usage};
use crate::time::Timestamp;

/// A position in a list of jobs, newest first: the last job that was listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The creation time of that job.
    pub created_at: Timestamp,
    /// The ID of that job, because several jobs can have the same creation time.
    pub id: JobId,
}

/// A selection of jobs, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Only jobs of these projects; `None` means all projects.
    pub projects: Option<Vec<ProjectId>>,
    /// Only jobs with this status.
    pub status: Option<JobStatus>,
    /// Only jobs with all these attributes.
    pub attributes: Vec<Attribute>,
    /// Only jobs with at least one of these attributes; empty means all jobs.
    pub any_of: Vec<Attribute>,
    /// Only jobs that work on this branch.
    pub branch: Option<String>,
    /// Only jobs that have worked on a pull request with this number.
    pub pull: Option<u64>,
    /// Only jobs that have worked on a pull request in this state.
    pub pull_state: Option<PullState>,
    /// Only jobs created after this time.
    pub created_after: Option<Timestamp>,
    /// Only jobs created before this time.
    pub created_before: Option<Timestamp>,
    /// Only jobs with this text in the title. ASCII letters match in either case.
    pub title_contains: Option<String>,
    /// Only jobs after this position in the list.
    pub after: Option<Cursor>,
    /// The maximum number of jobs.
    pub limit: usize,
}

impl JobFilter {
    /// Returns a filter for a project's newest jobs.
    #[must_use]
    pub fn newest(project: ProjectId, limit: usize) -> Self {
        Self { projects: Some(vec![project]), limit, ..Self::default() }
    }
}

/// Selects messages of all jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageFilter {
    /// The projects of the messages; `None` means all projects.
    pub projects: Option<Vec<ProjectId>>,
    /// The statuses of the messages; empty means all statuses.
    pub statuses: Vec<MessageStatus>,
    /// The earliest time of the last change of the status.
    pub updated_since: Option<Timestamp>,
    /// The exclusive start: the time of the last change of a message, and its ID.
    pub after: Option<(Timestamp, MessageId)>,
    /// The maximum number of messages.
    pub limit: usize,
}

/// The numbers of jobs by status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct StatusCounts {
    /// The number of active jobs.
    pub active: u64,
    /// The number of completed jobs.
    pub completed: u64,
    /// The number of archived jobs.
    pub archived: u64,
    /// The number of failed jobs.
    pub failed: u64,
}

impl StatusCounts {
    /// Returns the number of jobs with a status.
    #[must_use]
    pub const fn of(&self, status: JobStatus) -> u64 {
        match status {
            JobStatus::Active => self.active,
            JobStatus::Completed => self.completed,
            JobStatus::Archived => self.archived,
            JobStatus::Failed => self.failed,
        }
    }

    /// Sets the number of jobs with a status.
    pub const fn set(&mut self, status: JobStatus, count: u64) {
        let known = match status {
            JobStatus::Active => &mut self.active,
            JobStatus::Completed => &mut self.completed,
            JobStatus::Archived => &mut self.archived,
            JobStatus::Failed => &mut self.failed,
        };
        *known = count;
    }

    /// Returns the number of all jobs.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.active + self.completed + self.archived + self.failed
    }
}

/// The numbers of active jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobCounts {
    /// The number of active jobs.
    pub active: u64,
    /// The number of jobs that a worker has a lease on.
    pub running: u64,
    /// The number of jobs that a worker may claim now.
    pub due: u64,
    /// The time since which the oldest of them has been due.
    pub oldest_due: Option<Timestamp>,
}

/// The data about a job that is not in its document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobExtras {
    /// The labels, the metadata, the author and the agent, sorted by their texts.
    pub attributes: Vec<Attribute>,
    /// The usage of all runs.
    pub usage: Usage,
    /// The pull requests, oldest first.
    pub pulls: Vec<IndexedPull>,
    /// The hold of the job's project.
    pub hold: Option<Hold>,
}

/// A job with its newest message and the data that is not in its document.
#[derive(Debug, Clone, PartialEq)]
pub struct JobOverview {
    /// The job.
    pub job: Job,
    /// The message that was accepted last.
    pub newest_message: Option<Message>,
    /// The other data.
    pub extras: JobExtras,
}

/// The numbers of jobs of a project.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProjectJobs {
    /// The number of jobs that a worker has a lease on.
    pub running: u64,
    /// The number of open pull requests of jobs.
    pub open_pulls: u64,
}

/// Reads lists, counts and sums over the jobs of [`JobStore`].
#[async_trait]
pub trait JobLists: JobStore {
    /// Returns the selected jobs, newest first.
    async fn jobs(&self, filter: JobFilter) -> Result<Vec<Job>, StoreError>;

    /// Counts the jobs of a project, or of all projects, by status, and stops at `limit` jobs of each status.
    async fn count_jobs(&self, project: Option<ProjectId>, limit: usize) -> Result<StatusCounts, StoreError>;

    /// Counts the active jobs.
    ///
    /// # Errors
    /// Returns an error if the database failed.
    async fn job_counts(&self, now: Timestamp) -> Result<JobCounts, StoreError>;

    /// Returns the number of jobs that wait for something outside them ([`Job::waiting`]), by the code of the cause.
    async fn waiting_jobs(&self) -> Result<BTreeMap<String, u64>, StoreError>;

    /// Returns the messages of a job that were accepted after the message `after`, at most `limit`. If the job has no such
    /// message, there are none after it.
    async fn messages_after(
        &self,
        job: JobId,
        after: Option<MessageId>,
        limit: usize,
    ) -> Result<Vec<Message>, StoreError>;

    /// Returns the message of a job that was accepted last.
    async fn newest_message(&self, job: JobId) -> Result<Option<Message>, StoreError>;

    /// Returns the messages that match a filter, in the order of the last change of their status, newest first.
    async fn find_messages(&self, filter: MessageFilter) -> Result<Vec<Message>, StoreError>;

    /// Returns the number of messages that match a filter, at most its `limit`. Ignores `after`.
    async fn count_messages(&self, filter: MessageFilter) -> Result<u64, StoreError>;

    /// Returns the runs of a job after the run `after`, oldest first, at most `limit`. If the job has no such run, there
    /// are none after it.
    async fn runs_after(&self, job: JobId, after: Option<RunId>, limit: usize) -> Result<Vec<Run>, StoreError>;

    /// Returns the data about these jobs that is not in their documents. Jobs without such data are left out.
    async fn extras_of_jobs(&self, jobs: Vec<JobId>) -> Result<BTreeMap<JobId, JobExtras>, StoreError>;

    /// Finds a job with its newest message and its extras. The three may be read one after the other: each is as it was
    /// committed at some time since the call.
    async fn job_overview(&self, id: JobId) -> Result<Option<JobOverview>, StoreError> {
        let Some(job) = self.job(id).await? else { return Ok(None) };
        let newest_message = self.newest_message(id).await?;
        let extras = self.extras_of_jobs(vec![id]).await?.remove(&id).unwrap_or_default();
        Ok(Some(JobOverview { job, newest_message, extras }))
    }

    /// Returns the summaries of these jobs, for the rows of a list. Jobs that do not exist are left out.
    async fn summaries_of_jobs(&self, jobs: Vec<JobId>) -> Result<BTreeMap<JobId, JobSummary>, StoreError>;

    /// Returns the numbers of running jobs and of open pull requests of each project that has any.
    async fn jobs_of_projects(&self) -> Result<BTreeMap<ProjectId, ProjectJobs>, StoreError>;

    /// Returns the entry of the newest plan of a job's agent among the entries of its log with a number below `before`.
    async fn plan_before(&self, job: JobId, before: u64) -> Result<Option<LogEntry>, StoreError>;

    /// Returns the number of tool calls that began in these entries of a job's log. It reads each of the entries.
    async fn count_steps(&self, job: JobId, entries: Range<u64>) -> Result<u64, StoreError>;
}
