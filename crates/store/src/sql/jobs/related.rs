//! The data about jobs that is in other tables than theirs.

use std::collections::BTreeMap;

use journeyman_core::ids::{JobId, ProjectId};
use journeyman_core::job::summary::{JobSummary, STEP_WINDOW};
use journeyman_core::ports::{JobExtras, ProjectJobs, StoreError};

use crate::lists;
use crate::rows;
use crate::sql::{Row, Statement, Text, decoded, sql, text};

/// Selects the sums over the messages and runs of jobs. The messages are counted in their index. PostgreSQL only uses an
/// index for comparisons in the order of its column, so the keys of `spending` are compared in the default order.
pub(crate) const SUMMARIES: Text = text!(
    "SELECT jobs.id AS job,
         (SELECT count(*) FROM messages WHERE messages.job = jobs.id) AS messages,
         (SELECT sum(greatest(finished_at - started_at, 0))::bigint FROM runs
          WHERE runs.job = jobs.id AND finished_at IS NOT NULL) AS run_time,
         (SELECT max(started_at) FROM runs WHERE runs.job = jobs.id AND runs.status = 'running') AS running_since,
         (SELECT runs.id FROM runs WHERE runs.job = jobs.id AND runs.status = 'running' ORDER BY number DESC LIMIT 1)
             AS run,
         (SELECT micros FROM spending
          WHERE spending.project = jobs.project COLLATE \"default\" AND kind = 'job'
              AND subject = jobs.id COLLATE \"default\") AS cost_micros
     FROM jobs WHERE jobs.id = ANY (($1))"
);

/// Selects the newest plan of each job that a worker has a lease on. The partial index `log_plans` has only the plans.
pub(crate) const PLANS: Text = text!(
    "SELECT plan.job, plan.run, plan.data
     FROM jobs CROSS JOIN log AS plan /*sqlite INDEXED BY log_plans */
     WHERE jobs.id = ANY (($1)) AND jobs.worker IS NOT NULL
         AND plan.job = jobs.id AND plan.type = 'agent.plan'
         AND plan.seq = (
             SELECT newest.seq FROM log AS newest /*sqlite INDEXED BY log_plans */
             WHERE newest.job = jobs.id AND newest.type = 'agent.plan' ORDER BY newest.seq DESC LIMIT 1
         )"
);

/// Selects the newest plan among the entries of a job's log before one of them.
pub(crate) const PLAN_BEFORE: Text = text!(
    "SELECT * FROM log /*sqlite INDEXED BY log_plans */
     WHERE job = $1 AND type = 'agent.plan' AND seq < $2 ORDER BY seq DESC LIMIT 1"
);

/// Counts the tool calls that began in some entries of a job's log.
pub(crate) const COUNT_STEPS: Text = text!(
    "SELECT count(*) AS count FROM log
     WHERE job = $1 AND seq >= $2 AND seq < $3 AND type = 'agent.tool_call'
         AND (data::json -> 'update')::text IS DISTINCT FROM 'true'"
);

/// Selects the entries of tool calls among the last entries of the log of each job that a worker has a lease on. `$2` is
/// the number of these entries. An agent may give a field another type than text. In PostgreSQL, `OFFSET 0` keeps the
/// planner from parsing an entry, of up to 256 KB, once for each field.
pub(crate) const STEPS: Text = Text {
    sqlite: "
        SELECT log.job, log.seq, log.run,
            CASE json_type(log.data, '$.toolCallId') WHEN 'text' THEN log.data ->> '$.toolCallId' END AS call,
            CASE json_type(log.data, '$.title') WHEN 'text' THEN log.data ->> '$.title' END AS title,
            CASE json_type(log.data, '$.status') WHEN 'text' THEN log.data ->> '$.status' END AS status
        FROM jobs CROSS JOIN log
        WHERE jobs.id IN (SELECT value FROM json_each(?1)) AND jobs.worker IS NOT NULL
            AND log.job = jobs.id AND log.type = 'agent.tool_call'
            AND log.seq > (SELECT max(seq) FROM log AS newest WHERE newest.job = jobs.id) - ?2",
    postgres: "
        SELECT step.job, step.seq, step.run,
            CASE jsonb_typeof(step.data -> 'toolCallId') WHEN 'string' THEN step.data ->> 'toolCallId' END AS call,
            CASE jsonb_typeof(step.data -> 'title') WHEN 'string' THEN step.data ->> 'title' END AS title,
            CASE jsonb_typeof(step.data -> 'status') WHEN 'string' THEN step.data ->> 'status' END AS status
        FROM jobs CROSS JOIN LATERAL (
            SELECT job, seq, run, data::jsonb AS data FROM log
            WHERE log.job = jobs.id AND type = 'agent.tool_call'
                AND seq > (SELECT max(newest.seq) FROM log AS newest WHERE newest.job = jobs.id) - $2
            OFFSET 0
        ) AS step
        WHERE jobs.id = ANY ($1) AND jobs.worker IS NOT NULL",
};

pub(crate) const RUNNING_OF_PROJECTS: Text = text!(
    "SELECT project, count(*) AS running FROM jobs WHERE due_at IS NOT NULL AND worker IS NOT NULL GROUP BY project"
);

/// Counts along the index for each project, instead of reading all pull requests.
pub(crate) const OPEN_PULLS_OF_PROJECTS: Text = text!(
    "SELECT id AS project,
         (SELECT count(*) FROM job_pulls /*sqlite INDEXED BY job_pulls_listed */
          WHERE job_pulls.project = projects.id COLLATE \"default\" AND state = 'open') AS pulls
     FROM projects"
);

/// Returns the queries for the data about jobs whose IDs meet a condition on a value.
macro_rules! extras_queries {
    ($condition:literal, $value:expr) => {
        vec![
            sql!(concat!("SELECT job, attribute FROM job_attributes WHERE job ", $condition), $value),
            sql!(concat!("SELECT job, id, usage FROM runs WHERE job ", $condition), $value),
            sql!(concat!("SELECT * FROM job_pulls WHERE job ", $condition, " ORDER BY created_at, number"), $value),
            sql!(
                concat!(
                    "SELECT jobs.id AS job, hold FROM jobs JOIN project_holds ON project_holds.project = jobs.project
                     WHERE jobs.id ",
                    $condition
                ),
                $value,
            ),
        ]
    };
}

/// Returns the queries for the data about one job that is not in its document. They do not parse a list.
pub(crate) fn extras_queries(job: JobId) -> Vec<Statement> {
    extras_queries!("= $1", job.to_string())
}

/// Returns the queries for the data about jobs that is not in their documents.
pub(crate) fn extras_queries_of_jobs(jobs: &[String]) -> Vec<Statement> {
    extras_queries!("= ANY (($1))", jobs.to_vec())
}

/// Decodes the answers of [`extras_queries`].
pub(crate) fn extras(answers: &[Vec<Row>]) -> Result<BTreeMap<JobId, JobExtras>, StoreError> {
    let [attributes, runs, pulls, holds] = answers else { return Ok(BTreeMap::new()) };
    Ok(lists::extras(
        decoded(attributes, rows::attribute)?,
        decoded(runs, rows::usage_of_job)?,
        decoded(pulls, rows::indexed_pull)?,
        decoded(holds, rows::hold_of_job)?,
    ))
}

/// Returns the queries for the summaries of jobs.
pub(crate) fn summary_queries(jobs: &[String]) -> Vec<Statement> {
    let query = |text| Statement { text, values: vec![jobs.to_vec().into()] };
    let attributes = sql!("SELECT job, attribute FROM job_attributes WHERE job = ANY (($1))", jobs.to_vec());
    let steps = Statement { text: STEPS, values: vec![jobs.to_vec().into(), STEP_WINDOW.into()] };
    vec![query(SUMMARIES), attributes, query(PLANS), steps]
}

/// Decodes the answers of [`summary_queries`].
pub(crate) fn summaries(answers: &[Vec<Row>]) -> Result<BTreeMap<JobId, JobSummary>, StoreError> {
    let [sums, attributes, plans, steps] = answers else { return Ok(BTreeMap::new()) };
    Ok(lists::summaries(
        decoded(sums, rows::summary)?,
        decoded(attributes, rows::attribute)?,
        decoded(plans, rows::plan)?,
        decoded(steps, rows::tool_entry)?,
    ))
}

/// Returns the queries for the numbers of running jobs and of open pull requests of projects.
pub(crate) fn project_queries() -> Vec<Statement> {
    [RUNNING_OF_PROJECTS, OPEN_PULLS_OF_PROJECTS].map(|text| Statement { text, values: Vec::new() }).into()
}

/// Decodes the answers of [`project_queries`].
pub(crate) fn project_jobs(answers: &[Vec<Row>]) -> Result<BTreeMap<ProjectId, ProjectJobs>, StoreError> {
    let [running, pulls] = answers else { return Ok(BTreeMap::new()) };
    let mut pulls = decoded(pulls, rows::project_pulls)?;
    pulls.retain(|(_, count)| *count > 0);
    Ok(lists::project_jobs(decoded(running, rows::project_running)?, pulls))
}
