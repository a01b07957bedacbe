//! Jobs, messages, runs and logs.

use std::time::Instant;

use async_trait::async_trait;
use journeyman_core::ids::{JobId, MessageId, ProjectId, RunId, WorkerId};
use journeyman_core::job::Job;
use journeyman_core::job::change::Change;
use journeyman_core::job::event::LogEntry;
use journeyman_core::message::Message;
use journeyman_core::ports::{
    Accepted, ClaimFn, ClaimQuery, Decide, GONE, Guard, JobOverview, JobStore, JobWatch, PATIENCE, Picked, StoreError,
    UpdateError,
};
use journeyman_core::retry::{LONGEST_BACKOFF, LONGEST_LEASE};
use journeyman_core::run::Run;
use journeyman_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::cache::Part;
use super::error::{OpError, ReadError};
use super::ledger::{Tables, job_by_id, write};
use super::rows::collect;
use super::write::Session;
use super::{Sqlite, SqliteStore, holds};
use crate::accept;
use crate::rows;
use crate::sql::jobs::{self, JobReads};
use crate::watch::Watch;

#[async_trait]
impl JobReads for Sqlite {
    // Jobs that are older than those of the projects before need not be read.
    const PROJECTS_AT_ONCE: usize = 1;

    async fn related<T: Part>(
        &self,
        job: JobId,
        read: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        self.fault.check()?;
        let now = Instant::now();
        let version = match self.cache.related(job, now) {
            Ok(part) => return Ok(part),
            Err(version) => version,
        };
        let part = read.await?;
        self.cache.put_related(version, job, &part, now);
        Ok(part)
    }

    async fn overview(&self, id: JobId) -> Result<Option<JobOverview>, StoreError> {
        let Some(job) = self.read_job(id)? else { return Ok(None) };
        let newest_message = jobs::newest_message(self, id).await?;
        let extras = jobs::extras_of_job(self, id).await?.unwrap_or_default();
        Ok(Some(JobOverview { job, newest_message, extras }))
    }
}

impl Sqlite {
    /// Returns a job from the cache, or reads it.
    fn read_job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
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
        self.read_job(id)
    }

    async fn leased_jobs(&self, worker: WorkerId) -> Result<Vec<JobId>, StoreError> {
        jobs::leased_jobs(&self.database, worker).await
    }

    async fn messages(&self, job: JobId) -> Result<Vec<Message>, StoreError> {
        jobs::messages(&self.database, job).await
    }

    async fn message(&self, id: MessageId) -> Result<Option<Message>, StoreError> {
        jobs::message(&self.database, id).await
    }

    async fn run(&self, id: RunId) -> Result<Option<Run>, StoreError> {
        jobs::run(&self.database, id).await
    }

    async fn runs(&self, job: JobId) -> Result<Vec<Run>, StoreError> {
        jobs::runs(&self.database, job).await
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

#[cfg(test)]
mod tests {
    use journeyman_core::code_host::PullState;
    use journeyman_core::ids::UserId;
    use journeyman_core::ports::PullFilter;
    use uuid::Uuid;

    use super::*;
    use crate::sql::code_hosts::remote_pulls;
    use crate::sql::feed::{FEED, FEED_OF_PROJECTS};
    use crate::sql::jobs::UPDATED_MESSAGES;
    use crate::sql::jobs::list::{
        COUNT_OF_PROJECT_AND_STATUS, COUNT_OF_STATUS, LIST, LIST_OF_ATTRIBUTE, LIST_OF_STATUS,
        LIST_OF_STATUS_WITH_ATTRIBUTES, LIST_WITH_PROPERTIES,
    };
    use crate::sql::jobs::related::{
        COUNT_STEPS, PLAN_BEFORE, PLANS, RUNNING_OF_PROJECTS, STEPS, SUMMARIES, extras_queries,
    };
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
        let extras = extras_queries(JobId::from_uuid(Uuid::nil()));
        let hot = [
            ("claim", DUE_JOB),
            ("log", LOG),
            ("messages", ACCEPTED),
            ("updated messages", UPDATED_MESSAGES.sqlite),
            ("jobs_of_project", LIST.sqlite),
            ("jobs_of_status", LIST_OF_STATUS.sqlite),
            ("attribute", LIST_OF_ATTRIBUTE.sqlite),
            ("status and attribute", LIST_OF_STATUS_WITH_ATTRIBUTES.sqlite),
            ("properties", LIST_WITH_PROPERTIES.sqlite),
            ("summaries", SUMMARIES.sqlite),
            ("plans", PLANS.sqlite),
            ("plan before an entry", PLAN_BEFORE.sqlite),
            ("number of steps", COUNT_STEPS.sqlite),
            ("steps", STEPS.sqlite),
            ("running jobs of projects", RUNNING_OF_PROJECTS.sqlite),
            ("feed", FEED.sqlite),
            ("feed of projects", FEED_OF_PROJECTS.sqlite),
            ("poll", "SELECT id, state, diff, effort FROM jobs WHERE id = ?1"),
            ("attributes of a job", extras[0].text.sqlite),
            ("runs of a job", extras[1].text.sqlite),
            ("hold of a job", extras[3].text.sqlite),
            ("write", "UPDATE jobs SET state = ?2, diff = ?3 WHERE id = ?1"),
            ("waiting jobs", "SELECT waiting, count(*) FROM jobs WHERE waiting IS NOT NULL GROUP BY waiting"),
            ("active jobs", "SELECT count(*) FROM jobs WHERE due_at IS NOT NULL"),
            ("jobs with a status", COUNT_OF_STATUS.sqlite),
            ("jobs of a project with a status", COUNT_OF_PROJECT_AND_STATUS.sqlite),
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
        let program = program(&db, LIST.sqlite);
        let index = |name: &str| program.iter().position(|(own, _)| own == name).unwrap();
        // SQLite seeks in the table only when it needs a column that the index does not have.
        let table = program[index("DeferredSeek") + 1..].iter().find(|(name, cursor)| name == "Column" && *cursor == 0);
        assert!(table.is_some(), "{program:#?}");
        let first = program.iter().position(|(name, cursor)| name == "Column" && *cursor == 0).unwrap();
        let compared = program.iter().rposition(|(name, _)| name == "Function").unwrap();
        assert!(compared < first, "the title is compared before any other column is read: {program:#?}");
    }
}
