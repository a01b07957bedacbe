//! Jobs, messages, runs and logs.

mod list;
mod related;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use async_trait::async_trait;
use journeyman_core::ids::{JobId, MessageId, ProjectId, RunId, WorkerId};
use journeyman_core::job::Job;
use journeyman_core::job::change::Change;
use journeyman_core::job::event::LogEntry;
use journeyman_core::job::summary::JobSummary;
use journeyman_core::message::Message;
use journeyman_core::ports::{
    Accepted, ClaimFn, ClaimQuery, Decide, GONE, Guard, JobCounts, JobExtras, JobFilter, JobLists, JobStore, JobWatch,
    MessageFilter, PATIENCE, Picked, ProjectJobs, StatusCounts, StoreError, UpdateError,
};
use journeyman_core::retry::{LONGEST_BACKOFF, LONGEST_LEASE};
use journeyman_core::run::Run;
use journeyman_core::time::Timestamp;
use rusqlite::{Connection, params};

use self::list::{list, status_counts};
use self::related::{COUNT_STEPS, EXTRAS_OF_JOB, EXTRAS_OF_JOBS, PLAN_BEFORE, extras, jobs_of_projects, summaries};
use super::cache::{Extras, Newest, Part};
use super::error::{OpError, ReadError};
use super::ledger::{Tables, job_by_id, write};
use super::rows::collect;
use super::write::Session;
use super::{SqliteStore, holds};
use crate::accept;
use crate::lists::{self, Merge};
use crate::rows::{self, to_json};
use crate::watch::Watch;

/// Selects messages in the order of the last change of their status, newest first.
const UPDATED_MESSAGES: &str = "
    SELECT * FROM messages
    WHERE (?1 IS NULL OR EXISTS (SELECT 1 FROM jobs WHERE jobs.id = messages.job
                                 AND jobs.project IN (SELECT value FROM json_each(?1))))
      AND (?2 IS NULL OR status IN (SELECT value FROM json_each(?2)))
      AND coalesce(finished_at, delivered_at, created_at) BETWEEN ?3 AND ?4
      AND (coalesce(finished_at, delivered_at, created_at) < ?4 OR id < ?5)
    ORDER BY coalesce(finished_at, delivered_at, created_at) DESC, id DESC LIMIT ?6";

/// Counts messages like [`UPDATED_MESSAGES`], without a start.
const UPDATED_MESSAGE_COUNT: &str = "
    SELECT count(*) FROM (
        SELECT 1 FROM messages
        WHERE (?1 IS NULL OR EXISTS (SELECT 1 FROM jobs WHERE jobs.id = messages.job
                                     AND jobs.project IN (SELECT value FROM json_each(?1))))
          AND (?2 IS NULL OR status IN (SELECT value FROM json_each(?2)))
          AND coalesce(finished_at, delivered_at, created_at) >= ?3
        LIMIT ?4)";

/// Returns the projects and the statuses of a filter as JSON arrays; `None` means all.
fn selected(filter: &MessageFilter) -> Result<[Option<String>; 2], StoreError> {
    let projects = filter.projects.as_ref().map(to_json).transpose()?;
    let statuses = Some(&filter.statuses).filter(|statuses| !statuses.is_empty()).map(to_json).transpose()?;
    Ok([projects, statuses])
}

impl SqliteStore {
    /// Returns data about a job from the cache, or reads it.
    fn related<T: Part>(
        &self,
        job: JobId,
        read: impl FnOnce(&Connection) -> Result<T, ReadError>,
    ) -> Result<T, StoreError> {
        self.fault.check()?;
        let now = Instant::now();
        let version = match self.cache.related(job, now) {
            Ok(part) => return Ok(part),
            Err(version) => version,
        };
        let part = self.readers.find(read)?;
        self.cache.put_related(version, job, &part, now);
        Ok(part)
    }
}

#[async_trait]
impl JobStore for SqliteStore {
    async fn create_job(&self, guard: Guard, change: Change, now: Timestamp) -> Result<Accepted, UpdateError> {
        let create = move |db: &mut Session<'_>| accept::create(&mut Tables(db), &guard, &change, now);
        let accepted = self.writer.write(create).await?;
        self.wakeups.accepted(&accepted);
        Ok(accepted)
    }

    async fn update_job(
        &self,
        id: JobId,
        project: Option<ProjectId>,
        guard: Guard,
        mut decide: Decide,
        now: Timestamp,
    ) -> Result<Accepted, UpdateError> {
        let update =
            move |db: &mut Session<'_>| accept::update(&mut Tables(db), id, project.as_ref(), &guard, &mut decide, now);
        let accepted = self.writer.write(update).await?;
        self.wakeups.accepted(&accepted);
        Ok(accepted)
    }

    async fn claim_job(&self, query: ClaimQuery, mut claim: ClaimFn) -> Result<Option<Picked>, StoreError> {
        let claimed: Option<Picked> = self
            .writer
            .write(move |db| {
                let Some(job) = due_job(db, query)? else { return Ok(None) };
                let job = job.in_epoch(db.epoch.base);
                // The job is due, so a refusal can only mean that there is nothing to do.
                let Ok(change) = claim(&job) else { return Ok::<_, OpError<StoreError>>(None) };
                let hold = holds::begin_probe(db, &change.job.project, query.now)?;
                let message = write(db, &change)?;
                Ok(Some(Picked { job: change.job, message, hold }))
            })
            .await?;
        if let Some(Picked { job, .. }) = &claimed {
            self.wakeups.committed(job);
        }
        Ok(claimed)
    }

    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        self.fault.check()?;
        let now = Instant::now();
        let version = match self.cache.look_up(id, now) {
            Ok(job) => return Ok(Some(job)),
            Err(version) => version,
        };
        let found = self.readers.find(|db| job_by_id(db, id))?;
        if let Some(job) = &found {
            self.cache.put_read(version, job, now);
        }
        Ok(found)
    }

    async fn leased_jobs(&self, worker: WorkerId) -> Result<Vec<JobId>, StoreError> {
        self.readers
            .read(move |db| {
                let mut query =
                    db.prepare_cached("SELECT id FROM jobs WHERE due_at IS NOT NULL AND worker = ?1 ORDER BY id")?;
                collect(&mut query.query([worker.to_string()])?, |row| rows::job_id(row))
            })
            .await
    }

    async fn messages(&self, job: JobId) -> Result<Vec<Message>, StoreError> {
        self.readers
            .read(move |db| {
                let mut query = db.prepare_cached("SELECT * FROM messages WHERE job = ?1 ORDER BY seq")?;
                let mut rows = query.query([job.to_string()])?;
                collect(&mut rows, |row| rows::message(row))
            })
            .await
    }

    async fn message(&self, id: MessageId) -> Result<Option<Message>, StoreError> {
        self.readers.find(|db| {
            let mut query = db.prepare_cached("SELECT * FROM messages WHERE id = ?1")?;
            let mut rows = query.query([id.to_string()])?;
            rows.next()?.map(rows::message).transpose()
        })
    }

    async fn run(&self, id: RunId) -> Result<Option<Run>, StoreError> {
        self.readers.find(|db| {
            let mut query = db.prepare_cached("SELECT * FROM runs WHERE id = ?1")?;
            let mut rows = query.query([id.to_string()])?;
            rows.next()?.map(rows::run).transpose()
        })
    }

    async fn runs(&self, job: JobId) -> Result<Vec<Run>, StoreError> {
        self.readers
            .read(move |db| {
                let mut query = db.prepare_cached("SELECT * FROM runs WHERE job = ?1 ORDER BY number")?;
                let mut rows = query.query([job.to_string()])?;
                collect(&mut rows, |row| rows::run(row))
            })
            .await
    }

    async fn log(&self, job: JobId, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        let read = self.readers.read(move |db| {
            let after = i64::try_from(after).unwrap_or(i64::MAX);
            let values = params![job.to_string(), after, i64::try_from(limit).unwrap_or(i64::MAX)];
            // One snapshot for both tables; otherwise an entry that is committed between the two queries could be
            // skipped.
            let _state = db.unchecked_transaction()?;
            let mut query = db.prepare_cached(LOG)?;
            let lines = collect(&mut query.query(values)?, |row| rows::log_entry(row))?;
            let mut query = db.prepare_cached(ACCEPTED)?;
            let accepted = collect(&mut query.query(values)?, |row| rows::accepted_line(row))?;
            Ok(rows::merge_lines(lines, accepted, limit))
        });
        self.fault.check()?;
        self.wakeups.lines(job, after, limit, read).await
    }

    fn watch(&self, job: JobId) -> Box<dyn JobWatch + '_> {
        Box::new(Watch::new(self, &self.wakeups, job, None))
    }

    fn work_version(&self) -> u64 {
        self.wakeups.work_version()
    }

    async fn work_changed(&self, seen: u64) {
        self.wakeups.work_changed(seen).await;
    }
}

#[async_trait]
impl JobLists for SqliteStore {
    async fn jobs(&self, filter: JobFilter) -> Result<Vec<Job>, StoreError> {
        self.readers
            .read(move |db| {
                // All projects are read in one snapshot.
                let _state = db.unchecked_transaction()?;
                let projects = match filter.projects.clone() {
                    Some(projects) => projects,
                    None => all_projects(db)?,
                };
                let mut merge = Merge::new(filter.limit);
                for project in projects {
                    merge.add(list(db, &merge.filter(&filter, project))?);
                }
                Ok(merge.jobs())
            })
            .await
    }

    async fn count_jobs(&self, project: Option<ProjectId>, limit: usize) -> Result<StatusCounts, StoreError> {
        self.readers.read(move |db| status_counts(db, project.as_ref(), limit)).await
    }

    async fn job_counts(&self, now: Timestamp) -> Result<JobCounts, StoreError> {
        let count = move |db: &Connection| {
            let text =
                "SELECT count(*) AS active, count(*) FILTER (WHERE due_at > ?1 AND worker IS NOT NULL) AS running,
                            count(*) FILTER (WHERE due_at <= ?1) AS due,
                            min(due_at) FILTER (WHERE due_at <= ?1) AS oldest
                        FROM jobs WHERE due_at IS NOT NULL";
            let mut query = db.prepare_cached(text)?;
            let mut found = query.query([now.as_micros()])?;
            Ok(found.next()?.map(rows::job_counts).transpose()?.unwrap_or_default())
        };
        self.readers.read(count).await
    }

    async fn waiting_jobs(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        let count = "SELECT waiting, count(*) FROM jobs WHERE waiting IS NOT NULL GROUP BY waiting";
        let read = self.readers.read(move |db| {
            let mut query = db.prepare_cached(count)?;
            let rows = query.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)))?;
            Ok(rows.collect::<rusqlite::Result<Vec<(String, i64)>>>()?)
        });
        Ok(read.await?.into_iter().map(|(code, count)| (code, u64::try_from(count).unwrap_or(0))).collect())
    }

    async fn messages_after(
        &self,
        job: JobId,
        after: Option<MessageId>,
        limit: usize,
    ) -> Result<Vec<Message>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.readers
            .read(move |db| {
                let text = "SELECT * FROM messages
                            WHERE job = ?1 AND seq > iif(?2 IS NULL, 0, (SELECT seq FROM messages WHERE id = ?2 AND job = ?1))
                            ORDER BY seq LIMIT ?3";
                let mut query = db.prepare_cached(text)?;
                let mut rows = query.query(params![job.to_string(), after.map(|id| id.to_string()), limit])?;
                collect(&mut rows, |row| rows::message(row))
            })
            .await
    }

    async fn newest_message(&self, job: JobId) -> Result<Option<Message>, StoreError> {
        let Newest(message) = self.related(job, |db| {
            let mut query = db.prepare_cached("SELECT * FROM messages WHERE job = ?1 ORDER BY seq DESC LIMIT 1")?;
            let mut rows = query.query([job.to_string()])?;
            Ok(Newest(rows.next()?.map(rows::message).transpose()?))
        })?;
        Ok(message)
    }

    async fn find_messages(&self, filter: MessageFilter) -> Result<Vec<Message>, StoreError> {
        let [projects, statuses] = selected(&filter)?;
        let since = filter.updated_since.map_or(i64::MIN, Timestamp::as_micros);
        let (before, id) = lists::message_beginning(&filter);
        let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
        self.readers
            .read(move |db| {
                let mut query = db.prepare_cached(UPDATED_MESSAGES)?;
                let mut rows = query.query(params![projects, statuses, since, before, id, limit])?;
                collect(&mut rows, |row| rows::message(row))
            })
            .await
    }

    async fn count_messages(&self, filter: MessageFilter) -> Result<u64, StoreError> {
        let [projects, statuses] = selected(&filter)?;
        let since = filter.updated_since.map_or(i64::MIN, Timestamp::as_micros);
        let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
        let count: i64 = self
            .readers
            .read(move |db| {
                let mut query = db.prepare_cached(UPDATED_MESSAGE_COUNT)?;
                Ok(query.query_row(params![projects, statuses, since, limit], |row| row.get(0))?)
            })
            .await?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    async fn runs_after(&self, job: JobId, after: Option<RunId>, limit: usize) -> Result<Vec<Run>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.readers
            .read(move |db| {
                let text = "SELECT * FROM runs
                            WHERE job = ?1 AND number > iif(?2 IS NULL, 0, (SELECT number FROM runs WHERE id = ?2 AND job = ?1))
                            ORDER BY number LIMIT ?3";
                let mut query = db.prepare_cached(text)?;
                let mut rows = query.query(params![job.to_string(), after.map(|id| id.to_string()), limit])?;
                collect(&mut rows, |row| rows::run(row))
            })
            .await
    }

    async fn extras_of_jobs(&self, jobs: Vec<JobId>) -> Result<BTreeMap<JobId, JobExtras>, StoreError> {
        if let [job] = jobs[..] {
            let read = |db: &Connection| Ok(Extras(extras(db, &EXTRAS_OF_JOB, &job.to_string())?.remove(&job)));
            let Extras(extras) = self.related(job, read)?;
            return Ok(extras.map(|extras| (job, extras)).into_iter().collect());
        }
        let wanted = to_json(&jobs)?;
        self.readers.read(move |db| extras(db, &EXTRAS_OF_JOBS, &wanted)).await
    }

    async fn summaries_of_jobs(&self, jobs: Vec<JobId>) -> Result<BTreeMap<JobId, JobSummary>, StoreError> {
        let wanted = to_json(&jobs)?;
        self.readers.read(move |db| summaries(db, &wanted)).await
    }

    async fn jobs_of_projects(&self) -> Result<BTreeMap<ProjectId, ProjectJobs>, StoreError> {
        self.readers.read(jobs_of_projects).await
    }

    async fn plan_before(&self, job: JobId, before: u64) -> Result<Option<LogEntry>, StoreError> {
        let before = i64::try_from(before).unwrap_or(i64::MAX);
        self.readers.find(|db| {
            let mut query = db.prepare_cached(PLAN_BEFORE)?;
            let mut rows = query.query(params![job.to_string(), before])?;
            rows.next()?.map(rows::log_entry).transpose()
        })
    }

    async fn count_steps(&self, job: JobId, entries: Range<u64>) -> Result<u64, StoreError> {
        let bound = |seq| i64::try_from(seq).unwrap_or(i64::MAX);
        self.readers
            .read(move |db| {
                let mut query = db.prepare_cached(COUNT_STEPS)?;
                let entries = params![job.to_string(), bound(entries.start), bound(entries.end)];
                let count: i64 = query.query_row(entries, |row| row.get(0))?;
                Ok(u64::try_from(count).unwrap_or(0))
            })
            .await
    }
}

/// Selects entries of a job's log. The table `log` has all entries except those of accepted messages, which
/// [`rows::accepted_line`] derives from the messages that [`ACCEPTED`] selects.
const LOG: &str = "SELECT * FROM log WHERE job = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
const ACCEPTED: &str = "SELECT * FROM messages WHERE job = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";

/// Selects the job that [`ClaimQuery`] describes. The first part walks from project to project along the index over due
/// jobs, so that the cost grows with the number of projects that have due jobs, not with the number of jobs. Only if no
/// job of a project is due by its time does it look for jobs that are due by their state, among those with a later
/// time: runs and retries.
const DUE_JOB: &str = "
    WITH RECURSIVE owners (project) AS (
        SELECT min(project) FROM jobs WHERE due_at IS NOT NULL
        UNION ALL
        SELECT (SELECT min(project) FROM jobs WHERE due_at IS NOT NULL AND project > owners.project)
        FROM owners WHERE owners.project IS NOT NULL
    ), shares AS (
        SELECT project,
            (SELECT count(*) FROM jobs WHERE project = owners.project AND due_at > ?1 AND worker IS NOT NULL) AS live,
            (SELECT concurrent_runs FROM projects WHERE id = owners.project) AS most
        FROM owners WHERE project IS NOT NULL
            AND NOT EXISTS (
                SELECT 1 FROM project_holds
                WHERE project = owners.project AND next_probe_at > ?1 AND next_probe_at <= ?5
            )
    ), heads AS (
        SELECT live, coalesce((
            SELECT id FROM jobs
            WHERE project = shares.project AND due_at <= ?1
                AND (prefers IS NULL OR prefers = ?2 OR due_at <= ?3 AND (
                    state ->> '$.state.active' = 'waiting'
                    OR NOT EXISTS (SELECT 1 FROM workers WHERE id = jobs.prefers AND seen_at > ?9 AND seen_at < ?10)
                ))
                AND (avoids IS NULL OR avoids <> ?2 OR due_at <= ?7)
            ORDER BY due_at, id LIMIT 1
        ), (
            SELECT id FROM jobs
            WHERE project = shares.project AND due_at > ?1 AND (worker IS NULL OR due_at > ?6)
                AND (prefers IS NULL OR prefers = ?2 OR due_at > ?4)
                AND (avoids IS NULL OR avoids <> ?2 OR due_at > ?8)
                AND (due_at > ?5 OR state ->> '$.state.active' = 'waiting')
            ORDER BY due_at, id LIMIT 1
        )) AS id
        FROM shares WHERE most IS NULL OR live < most
    )
    SELECT jobs.id, jobs.state, jobs.diff, jobs.effort FROM heads JOIN jobs ON jobs.id = heads.id
    ORDER BY heads.live, jobs.due_at, jobs.id LIMIT 1";

fn due_job(db: &Connection, ClaimQuery { now, worker, avoidance }: ClaimQuery) -> Result<Option<Job>, ReadError> {
    let mut query = db.prepare_cached(DUE_JOB)?;
    let times =
        [now - PATIENCE, now + PATIENCE, now + LONGEST_BACKOFF, now + LONGEST_LEASE, now - avoidance, now + avoidance];
    let [waited, early, never, leased, avoided, avoided_early] = times.map(Timestamp::as_micros);
    let [gone, ahead] = [now - GONE, now + GONE].map(Timestamp::as_micros);
    let (now, worker) = (now.as_micros(), worker.to_string());
    let values = params![now, worker, waited, early, never, leased, avoided, avoided_early, gone, ahead];
    let mut rows = query.query(values)?;
    rows.next()?.map(rows::job).transpose()
}

fn all_projects(db: &Connection) -> Result<Vec<ProjectId>, ReadError> {
    let mut query = db.prepare_cached("SELECT id FROM projects ORDER BY id")?;
    collect(&mut query.query([])?, |row| rows::project_id(row))
}

#[cfg(test)]
mod tests {
    use journeyman_core::code_host::PullState;
    use journeyman_core::ids::UserId;
    use journeyman_core::ports::PullFilter;
    use uuid::Uuid;

    use super::list::{
        COUNT_OF_PROJECT_AND_STATUS, COUNT_OF_STATUS, LIST, LIST_OF_ATTRIBUTE, LIST_OF_STATUS,
        LIST_OF_STATUS_WITH_ATTRIBUTES, LIST_WITH_PROPERTIES,
    };
    use super::related::{PLANS, RUNNING_OF_PROJECTS, STEPS, SUMMARIES};
    use super::*;
    use crate::sql::code_hosts::remote_pulls;
    use crate::sql::feed::{FEED, FEED_OF_PROJECTS};
    use crate::sql::keys::names_of;

    /// Returns SQLite's plan for a query.
    fn plan(db: &Connection, query: &str) -> Vec<String> {
        let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
        let values: Vec<rusqlite::types::Value> = vec![rusqlite::types::Value::Null; plan.parameter_count()];
        let lines = plan.query_map(rusqlite::params_from_iter(values), |row| row.get("detail")).unwrap();
        lines.collect::<rusqlite::Result<_>>().unwrap()
    }

    #[test]
    fn hot_queries_use_indexes_and_never_scan_a_table() {
        let mut db = Connection::open_in_memory().unwrap();
        super::super::migrate::migrate(&mut db, std::path::Path::new(":memory:")).unwrap();
        let pulls = PullFilter { project: "shop".parse().unwrap(), state: PullState::Open, after: None, limit: 1 };
        let hot = [
            ("claim", DUE_JOB),
            ("log", LOG),
            ("messages", ACCEPTED),
            ("updated messages", UPDATED_MESSAGES),
            ("jobs_of_project", LIST),
            ("jobs_of_status", LIST_OF_STATUS),
            ("attribute", LIST_OF_ATTRIBUTE),
            ("status and attribute", LIST_OF_STATUS_WITH_ATTRIBUTES),
            ("properties", LIST_WITH_PROPERTIES),
            ("summaries", SUMMARIES),
            ("plans", PLANS),
            ("plan before an entry", PLAN_BEFORE),
            ("number of steps", COUNT_STEPS),
            ("steps", STEPS),
            ("running jobs of projects", RUNNING_OF_PROJECTS),
            ("feed", FEED.sqlite),
            ("feed of projects", FEED_OF_PROJECTS.sqlite),
            ("poll", "SELECT id, state, diff, effort FROM jobs WHERE id = ?1"),
            ("attributes of a job", EXTRAS_OF_JOB.attributes),
            ("runs of a job", EXTRAS_OF_JOB.runs),
            ("hold of a job", EXTRAS_OF_JOB.holds),
            ("write", "UPDATE jobs SET state = ?2, diff = ?3 WHERE id = ?1"),
            ("waiting jobs", "SELECT waiting, count(*) FROM jobs WHERE waiting IS NOT NULL GROUP BY waiting"),
            ("active jobs", "SELECT count(*) FROM jobs WHERE due_at IS NOT NULL"),
            ("jobs with a status", COUNT_OF_STATUS),
            ("jobs of a project with a status", COUNT_OF_PROJECT_AND_STATUS),
            ("key", "SELECT * FROM keys WHERE hash = ?1"),
            ("names of keys", names_of(UserId::from_uuid(Uuid::nil())).text.sqlite),
            ("pulls", remote_pulls(&pulls).text.sqlite),
            ("runs", "SELECT * FROM runs WHERE job = ?1 ORDER BY number"),
            ("sweep", "SELECT id FROM jobs WHERE trimmed = 0 AND rests_since <= ?1 LIMIT ?2"),
        ];
        for (name, query) in hot {
            let plan = plan(&db, query);
            // Scans of the query's own intermediate results are allowed, and so are scans of the small partial indexes and
            // of the projects.
            let own = |line: &str| {
                ["owners", "shares", "heads", "counted", "CONSTANT ROW", "wanted", "json_each"]
                    .iter()
                    .any(|name| line.contains(name))
            };
            let small = |line: &str| {
                ["INDEX jobs_due", "INDEX jobs_waiting", "SCAN projects"].iter().any(|name| line.contains(name))
            };
            let scans = |line: &&String| line.starts_with("SCAN") && !own(line) && !small(line);
            assert_eq!(plan.iter().filter(scans).count(), 0, "{name}: {plan:#?}");
            let sorts = plan.iter().any(|line| line.contains("TEMP B-TREE"));
            // Only the first rows of several projects may be sorted; a list must have the order of its index.
            assert!(!sorts || ["claim", "feed of projects"].contains(&name), "{name}: {plan:#?}");
            let by = format!("SEARCH jobs USING INDEX {name} (");
            assert!(!name.starts_with("jobs_of_") || plan[0].starts_with(&by), "{name}: {plan:#?}");
        }
    }

    /// Returns the instructions of SQLite's program for a query, as their names and first operands.
    fn program(db: &Connection, query: &str) -> Vec<(String, i64)> {
        let mut program = db.prepare(&format!("EXPLAIN {query}")).unwrap();
        let values = vec![rusqlite::types::Value::Null; program.parameter_count()];
        let lines =
            program.query_map(rusqlite::params_from_iter(values), |row| Ok((row.get(1)?, row.get(2)?))).unwrap();
        lines.collect::<rusqlite::Result<_>>().unwrap()
    }

    #[test]
    fn a_search_reads_only_the_jobs_that_match() {
        let mut db = Connection::open_in_memory().unwrap();
        super::super::migrate::migrate(&mut db, std::path::Path::new(":memory:")).unwrap();
        let program = program(&db, LIST);
        let index = |name: &str| program.iter().position(|(own, _)| own == name).unwrap();
        // SQLite seeks in the table only when it needs a column that the index does not have.
        let table = program[index("DeferredSeek") + 1..].iter().find(|(name, cursor)| name == "Column" && *cursor == 0);
        assert!(table.is_some(), "{program:#?}");
        let first = program.iter().position(|(name, cursor)| name == "Column" && *cursor == 0).unwrap();
        let compared = program.iter().rposition(|(name, _)| name == "Function").unwrap();
        assert!(compared < first, "the title is compared before any other column is read: {program:#?}");
    }
}
