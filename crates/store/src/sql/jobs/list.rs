//! Lists of jobs and their numbers. Their statements have a text for each database: SQLite, which has no statistics here,
//! gets the name of the index, and PostgreSQL gets parts of a query in the order in which they are to be run.

use journeyman_core::ids::ProjectId;
use journeyman_core::job::JobStatus;
use journeyman_core::ports::JobFilter;
use journeyman_core::time::Timestamp;

use crate::lists::{self, Listing};
use crate::sql::{Statement, Text, Value, text};

/// Returns the statement that reads the jobs of one project.
pub(crate) fn list(filter: &JobFilter) -> Statement {
    let (before_at, before_id) = lists::beginning(filter);
    let listing = Listing::of(filter);
    let text = match listing {
        Listing::All => LIST,
        Listing::OfStatus => LIST_OF_STATUS,
        Listing::Search => SEARCH,
        Listing::OfAttribute => LIST_OF_ATTRIBUTE,
        Listing::OfStatusWithAttributes => LIST_OF_STATUS_WITH_ATTRIBUTES,
        Listing::OfPull => LIST_OF_PULL,
        Listing::OfBranch => LIST_OF_BRANCH,
        Listing::OfOpenPull => LIST_OF_OPEN_PULL,
        Listing::WithProperties => LIST_WITH_PROPERTIES,
    };
    let mut values: Vec<Value> = vec![
        filter.projects.iter().flatten().next().map_or_else(String::new, ToString::to_string).into(),
        filter.created_after.map_or(i64::MIN, Timestamp::as_micros).into(),
        before_at.into(),
        before_id.into(),
        filter.title_contains.clone().unwrap_or_default().into(),
        filter.limit.into(),
        filter.status.map(|status| status.name()).unwrap_or_default().into(),
    ];
    if listing.has_properties() {
        let any_of = Some(texts(&filter.any_of)).filter(|any_of| !any_of.is_empty());
        values.push(filter.branch.clone().unwrap_or_default().into());
        values.push(filter.pull.map_or(-1, |number| i64::try_from(number).unwrap_or(i64::MAX)).into());
        values.push(texts(&filter.attributes).into());
        values.push(filter.pull_state.map(|state| state.name()).unwrap_or_default().into());
        values.push(any_of.into());
    }
    Statement { text, values }
}

/// Returns the statement that counts the jobs with a status, of all projects or of one, up to a limit.
pub(crate) fn count_of_status(status: JobStatus, project: Option<&ProjectId>, limit: usize) -> Statement {
    let mut values: Vec<Value> = vec![status.name().into(), limit.into()];
    values.extend(project.map(|project| Value::from(project.as_str())));
    let text = if project.is_some() { COUNT_OF_PROJECT_AND_STATUS } else { COUNT_OF_STATUS };
    Statement { text, values }
}

/// Counts along the index. In PostgreSQL, the order makes the planner read the index, which has it, and stop at the limit;
/// a bitmap would be built of all jobs with the status first.
pub(crate) const COUNT_OF_STATUS: Text = Text {
    sqlite: "
        SELECT count(*) AS count FROM (
            SELECT 1 FROM projects CROSS JOIN jobs INDEXED BY jobs_of_status
            WHERE jobs.project = projects.id AND jobs.status = ?1 LIMIT ?2
        ) AS counted",
    postgres: "
        SELECT count(*) AS count FROM (
            SELECT 1 FROM projects CROSS JOIN LATERAL (
                SELECT 1 FROM jobs WHERE project = projects.id AND status = $1 ORDER BY created_at DESC, id DESC LIMIT $2
            ) AS job LIMIT $2
        ) AS counted",
};

pub(crate) const COUNT_OF_PROJECT_AND_STATUS: Text = text!(
    "SELECT count(*) AS count FROM (
         SELECT 1 FROM jobs /*sqlite INDEXED BY jobs_of_status */
         WHERE project = $3 AND status = $1 ORDER BY created_at DESC, id DESC LIMIT $2
     ) AS counted"
);

/// Selects the newest jobs of a project; filters that are not set have values that match everything. Only ASCII letters
/// match in either case.
macro_rules! list_sqlite {
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

/// See [`list_sqlite`].
macro_rules! list_postgres {
    ($columns:literal, $status:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM jobs
             WHERE project = $1 AND created_at > $2 AND (created_at, id) < ($3, $4)
               AND strpos(lower(title), lower($5 COLLATE \"C\")) > 0",
            $status,
            " ORDER BY created_at DESC, id DESC"
        )
    };
}

pub(crate) const LIST: Text = Text {
    sqlite: list_sqlite!("jobs_of_project", "?7 IN ('', status)"),
    postgres: concat!(list_postgres!("id, state, diff, effort", " AND $7 = ''"), " LIMIT $6"),
};

pub(crate) const LIST_OF_STATUS: Text = Text {
    sqlite: list_sqlite!("jobs_of_status", "status = ?7"),
    postgres: concat!(list_postgres!("id, state, diff, effort", " AND status = $7"), " LIMIT $6"),
};

/// Selects the newest jobs that match a search. The index of SQLite contains the title. In PostgreSQL, the inner query
/// needs only the index; the outer query reads the found jobs, one after the other. The inner `LIMIT` limits nothing: it
/// keeps the inner query separate and in the order of the index, because the planner, which does not know its value,
/// expects to read only a fraction of it.
pub(crate) const SEARCH: Text = Text {
    sqlite: LIST.sqlite,
    postgres: concat!(
        "SELECT job.id, job.state, job.diff, job.effort FROM (",
        list_postgres!("id, created_at", ""),
        " LIMIT greatest($6, 9223372036854775807)) AS hit CROSS JOIN LATERAL (
             SELECT id, state, diff, effort FROM jobs WHERE id = hit.id AND $7 IN ('', status) OFFSET 0
         ) AS job
         ORDER BY hit.created_at DESC, hit.id DESC LIMIT $6"
    ),
};

/// Selects the newest jobs of a project by rarer properties. CROSS JOIN keeps the order of the tables, so that the jobs
/// have the order of the index.
macro_rules! list_by_sqlite {
    ($from:literal, $order:literal) => {
        concat!(
            "SELECT jobs.id, jobs.state, jobs.diff, jobs.effort FROM ",
            $from,
            " AND jobs.created_at > ?2 AND (jobs.created_at, jobs.id) < (?3, ?4)
               AND instr(lower(jobs.title), lower(?5)) > 0 AND ?7 IN ('', jobs.status)
               AND ?8 IN ('', jobs.branch)
               AND (?9 < 0 OR jobs.id IN (SELECT job FROM job_pulls WHERE project = ?1 AND number = ?9))
               AND (?11 = '' OR EXISTS (SELECT 1 FROM job_pulls WHERE job = jobs.id AND state = ?11))
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

/// Selects the newest jobs by rarer properties: an inner query finds them, and the outer query reads them, one after the
/// other, like [`SEARCH`].
macro_rules! list_by_postgres {
    ($hits:literal) => {
        concat!(
            "SELECT job.id, job.state, job.diff, job.effort FROM (",
            $hits,
            ") AS hit CROSS JOIN LATERAL (
                 SELECT id, state, diff, effort FROM jobs
                 WHERE id = hit.id AND strpos(lower(title), lower($5 COLLATE \"C\")) > 0 AND $7 IN ('', status)
                   AND $8 IN ('', branch)
                   AND ($9::bigint < 0 OR EXISTS (SELECT 1 FROM job_pulls WHERE job = hit.id COLLATE \"default\" AND number = $9))
                   AND ($11 = '' OR EXISTS (SELECT 1 FROM job_pulls WHERE job = hit.id COLLATE \"default\" AND state = $11))
                   AND NOT EXISTS (
                       SELECT 1 FROM unnest($10::text[]) AS wanted (attribute)
                       WHERE NOT EXISTS (
                           SELECT 1 FROM job_attributes AS own
                           WHERE own.project = $1 AND own.attribute = wanted.attribute
                             AND own.created_at = hit.created_at AND own.job = hit.id
                       )
                   )
                   AND ($12::text[] IS NULL OR EXISTS (
                       SELECT 1 FROM unnest($12::text[]) AS wanted (attribute)
                       JOIN job_attributes AS own ON own.attribute = wanted.attribute
                       WHERE own.project = $1 AND own.created_at = hit.created_at AND own.job = hit.id
                   ))
                 OFFSET 0
             ) AS job
             ORDER BY hit.created_at DESC, hit.id DESC LIMIT $6"
        )
    };
}

pub(crate) const LIST_OF_ATTRIBUTE: Text = Text {
    sqlite: list_by_sqlite!(
        "job_attributes AS first CROSS JOIN jobs
         WHERE first.project = ?1 AND first.attribute = ?10 ->> 0 AND first.created_at > ?2
           AND (first.created_at, first.job) < (?3, ?4) AND jobs.id = first.job",
        "first.created_at DESC, first.job DESC"
    ),
    postgres: list_by_postgres!(
        "SELECT job AS id, created_at FROM job_attributes
         WHERE project = $1 AND attribute = ($10::text[])[1] AND created_at > $2 AND (created_at, job) < ($3, $4)
         ORDER BY created_at DESC, job DESC LIMIT greatest($6, 9223372036854775807)"
    ),
};

pub(crate) const LIST_OF_STATUS_WITH_ATTRIBUTES: Text = Text {
    sqlite: list_by_sqlite!(
        "jobs INDEXED BY jobs_of_status WHERE jobs.project = ?1 AND jobs.status = ?7",
        "jobs.created_at DESC, jobs.id DESC"
    ),
    postgres: list_by_postgres!(
        "SELECT id, created_at FROM jobs
         WHERE project = $1 AND status = $7 AND created_at > $2 AND (created_at, id) < ($3, $4)
         ORDER BY created_at DESC, id DESC LIMIT greatest($6, 9223372036854775807)"
    ),
};

pub(crate) const LIST_OF_PULL: Text = Text {
    sqlite: list_by_sqlite!(
        "jobs WHERE jobs.project = ?1 AND jobs.id IN (SELECT job FROM job_pulls WHERE project = ?1 AND number = ?9)",
        "jobs.created_at DESC, jobs.id DESC"
    ),
    postgres: list_by_postgres!(
        "SELECT DISTINCT jobs.id, jobs.created_at FROM job_pulls JOIN jobs ON jobs.id = job_pulls.job
         WHERE job_pulls.project = $1 AND job_pulls.number = $9 AND jobs.created_at > $2
           AND (jobs.created_at, jobs.id) < ($3, $4)
         LIMIT greatest($6, 9223372036854775807)"
    ),
};

pub(crate) const LIST_OF_BRANCH: Text = Text {
    sqlite: list_by_sqlite!(
        "jobs INDEXED BY jobs_by_branch WHERE jobs.project = ?1 AND jobs.branch = ?8",
        "jobs.created_at DESC, jobs.id DESC"
    ),
    postgres: list_by_postgres!(
        "SELECT id, created_at FROM jobs
         WHERE project = $1 AND branch = $8 AND created_at > $2 AND (created_at, id) < ($3, $4)
         LIMIT greatest($6, 9223372036854775807)"
    ),
};

pub(crate) const LIST_OF_OPEN_PULL: Text = Text {
    sqlite: list_by_sqlite!(
        "(SELECT DISTINCT job FROM job_pulls INDEXED BY job_pulls_listed WHERE project = ?1 AND state = 'open') AS open
         CROSS JOIN jobs WHERE jobs.id = open.job AND jobs.project = ?1",
        "jobs.created_at DESC, jobs.id DESC"
    ),
    postgres: list_by_postgres!(
        "SELECT DISTINCT jobs.id, jobs.created_at FROM job_pulls JOIN jobs ON jobs.id = job_pulls.job
         WHERE job_pulls.project = $1 AND job_pulls.state = 'open' AND jobs.created_at > $2
           AND (jobs.created_at, jobs.id) < ($3, $4)
         LIMIT greatest($6, 9223372036854775807)"
    ),
};

pub(crate) const LIST_WITH_PROPERTIES: Text = Text {
    sqlite: list_by_sqlite!(
        "jobs INDEXED BY jobs_of_project WHERE jobs.project = ?1",
        "jobs.created_at DESC, jobs.id DESC"
    ),
    postgres: list_by_postgres!(
        "SELECT id, created_at FROM jobs
         WHERE project = $1 AND created_at > $2 AND (created_at, id) < ($3, $4)
         ORDER BY created_at DESC, id DESC LIMIT greatest($6, 9223372036854775807)"
    ),
};

/// Returns values as texts.
pub(crate) fn texts<T: ToString>(values: &[T]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}
