//! Lists of jobs, messages and runs, and the data about jobs that is in other tables than theirs.

pub(crate) mod list;
pub(crate) mod related;

use std::collections::BTreeMap;
use std::ops::Range;

use async_trait::async_trait;
use journeyman_core::ids::{JobId, MessageId, ProjectId, RunId, WorkerId};
use journeyman_core::job::event::LogEntry;
use journeyman_core::job::summary::JobSummary;
use journeyman_core::job::{Job, JobStatus};
use journeyman_core::message::Message;
use journeyman_core::ports::{
    JobCounts, JobExtras, JobFilter, JobLists, JobOverview, JobStore, MessageFilter, ProjectJobs, StatusCounts,
    StoreError,
};
use journeyman_core::run::Run;
use journeyman_core::time::Timestamp;

use self::list::{count_of_status, list, texts};
use self::related::{
    COUNT_STEPS, PLAN_BEFORE, extras, extras_queries, extras_queries_of_jobs, project_jobs, project_queries, summaries,
    summary_queries,
};
use super::{Database, Row, SqlStore, Statement, Text, Value, decoded, sql, text};
use crate::lists::{self, Merge};
use crate::rows::{self, Columns as _, name_of};
use crate::sqlite::{Extras, Newest, Part};

/// What the databases do with the lists of jobs in different ways.
#[async_trait]
pub(crate) trait JobReads: Database {
    /// The number of projects whose jobs are listed in one round trip.
    const PROJECTS_AT_ONCE: usize;

    /// Returns data about a job from the cache of the database, or reads it.
    async fn related<T: Part>(
        &self,
        job: JobId,
        read: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError>;

    /// Returns the overview of a job, as [`JobLists::job_overview`] does.
    async fn overview(&self, id: JobId) -> Result<Option<JobOverview>, StoreError>;
}

/// Returns the messages of a job.
pub(crate) async fn messages(database: &impl Database, job: JobId) -> Result<Vec<Message>, StoreError> {
    let query = sql!("SELECT * FROM messages WHERE job = $1 ORDER BY seq", job.to_string());
    database.all(query, rows::message).await
}

/// Returns a message.
pub(crate) async fn message(database: &impl Database, id: MessageId) -> Result<Option<Message>, StoreError> {
    database.find(sql!("SELECT * FROM messages WHERE id = $1", id.to_string()), rows::message).await
}

/// Returns the runs of a job.
pub(crate) async fn runs(database: &impl Database, job: JobId) -> Result<Vec<Run>, StoreError> {
    database.all(sql!("SELECT * FROM runs WHERE job = $1 ORDER BY number", job.to_string()), rows::run).await
}

/// Returns a run.
pub(crate) async fn run(database: &impl Database, id: RunId) -> Result<Option<Run>, StoreError> {
    database.find(sql!("SELECT * FROM runs WHERE id = $1", id.to_string()), rows::run).await
}

/// Returns the jobs that a worker has leases on.
pub(crate) async fn leased_jobs(database: &impl Database, worker: WorkerId) -> Result<Vec<JobId>, StoreError> {
    let query = sql!("SELECT id FROM jobs WHERE due_at IS NOT NULL AND worker = $1 ORDER BY id", worker.to_string());
    database.all(query, rows::job_id).await
}

/// Returns the newest message of a job.
pub(crate) async fn newest_message<B: JobReads>(database: &B, job: JobId) -> Result<Option<Message>, StoreError> {
    let read = async {
        let query = sql!("SELECT * FROM messages WHERE job = $1 ORDER BY seq DESC LIMIT 1", job.to_string());
        Ok(Newest(database.find(query, rows::message).await?))
    };
    let Newest(message) = database.related(job, read).await?;
    Ok(message)
}

/// Returns the data about a job that is not in its document; `None` if there is none.
pub(crate) async fn extras_of_job<B: JobReads>(database: &B, job: JobId) -> Result<Option<JobExtras>, StoreError> {
    let read = async { Ok(Extras(extras(&database.look_up_all(extras_queries(job)).await?)?.remove(&job))) };
    let Extras(extras) = database.related(job, read).await?;
    Ok(extras)
}

/// Selects messages in the order of the last change of their status, newest first.
pub(crate) const UPDATED_MESSAGES: Text = text!(
    "SELECT * FROM messages
     WHERE ($1::text[] IS NULL OR EXISTS (SELECT 1 FROM jobs WHERE jobs.id = messages.job AND jobs.project = ANY (($1))))
       AND ($2::text[] IS NULL OR status = ANY (($2)))
       AND coalesce(finished_at, delivered_at, created_at) BETWEEN $3 AND $4
       AND (coalesce(finished_at, delivered_at, created_at) < $4 OR id < $5)
     ORDER BY coalesce(finished_at, delivered_at, created_at) DESC, id DESC LIMIT $6"
);

/// Counts messages like [`UPDATED_MESSAGES`], without a start.
const UPDATED_MESSAGE_COUNT: Text = text!(
    "SELECT count(*) AS count FROM (
         SELECT 1 FROM messages
         WHERE ($1::text[] IS NULL
                OR EXISTS (SELECT 1 FROM jobs WHERE jobs.id = messages.job AND jobs.project = ANY (($1))))
           AND ($2::text[] IS NULL OR status = ANY (($2)))
           AND coalesce(finished_at, delivered_at, created_at) >= $3
         LIMIT $4) AS found"
);

/// Returns the projects, the statuses and the start of a filter. Without projects or statuses, all are selected.
fn selected(filter: &MessageFilter) -> Result<Vec<Value>, StoreError> {
    let projects = filter.projects.as_ref().map(|projects| texts(projects));
    let statuses = filter.statuses.iter().map(name_of).collect::<Result<Vec<String>, StoreError>>()?;
    let statuses = Some(statuses).filter(|statuses| !statuses.is_empty());
    let since = filter.updated_since.map_or(i64::MIN, Timestamp::as_micros);
    Ok(vec![projects.into(), statuses.into(), since.into()])
}

/// Returns the column `count` of the only row.
fn count(found: &[Row]) -> Result<u64, StoreError> {
    let count = found.first().map(|row| row.number("count")).transpose()?.flatten();
    Ok(count.and_then(|count| u64::try_from(count).ok()).unwrap_or_default())
}

#[async_trait]
impl<B: JobReads> JobLists for SqlStore<B>
where
    Self: JobStore,
{
    async fn jobs(&self, filter: JobFilter) -> Result<Vec<Job>, StoreError> {
        let projects = match filter.projects.clone() {
            Some(projects) => projects,
            None => self.all(sql!("SELECT id FROM projects ORDER BY id"), rows::project_id).await?,
        };
        let mut merge = Merge::new(filter.limit);
        for some in projects.chunks(B::PROJECTS_AT_ONCE) {
            let queries = some.iter().map(|project| list(&merge.filter(&filter, project.clone()))).collect();
            for found in self.query_all(queries).await? {
                merge.add(decoded(&found, rows::job)?);
            }
        }
        Ok(merge.jobs())
    }

    async fn count_jobs(&self, project: Option<ProjectId>, limit: usize) -> Result<StatusCounts, StoreError> {
        let queries = JobStatus::ALL.map(|status| count_of_status(status, project.as_ref(), limit));
        let mut counts = StatusCounts::default();
        for (status, found) in JobStatus::ALL.into_iter().zip(self.query_all(Vec::from(queries)).await?) {
            counts.set(status, count(&found)?);
        }
        Ok(counts)
    }

    async fn job_counts(&self, now: Timestamp) -> Result<JobCounts, StoreError> {
        let counts = sql!(
            "SELECT count(*) AS active, count(*) FILTER (WHERE due_at > $1 AND worker IS NOT NULL) AS running,
                 count(*) FILTER (WHERE due_at <= $1) AS due, min(due_at) FILTER (WHERE due_at <= $1) AS oldest
             FROM jobs WHERE due_at IS NOT NULL",
            now,
        );
        Ok(self.all(counts, rows::job_counts).await?.pop().unwrap_or_default())
    }

    async fn waiting_jobs(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        let counts = sql!("SELECT waiting, count(*) AS count FROM jobs WHERE waiting IS NOT NULL GROUP BY waiting");
        let found = self.query(counts).await?;
        let waiting = |row| Ok((Row::text(row, "waiting")?.unwrap_or_default(), count(std::slice::from_ref(row))?));
        found.iter().map(waiting).collect()
    }

    async fn messages_after(
        &self,
        job: JobId,
        after: Option<MessageId>,
        limit: usize,
    ) -> Result<Vec<Message>, StoreError> {
        let query = sql!(
            "SELECT * FROM messages
             WHERE job = $1
               AND seq > CASE $2 WHEN '' THEN 0 ELSE (SELECT seq FROM messages WHERE id = $2 AND job = $1) END
             ORDER BY seq LIMIT $3",
            job.to_string(),
            after.map(|id| id.to_string()).unwrap_or_default(),
            limit,
        );
        self.all(query, rows::message).await
    }

    async fn newest_message(&self, job: JobId) -> Result<Option<Message>, StoreError> {
        newest_message(&self.database, job).await
    }

    async fn find_messages(&self, filter: MessageFilter) -> Result<Vec<Message>, StoreError> {
        let (before, id) = lists::message_beginning(&filter);
        let mut values = selected(&filter)?;
        values.extend([before.into(), id.into(), filter.limit.into()]);
        self.all(Statement { text: UPDATED_MESSAGES, values }, rows::message).await
    }

    async fn count_messages(&self, filter: MessageFilter) -> Result<u64, StoreError> {
        let mut values = selected(&filter)?;
        values.push(filter.limit.into());
        count(&self.query(Statement { text: UPDATED_MESSAGE_COUNT, values }).await?)
    }

    async fn runs_after(&self, job: JobId, after: Option<RunId>, limit: usize) -> Result<Vec<Run>, StoreError> {
        let query = sql!(
            "SELECT * FROM runs
             WHERE job = $1
               AND number > CASE $2 WHEN '' THEN 0 ELSE (SELECT number FROM runs WHERE id = $2 AND job = $1) END
             ORDER BY number LIMIT $3",
            job.to_string(),
            after.map(|id| id.to_string()).unwrap_or_default(),
            limit,
        );
        self.all(query, rows::run).await
    }

    async fn extras_of_jobs(&self, jobs: Vec<JobId>) -> Result<BTreeMap<JobId, JobExtras>, StoreError> {
        if let [job] = jobs[..] {
            let extras = extras_of_job(&self.database, job).await?;
            return Ok(extras.map(|extras| (job, extras)).into_iter().collect());
        }
        extras(&self.query_all(extras_queries_of_jobs(&texts(&jobs))).await?)
    }

    async fn job_overview(&self, id: JobId) -> Result<Option<JobOverview>, StoreError> {
        self.database.overview(id).await
    }

    async fn summaries_of_jobs(&self, jobs: Vec<JobId>) -> Result<BTreeMap<JobId, JobSummary>, StoreError> {
        summaries(&self.query_all(summary_queries(&texts(&jobs))).await?)
    }

    async fn jobs_of_projects(&self) -> Result<BTreeMap<ProjectId, ProjectJobs>, StoreError> {
        project_jobs(&self.query_all(project_queries()).await?)
    }

    async fn plan_before(&self, job: JobId, before: u64) -> Result<Option<LogEntry>, StoreError> {
        let values = vec![job.to_string().into(), before.into()];
        self.find(Statement { text: PLAN_BEFORE, values }, rows::log_entry).await
    }

    async fn count_steps(&self, job: JobId, entries: Range<u64>) -> Result<u64, StoreError> {
        let values = vec![job.to_string().into(), entries.start.into(), entries.end.into()];
        count(&self.query(Statement { text: COUNT_STEPS, values }).await?)
    }
}
