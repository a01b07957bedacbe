//! The data about jobs that is in other tables than theirs.

use std::collections::BTreeMap;

use journeyman_core::ids::{JobId, ProjectId};
use journeyman_core::job::summary::{JobSummary, STEP_WINDOW};
use journeyman_core::ports::{JobExtras, ProjectJobs};
use rusqlite::{Connection, params};

use crate::lists;
use crate::rows;
use crate::sqlite::error::ReadError;
use crate::sqlite::rows::collect;

/// Selects the sums over the messages and runs of jobs. `?1` is a JSON array of their IDs. The messages are counted in
/// their index.
pub(super) const SUMMARIES: &str = "
    SELECT jobs.id AS job,
        (SELECT count(*) FROM messages WHERE messages.job = jobs.id) AS messages,
        (SELECT sum(max(finished_at - started_at, 0)) FROM runs WHERE runs.job = jobs.id AND finished_at IS NOT NULL)
            AS run_time,
        (SELECT max(started_at) FROM runs WHERE runs.job = jobs.id AND runs.status = 'running') AS running_since,
        (SELECT id FROM runs WHERE runs.job = jobs.id AND runs.status = 'running' ORDER BY number DESC LIMIT 1) AS run,
        (SELECT micros FROM spending WHERE spending.project = jobs.project AND kind = 'job' AND subject = jobs.id)
            AS cost_micros
    FROM jobs WHERE jobs.id IN (SELECT value FROM json_each(?1))";

/// Selects the newest plan of each job that a worker has a lease on. The partial index has only the plans.
pub(super) const PLANS: &str = "
    SELECT plan.job, plan.run, plan.data
    FROM jobs CROSS JOIN log AS plan INDEXED BY log_plans
    WHERE jobs.id IN (SELECT value FROM json_each(?1)) AND jobs.worker IS NOT NULL
        AND plan.job = jobs.id AND plan.type = 'agent.plan'
        AND plan.seq = (
            SELECT newest.seq FROM log AS newest INDEXED BY log_plans
            WHERE newest.job = jobs.id AND newest.type = 'agent.plan' ORDER BY newest.seq DESC LIMIT 1
        )";

/// Selects the newest plan among the entries of a job's log before one of them.
pub(super) const PLAN_BEFORE: &str = "
    SELECT * FROM log INDEXED BY log_plans
    WHERE job = ?1 AND type = 'agent.plan' AND seq < ?2 ORDER BY seq DESC LIMIT 1";

/// Counts the tool calls that began in some entries of a job's log.
pub(super) const COUNT_STEPS: &str = "
    SELECT count(*) FROM log
    WHERE job = ?1 AND seq >= ?2 AND seq < ?3 AND type = 'agent.tool_call'
        AND json_type(data, '$.update') IS NOT 'true'";

/// Selects the entries of tool calls among the last entries of the log of each job that a worker has a lease on. `?2` is
/// the number of these entries. An agent may give a field another type than text.
pub(super) const STEPS: &str = "
    SELECT log.job, log.seq, log.run,
        CASE json_type(log.data, '$.toolCallId') WHEN 'text' THEN log.data ->> '$.toolCallId' END AS call,
        CASE json_type(log.data, '$.title') WHEN 'text' THEN log.data ->> '$.title' END AS title,
        CASE json_type(log.data, '$.status') WHEN 'text' THEN log.data ->> '$.status' END AS status
    FROM jobs CROSS JOIN log
    WHERE jobs.id IN (SELECT value FROM json_each(?1)) AND jobs.worker IS NOT NULL
        AND log.job = jobs.id AND log.type = 'agent.tool_call'
        AND log.seq > (SELECT max(seq) FROM log AS newest WHERE newest.job = jobs.id) - ?2";

pub(super) const RUNNING_OF_PROJECTS: &str = "
    SELECT project, count(*) AS running FROM jobs WHERE due_at IS NOT NULL AND worker IS NOT NULL GROUP BY project";

/// Counts along the index for each project, instead of reading all pull requests.
const OPEN_PULLS_OF_PROJECTS: &str = "
    SELECT id AS project,
        (SELECT count(*) FROM job_pulls INDEXED BY job_pulls_listed WHERE project = projects.id AND state = 'open') AS pulls
    FROM projects";

/// Reads the summaries of jobs in one snapshot. `jobs` is a JSON array of their IDs.
pub(super) fn summaries(db: &Connection, jobs: &str) -> Result<BTreeMap<JobId, JobSummary>, ReadError> {
    let _state = db.unchecked_transaction()?;
    let mut sums = db.prepare_cached(SUMMARIES)?;
    let mut attributes = db.prepare_cached(EXTRAS_OF_JOBS.attributes)?;
    let mut plans = db.prepare_cached(PLANS)?;
    let mut steps = db.prepare_cached(STEPS)?;
    let window = i64::try_from(STEP_WINDOW).unwrap_or(i64::MAX);
    Ok(lists::summaries(
        collect(&mut sums.query([jobs])?, |row| rows::summary(row))?,
        collect(&mut attributes.query([jobs])?, |row| rows::attribute(row))?,
        collect(&mut plans.query([jobs])?, |row| rows::plan(row))?,
        collect(&mut steps.query(params![jobs, window])?, |row| rows::tool_entry(row))?,
    ))
}

/// Counts the running jobs and the open pull requests of projects, in one snapshot.
pub(super) fn jobs_of_projects(db: &Connection) -> Result<BTreeMap<ProjectId, ProjectJobs>, ReadError> {
    let _state = db.unchecked_transaction()?;
    let mut running = db.prepare_cached(RUNNING_OF_PROJECTS)?;
    let mut pulls = db.prepare_cached(OPEN_PULLS_OF_PROJECTS)?;
    let open = collect(&mut pulls.query([])?, |row| rows::project_pulls(row))?;
    Ok(lists::project_jobs(
        collect(&mut running.query([])?, |row| rows::project_running(row))?,
        open.into_iter().filter(|(_, count)| *count > 0).collect(),
    ))
}

/// The queries for the data about jobs that is not in their documents.
pub(super) struct ExtrasQueries {
    pub(super) attributes: &'static str,
    pub(super) runs: &'static str,
    pulls: &'static str,
    pub(super) holds: &'static str,
}

/// Returns the queries for the jobs whose IDs meet a condition on the parameter `?1`.
macro_rules! extras_queries {
    ($condition:literal) => {
        ExtrasQueries {
            attributes: concat!("SELECT job, attribute FROM job_attributes WHERE job ", $condition),
            runs: concat!("SELECT job, id, usage FROM runs WHERE job ", $condition),
            pulls: concat!("SELECT * FROM job_pulls WHERE job ", $condition, " ORDER BY created_at, number"),
            holds: concat!(
                "SELECT jobs.id AS job, hold FROM jobs JOIN project_holds ON project_holds.project = jobs.project
                 WHERE jobs.id ",
                $condition
            ),
        }
    };
}

/// The queries for one job, which do not parse a list.
pub(super) const EXTRAS_OF_JOB: ExtrasQueries = extras_queries!("= ?1");
pub(super) const EXTRAS_OF_JOBS: ExtrasQueries = extras_queries!("IN (SELECT value FROM json_each(?1))");

/// Reads the data about jobs that is not in their documents, in one snapshot. `wanted` is the parameter of the queries.
pub(super) fn extras(
    db: &Connection,
    queries: &ExtrasQueries,
    wanted: &str,
) -> Result<BTreeMap<JobId, JobExtras>, ReadError> {
    let _state = db.unchecked_transaction()?;
    let mut attributes = db.prepare_cached(queries.attributes)?;
    let mut runs = db.prepare_cached(queries.runs)?;
    let mut pulls = db.prepare_cached(queries.pulls)?;
    let mut holds = db.prepare_cached(queries.holds)?;
    Ok(lists::extras(
        collect(&mut attributes.query([wanted])?, |row| rows::attribute(row))?,
        collect(&mut runs.query([wanted])?, |row| rows::usage_of_job(row))?,
        collect(&mut pulls.query([wanted])?, |row| rows::indexed_pull(row))?,
        collect(&mut holds.query([wanted])?, |row| rows::hold_of_job(row))?,
    ))
}
