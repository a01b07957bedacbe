//! The rows of jobs, messages, runs and logs.
//!
//! The size of a job's change and its effort have separate columns: an older version, which does not know them, would
//! drop them when it writes the document of the job. The effort never changes, so only new jobs write it.

use std::time::Duration;

use journeyman_core::diff_stat::DiffStat;
use journeyman_core::ids::{JobId, ProjectId, Sha};
use journeyman_core::job::event::LogEntry;
use journeyman_core::job::summary::{JobSummary, ToolEntry};
use journeyman_core::job::{Branch, Job, change};
use journeyman_core::message::{Message, MessageSource, PlanProgress};
use journeyman_core::ports::{JobCounts, StoreError};
use journeyman_core::project::hold::Hold;
use journeyman_core::run::{Run, Usage};
use serde::{Deserialize, Serialize};

use super::columns::{At, Columns, Read, to_json};
use crate::lists::{PlanRow, SummaryRow};

/// The content of the column `jobs.diff`: the size of the change, with the branch and the commit that it belongs to. An
/// older version that runs a turn changes the branch in the document and leaves the column; the size is then unknown.
#[derive(Serialize, Deserialize)]
struct JobDiff {
    stat: DiffStat,
    generation: u32,
    head: Sha,
}

impl JobDiff {
    fn is_of(&self, branch: &Branch) -> bool {
        self.generation == branch.generation && self.head == branch.head
    }
}

/// Decodes a job from the columns `id`, `state`, `diff` and `effort`.
pub(crate) fn job<R: Columns>(row: &R) -> Read<Job, R> {
    let mut job = job_document(row)?;
    let at = At::new("jobs", row, &["id"])?;
    job.effort = at.named_or_null("effort")?;
    let diff: Option<JobDiff> = at.json_or_null("diff")?;
    // A document that has the size was written after the column, by a version that does not know the column.
    if job.diff.is_none() {
        let diff = diff.filter(|diff| job.branch.as_ref().is_some_and(|branch| diff.is_of(branch)));
        job.diff = diff.map(|diff| diff.stat);
    }
    Ok(job)
}

/// Decodes the document of a job from the columns `id` and `state`, usually without the size of its change.
pub(crate) fn job_document<R: Columns>(row: &R) -> Read<Job, R> {
    At::new("jobs", row, &["id"])?.json("state")
}

/// Returns the value of the column `jobs.diff`, as JSON; `None` if the size of the change is not known.
pub(crate) fn job_diff(job: &Job) -> Result<Option<String>, StoreError> {
    let Some((stat, branch)) = job.diff.zip(job.branch.as_ref()) else { return Ok(None) };
    to_json(&JobDiff { stat, generation: branch.generation, head: branch.head.clone() }).map(Some)
}

pub(crate) fn message<R: Columns>(row: &R) -> Read<Message, R> {
    let at = At::new("messages", row, &["id"])?;
    let source: Option<MessageSource> = at.json_or_null("source")?;
    Ok(Message {
        id: at.parsed("id")?,
        job: at.parsed("job")?,
        prompt: at.text("prompt")?,
        origin: match (row.text("via")?, &source) {
            (Some(_), _) => at.named("via")?,
            (None, Some(source)) => source.newer.unwrap_or(source.origin),
            (None, None) => at.named("origin")?,
        },
        author: at.row.text("author")?,
        key: at.parsed_or_null("key")?,
        delivery: at.named("delivery")?,
        status: at.named("status")?,
        created_at: at.time("created_at")?,
        delivered_at: at.time_or_null("delivered_at")?,
        finished_at: at.time_or_null("finished_at")?,
        run: at.parsed_or_null("run")?,
        commits: at.json("commits")?,
        diff: at.json_or_null("diff")?,
        pr_link: at.row.text("pr_link")?,
        published_with: at.parsed_or_null("published_with")?,
        answer: at.row.text("answer")?,
        traceparent: at.parsed_or_null("traceparent")?,
        source,
    })
}

pub(crate) fn job_counts<R: Columns>(row: &R) -> Read<JobCounts, R> {
    let at = At::new("jobs", row, &[])?;
    let (active, running, due) = (at.number("active")?, at.number("running")?, at.number("due")?);
    Ok(JobCounts { active, running, due, oldest_due: at.time_or_null("oldest")? })
}

/// Returns the log entry of an accepted message, made from the row of the message.
pub(crate) fn accepted_line<R: Columns>(row: &R) -> Read<LogEntry, R> {
    let seq = At::new("messages", row, &["id"])?.number("seq")?;
    Ok(change::accepted_line(seq, &message(row)?))
}

/// Merges the log entries of both tables, in order, and returns at most `limit`.
pub(crate) fn merge_lines(mut lines: Vec<LogEntry>, accepted: Vec<LogEntry>, limit: usize) -> Vec<LogEntry> {
    lines.extend(accepted);
    lines.sort_unstable_by_key(|line| line.seq);
    lines.truncate(limit);
    lines
}

pub(crate) fn run<R: Columns>(row: &R) -> Read<Run, R> {
    let at = At::new("runs", row, &["id"])?;
    Ok(Run {
        id: at.parsed("id")?,
        job: at.parsed("job")?,
        message: at.parsed("message")?,
        attempt: at.number("attempt")?,
        status: at.named("status")?,
        reason: at.json_or_null("reason")?,
        worker: at.parsed("worker")?,
        started_at: at.time("started_at")?,
        finished_at: at.time_or_null("finished_at")?,
        usage: at.json("usage")?,
        commits: at.json("commits")?,
    })
}

pub(crate) fn log_entry<R: Columns>(row: &R) -> Read<LogEntry, R> {
    let at = At::new("log", row, &["job"])?;
    Ok(LogEntry {
        seq: at.number("seq")?,
        kind: at.text("type")?,
        at: at.time("at")?,
        run_id: at.parsed_or_null("run")?,
        data: at.json("data")?,
    })
}

/// Decodes the ID of a job.
pub(crate) fn job_id<R: Columns>(row: &R) -> Read<JobId, R> {
    At::new("jobs", row, &["id"])?.parsed("id")
}

/// Decodes the usage of a run.
pub(crate) fn usage<R: Columns>(row: &R) -> Read<Usage, R> {
    At::new("runs", row, &["id"])?.json("usage")
}

/// Decodes the usage of a run of `job`.
pub(crate) fn usage_text(text: &str, job: JobId) -> Result<Usage, StoreError> {
    let corrupt = |error: serde_json::Error| StoreError::Corrupt {
        table: "runs",
        row: format!("a run of {job}"),
        detail: format!("usage: {error}"),
    };
    serde_json::from_str(text).map_err(corrupt)
}

/// Decodes an attribute, with its job.
pub(crate) fn attribute<R: Columns>(row: &R) -> Read<(JobId, String), R> {
    let at = At::new("job_attributes", row, &["job"])?;
    Ok((at.parsed("job")?, at.text("attribute")?))
}

/// Decodes the job and the usage of a run.
pub(crate) fn usage_of_job<R: Columns>(row: &R) -> Read<(JobId, Usage), R> {
    let at = At::new("runs", row, &["id"])?;
    Ok((at.parsed("job")?, at.json("usage")?))
}

/// Decodes a job of a list with the sums over its rows in other tables.
pub(crate) fn summary<R: Columns>(row: &R) -> Read<SummaryRow, R> {
    let at = At::new("jobs", row, &["job"])?;
    let summary = JobSummary {
        messages: at.number("messages")?,
        run_time: Duration::from_micros(at.number_or_null("run_time")?.unwrap_or_default()),
        running_since: at.time_or_null("running_since")?,
        cost_micros: at.number_or_null("cost_micros")?.unwrap_or_default(),
        ..JobSummary::default()
    };
    Ok(SummaryRow { job: at.parsed("job")?, run: at.parsed_or_null("run")?, summary })
}

/// Decodes the plan of a job.
pub(crate) fn plan<R: Columns>(row: &R) -> Read<PlanRow, R> {
    let at = At::new("log", row, &["job"])?;
    let data: serde_json::Value = at.json("data")?;
    Ok(PlanRow { job: at.parsed("job")?, run: at.parsed_or_null("run")?, plan: PlanProgress::of(&data) })
}

/// Decodes an entry of a tool call.
pub(crate) fn tool_entry<R: Columns>(row: &R) -> Read<(JobId, ToolEntry), R> {
    let at = At::new("log", row, &["job"])?;
    let entry = ToolEntry {
        seq: at.number("seq")?,
        run: at.parsed_or_null("run")?,
        call: row.text("call")?,
        title: row.text("title")?,
        status: row.text("status")?,
    };
    Ok((at.parsed("job")?, entry))
}

/// Decodes the number of running jobs of a project.
pub(crate) fn project_running<R: Columns>(row: &R) -> Read<(ProjectId, u32), R> {
    let at = At::new("jobs", row, &["project"])?;
    Ok((at.parsed("project")?, at.number("running")?))
}

/// Decodes the hold of a job's project from the row of the job, if there is one.
pub(crate) fn hold_or_null<R: Columns>(row: &R) -> Read<Option<Hold>, R> {
    At::new("project_holds", row, &["id"])?.json_or_null("hold")
}

/// Decodes the ID of a job, and the hold of its project.
pub(crate) fn hold_of_job<R: Columns>(row: &R) -> Read<(JobId, Hold), R> {
    let at = At::new("project_holds", row, &["job"])?;
    Ok((at.parsed("job")?, at.json("hold")?))
}
