//! Lists of jobs.

use journeyman_core::ids::ProjectId;
use journeyman_core::job::{Job, JobStatus};
use journeyman_core::ports::{JobFilter, StatusCounts};
use journeyman_core::time::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use crate::lists::{self, Listing};
use crate::rows::{self, to_json};
use crate::sqlite::error::ReadError;
use crate::sqlite::rows::collect;

/// Selects the newest jobs of a project; filters that are not set have values that match everything. `instr` instead of
/// LIKE, because the text has no wildcards. The query names its index: SQLite, which has no statistics here, would use
/// the index by project for a status too, and read all jobs of the project.
macro_rules! list {
    ($index:literal, $status:literal) => {
        concat!(
            "SELECT id, state, diff, effort FROM jobs INDEXED BY ",
            $index,
            " WHERE project = ?1 AND created_at > ?2 AND (created_at, id) < (?3, ?4)
               AND instr(lower(title), lower(?5)) > 0 AND ",
            $status,
            " ORDER BY created_at DESC, id DESC LIMIT ?6"
        )
    };
}

/// Also used for a search, because the index contains the title.
pub(super) const LIST: &str = list!("jobs_of_project", "?7 IN ('', status)");
pub(super) const LIST_OF_STATUS: &str = list!("jobs_of_status", "status = ?7");

/// Selects the newest jobs of a project by rarer properties. CROSS JOIN keeps the order of the tables, so that the jobs
/// have the order of the index.
macro_rules! list_by {
    ($from:literal, $order:literal) => {
        concat!(
            "SELECT jobs.id, jobs.state, jobs.diff, jobs.effort FROM ",
            $from,
            " AND jobs.created_at > ?2 AND (jobs.created_at, jobs.id) < (?3, ?4)
               AND instr(lower(jobs.title), lower(?5)) > 0 AND ?7 IN ('', jobs.status)
               AND (?8 IS NULL OR jobs.branch = ?8)
               AND (?9 IS NULL OR jobs.id IN (SELECT job FROM job_pulls WHERE project = ?1 AND number = ?9))
               AND (?11 IS NULL OR EXISTS (SELECT 1 FROM job_pulls WHERE job = jobs.id AND state = ?11))
               AND NOT EXISTS (
                   SELECT 1 FROM json_each(?10) AS wanted
                   WHERE NOT EXISTS (
                       SELECT 1 FROM job_attributes AS own
                       WHERE own.project = ?1 AND own.attribute = wanted.value AND own.created_at = jobs.created_at
                         AND own.job = jobs.id
                   )
               )
               AND (?12 IS NULL OR EXISTS (
                   SELECT 1 FROM json_each(?12) AS wanted CROSS JOIN job_attributes AS own
                   WHERE own.project = ?1 AND own.attribute = wanted.value AND own.created_at = jobs.created_at
                     AND own.job = jobs.id
               ))
             ORDER BY ",
            $order,
            " LIMIT ?6"
        )
    };
}

pub(super) const LIST_OF_ATTRIBUTE: &str = list_by!(
    "job_attributes AS first CROSS JOIN jobs
     WHERE first.project = ?1 AND first.attribute = ?10 ->> 0 AND first.created_at > ?2
       AND (first.created_at, first.job) < (?3, ?4) AND jobs.id = first.job",
    "first.created_at DESC, first.job DESC"
);
pub(super) const LIST_OF_STATUS_WITH_ATTRIBUTES: &str = list_by!(
    "jobs INDEXED BY jobs_of_status WHERE jobs.project = ?1 AND jobs.status = ?7",
    "jobs.created_at DESC, jobs.id DESC"
);
const LIST_OF_PULL: &str = list_by!(
    "jobs WHERE jobs.project = ?1 AND jobs.id IN (SELECT job FROM job_pulls WHERE project = ?1 AND number = ?9)",
    "jobs.created_at DESC, jobs.id DESC"
);
const LIST_OF_BRANCH: &str = list_by!(
    "jobs INDEXED BY jobs_by_branch WHERE jobs.project = ?1 AND jobs.branch = ?8",
    "jobs.created_at DESC, jobs.id DESC"
);

const LIST_OF_OPEN_PULL: &str = list_by!(
    "(SELECT DISTINCT job FROM job_pulls INDEXED BY job_pulls_listed WHERE project = ?1 AND state = 'open') AS open
     CROSS JOIN jobs WHERE jobs.id = open.job AND jobs.project = ?1",
    "jobs.created_at DESC, jobs.id DESC"
);
pub(super) const LIST_WITH_PROPERTIES: &str =
    list_by!("jobs INDEXED BY jobs_of_project WHERE jobs.project = ?1", "jobs.created_at DESC, jobs.id DESC");

/// Counts the jobs with a status, at most `?2`, along the index. CROSS JOIN keeps the order of the tables.
macro_rules! count {
    ($from:literal) => {
        concat!("SELECT count(*) FROM (SELECT 1 FROM ", $from, " AND jobs.status = ?1 LIMIT ?2) AS counted")
    };
}

pub(super) const COUNT_OF_STATUS: &str =
    count!("projects CROSS JOIN jobs INDEXED BY jobs_of_status WHERE jobs.project = projects.id");
pub(super) const COUNT_OF_PROJECT_AND_STATUS: &str = count!("jobs INDEXED BY jobs_of_status WHERE jobs.project = ?3");

/// Counts the jobs of one project, or of all projects, by status, in one snapshot.
pub(super) fn status_counts(
    db: &Connection,
    project: Option<&ProjectId>,
    limit: usize,
) -> Result<StatusCounts, ReadError> {
    let _state = db.unchecked_transaction()?;
    let mut query = db.prepare_cached(if project.is_some() { COUNT_OF_PROJECT_AND_STATUS } else { COUNT_OF_STATUS })?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut counts = StatusCounts::default();
    for status in JobStatus::ALL {
        let mut values: Vec<Value> = vec![status.name().to_owned().into(), limit.into()];
        values.extend(project.map(|project| Value::from(project.to_string())));
        let count: i64 = query.query_row(params_from_iter(values), |row| row.get(0))?;
        counts.set(status, u64::try_from(count).unwrap_or(0));
    }
    Ok(counts)
}

/// Reads the jobs of one project.
pub(super) fn list(db: &Connection, filter: &JobFilter) -> Result<Vec<Job>, ReadError> {
    let (before_at, before_id) = lists::beginning(filter);
    let listing = Listing::of(filter);
    let mut query = db.prepare_cached(match listing {
        Listing::All | Listing::Search => LIST,
        Listing::OfStatus => LIST_OF_STATUS,
        Listing::OfAttribute => LIST_OF_ATTRIBUTE,
        Listing::OfStatusWithAttributes => LIST_OF_STATUS_WITH_ATTRIBUTES,
        Listing::OfPull => LIST_OF_PULL,
        Listing::OfBranch => LIST_OF_BRANCH,
        Listing::OfOpenPull => LIST_OF_OPEN_PULL,
        Listing::WithProperties => LIST_WITH_PROPERTIES,
    })?;
    let mut values: Vec<Value> = vec![
        filter.projects.iter().flatten().next().map_or_else(String::new, ToString::to_string).into(),
        filter.created_after.map_or(i64::MIN, Timestamp::as_micros).into(),
        before_at.into(),
        before_id.into(),
        filter.title_contains.clone().unwrap_or_default().into(),
        i64::try_from(filter.limit).unwrap_or(i64::MAX).into(),
        filter.status.map(|status| status.name()).unwrap_or_default().to_owned().into(),
    ];
    if listing.has_properties() {
        let [attributes, any_of] = [&filter.attributes, &filter.any_of]
            .map(|attributes| attributes.iter().map(ToString::to_string).collect::<Vec<String>>());
        let any_of = Some(any_of).filter(|any_of| !any_of.is_empty());
        values.push(filter.branch.clone().into());
        values.push(filter.pull.map(|number| i64::try_from(number).unwrap_or(i64::MAX)).into());
        values.push(to_json(&attributes)?.into());
        values.push(filter.pull_state.map(|state| state.name().to_owned()).into());
        values.push(any_of.map(|any_of| to_json(&any_of)).transpose()?.into());
    }
    collect(&mut query.query(params_from_iter(values))?, |row| rows::job(row))
}
