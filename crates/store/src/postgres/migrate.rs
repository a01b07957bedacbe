//! Migrations of the schema, and the check whether this program is compatible with an existing schema.
//!
//! Machines are upgraded one after the other, so a program may encounter a schema that is newer than it knows. Each
//! migration states the oldest program that it needs. A migration that only adds something ("expand") keeps that
//! number, and older programs continue to run. A migration that removes something that older programs use ("contract")
//! raises the number, and is released after these programs are no longer in use.
//!
//! Older programs serve requests meanwhile, so a migration must not block them: one that changes a table gives up
//! waiting for its lock soon, and tries again later; one that creates an index on a large table runs without a
//! transaction (`docs/decisions/0052-migrations-under-load.md`). A new database gets the current schema in one
//! transaction instead.

use std::time::{Duration, Instant};

use tokio_postgres::Client;
use tokio_util::task::AbortOnDropHandle;

use super::OpenError;
use super::connect::Connector;
use super::error::PgError;

/// A migration of the schema.
pub(super) struct Migration {
    /// The statements, which run in one transaction unless the first line is [`NO_TRANSACTION`].
    pub(super) sql: &'static str,
    /// The oldest program that can use the migrated schema, as the number of migrations that the program knows.
    pub(super) needs: i64,
}

/// All migrations, in order. A released migration never changes.
pub(super) const MIGRATIONS: &[Migration] = &[
    Migration { sql: include_str!("../../migrations/postgres/0001_start.sql"), needs: 1 },
    Migration { sql: include_str!("../../migrations/postgres/0002_claims.sql"), needs: 2 },
    Migration { sql: include_str!("../../migrations/postgres/0003_master_key.sql"), needs: 2 },
    Migration { sql: include_str!("../../migrations/postgres/0004_jobs_by_row.sql"), needs: 2 },
    Migration { sql: include_str!("../../migrations/postgres/0005_accepted_lines.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0006_retention.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0007_spending.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0008_users.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0009_holds.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0010_titles.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0011_answers.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0012_branches.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0013_versions.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0014_outbox.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0015_traces.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0016_code_hosts.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0017_inbox.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0018_check_watches.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0019_comments.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0020_polls.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0021_repository_identity.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0022_pull_list.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0023_poll_problems.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0024_keys.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0025_job_attributes.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0026_usage.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0027_feed.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0028_webhooks.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0029_deliveries.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0030_usage_models.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0031_updated_messages.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0032_trusts.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0033_slack.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0034_slack_jobs.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0035_diffs.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0036_plans.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0037_verdicts.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0038_workers.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0039_imports.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0040_diffs_and_reports.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0041_templates.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0042_resolved_comments.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0043_key_names.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0044_ended_by.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0045_reservations.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0046_base_comparisons.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0047_effort.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0048_retired_secrets.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0050_proofs.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0051_second_factors.sql"), needs: 5 },
    Migration { sql: include_str!("../../migrations/postgres/0052_passkeys.sql"), needs: 5 },
];

/// The first line of a migration whose statements run one after the other, outside of a transaction, as
/// `CREATE INDEX CONCURRENTLY` must. If such a migration is interrupted, the next process runs all of its statements
/// again. Therefore, it first drops the index that it creates, which may exist and be invalid. Each statement ends with
/// the line.
const NO_TRANSACTION: &str = "-- no transaction\n";

/// Limits how long a migration waits for the locks of other transactions. Requests that need the same table wait behind
/// the migration.
#[derive(Debug, Clone, Copy)]
struct LockLimits {
    /// The maximum time that a statement waits.
    wait: Duration,
    /// The pause before the next attempt, in which the requests that have waited continue.
    pause: Duration,
    /// The number of attempts.
    attempts: u32,
}

/// The wait is shorter than the time after which requests give up (`lock_timeout` in [`super::connect::SET_UP`]). All
/// attempts take about as long as the longest transaction of a process: the deletion of a large project.
const LOCK_LIMITS: LockLimits =
    LockLimits { wait: Duration::from_secs(2), pause: Duration::from_secs(3), attempts: 120 };

/// The settings of the connection. Another process may be migrating, and the migration of a large table takes time. The
/// creation of an index blocks no request, so it may wait.
const NO_TIMEOUTS: &str = "SET statement_timeout = 0; SET lock_timeout = 0";

/// Takes the lock for migrations, so that processes that start together do not migrate twice.
const LOCK: &str = "SELECT pg_try_advisory_lock(hashtextextended('journeyman/migrate', 0)) AS taken";

/// The interval between two attempts to take the lock for migrations.
const LOCK_POLL: Duration = Duration::from_millis(200);

/// Creates what migrations need.
const BASE: &str = "
    CREATE SCHEMA IF NOT EXISTS journeyman;
    CREATE TABLE IF NOT EXISTS journeyman.migrations (
        number BIGINT PRIMARY KEY,
        needs  BIGINT NOT NULL,
        at     TIMESTAMPTZ NOT NULL DEFAULT now()
    );
    SET search_path TO journeyman";

/// The schema that all migrations together make. `make schema` writes the file.
const SCHEMA: &str = include_str!("../../migrations/postgres/schema.sql");

/// Returns the current schema version.
pub(super) fn known() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// Applies the missing migrations, up to number `only_to` if it is given, and returns how many it applied.
pub(super) async fn migrate(connector: &Connector, only_to: Option<i64>) -> Result<usize, OpenError> {
    migrate_within(connector, only_to, LOCK_LIMITS).await
}

async fn migrate_within(connector: &Connector, only_to: Option<i64>, limits: LockLimits) -> Result<usize, OpenError> {
    // A separate connection. Closing it releases the lock.
    let (client, connection) = connector.config.connect(connector.tls.clone()).await.map_err(PgError::from)?;
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    client.batch_execute(NO_TIMEOUTS).await.map_err(PgError::from)?;
    lock(&client).await?;
    client.batch_execute(BASE).await.map_err(PgError::from)?;
    run(&client, only_to, limits).await
}

/// Waits for the lock for migrations. A statement that waits in the server has a snapshot, and the process that holds
/// the lock waits for the end of all snapshots if it creates an index: they would wait for each other.
async fn lock(client: &Client) -> Result<(), PgError> {
    let mut waits = false;
    while !client.query_one(LOCK, &[]).await?.try_get::<_, bool>("taken")? {
        if !waits {
            tracing::info!("another process updates the schema of the database; this process waits until it is done");
        }
        waits = true;
        tokio::time::sleep(LOCK_POLL).await;
    }
    Ok(())
}

async fn run(client: &Client, only_to: Option<i64>, limits: LockLimits) -> Result<usize, OpenError> {
    let mut made = 0;
    let last = only_to.unwrap_or_else(known);
    let before = newest(client).await?;
    if let (Some(only_to), Some((found, needs))) = (only_to, before)
        && found > only_to
    {
        return Err(OpenError::Newer { found, needs, known: only_to });
    }
    if before.is_none() && only_to.is_none() {
        create(client).await.map_err(PgError::from)?;
        return Ok(MIGRATIONS.len());
    }
    let done = before.map_or(0, |(number, _)| number);
    for (number, migration) in (1..=last).zip(MIGRATIONS).filter(|(number, _)| *number > done) {
        apply(client, number, migration, limits).await?;
        made += 1;
    }
    if only_to.is_none() {
        check(client).await?;
    }
    Ok(made)
}

/// Creates the current schema in a new database.
async fn create(client: &Client) -> Result<(), tokio_postgres::Error> {
    let rows: Vec<String> =
        (1..).zip(MIGRATIONS).map(|(number, migration)| format!("({number}, {})", migration.needs)).collect();
    let notes = rows.join(", ");
    // Functions come before the tables that they name.
    let begin = "BEGIN; SET LOCAL check_function_bodies = off";
    client
        .batch_execute(&format!("{begin}; {SCHEMA}; INSERT INTO migrations (number, needs) VALUES {notes}; COMMIT"))
        .await
}

/// Applies a migration, in several attempts if other transactions hold the locks that it needs.
async fn apply(client: &Client, number: i64, migration: &Migration, limits: LockLimits) -> Result<(), OpenError> {
    let begun = Instant::now();
    for attempt in 1..=limits.attempts {
        match attempt_to_apply(client, number, migration, limits.wait).await {
            Err(error) if error.is_locked() => {}
            done => return Ok(done?),
        }
        client.batch_execute("ROLLBACK").await.map_err(PgError::from)?;
        if attempt == 1 {
            tracing::warn!(number, "a migration waits for transactions of other processes");
        }
        tokio::time::sleep(limits.pause).await;
    }
    Err(OpenError::Locked { number, waited: begun.elapsed() })
}

async fn attempt_to_apply(client: &Client, number: i64, migration: &Migration, wait: Duration) -> Result<(), PgError> {
    let note = format!("INSERT INTO migrations (number, needs) VALUES ({number}, {})", migration.needs);
    let Some(statements) = separate_statements(migration.sql) else {
        // One transaction, so that a killed process leaves the previous schema.
        let (wait, sql) = (wait.as_millis(), migration.sql);
        let text = format!("BEGIN; SET LOCAL lock_timeout = {wait}; {sql}; {note}; COMMIT");
        return Ok(client.batch_execute(&text).await?);
    };
    for statement in statements {
        client.batch_execute(statement).await?;
    }
    Ok(client.batch_execute(&note).await?)
}

/// Returns the statements of a migration that runs without a transaction; `None` for other migrations.
fn separate_statements(sql: &str) -> Option<impl Iterator<Item = &str>> {
    let statements = sql.strip_prefix(NO_TRANSACTION)?;
    Some(statements.split(";\n").filter(|statement| !statement.trim().is_empty()))
}

/// Checks that this program can use the schema.
pub(super) async fn check(client: &Client) -> Result<(), OpenError> {
    let known = known();
    match newest(client).await? {
        Some((found, needs)) if needs > known => Err(OpenError::Newer { found, needs, known }),
        Some((found, _)) if found >= known => Ok(()),
        older => Err(OpenError::Older { found: older.map_or(0, |(found, _)| found), known }),
    }
}

/// Returns the number of the last applied migration and the program version that the schema needs; `None` without a
/// schema.
pub(crate) async fn newest(client: &Client) -> Result<Option<(i64, i64)>, PgError> {
    let exists = "SELECT to_regclass('journeyman.migrations') IS NOT NULL AS there";
    if !client.query_one(exists, &[]).await?.try_get::<_, bool>("there")? {
        return Ok(None);
    }
    let text = "SELECT max(number) AS number, max(needs) AS needs FROM journeyman.migrations";
    let row = client.query_one(text, &[]).await?;
    let number: Option<i64> = row.try_get("number")?;
    let needs: Option<i64> = row.try_get("needs")?;
    Ok(number.zip(needs))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use journeyman_testkit::{Postgres, until_async};
    use tokio_postgres::NoTls;

    use super::*;

    /// Returns a database with the schema after a number of migrations, as a connection of an older process sees it.
    async fn database(version: i64) -> (Connector, Client, String) {
        let url = Postgres::shared().database();
        let connector = Connector::new(&url).unwrap();
        migrate(&connector, Some(version)).await.unwrap();
        let client = connect(&url).await;
        (connector, client, url)
    }

    /// Connects to a database, with a time limit for locks that only a hang reaches.
    async fn connect(url: &str) -> Client {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute("SET search_path TO journeyman; SET lock_timeout = '60s'").await.unwrap();
        client
    }

    /// Returns whether the index of plans is valid, and its definition.
    async fn index_of_plans(client: &Client) -> (bool, String) {
        let text =
            "SELECT indisvalid, pg_get_indexdef(indexrelid) FROM pg_index WHERE indexrelid = 'log_plans'::regclass";
        let row = client.query_one(text, &[]).await.unwrap();
        (row.get(0), row.get(1))
    }

    /// Returns the schema and the data of a database, as pg_dump writes them.
    fn dump(url: &str) -> String {
        let dump = Postgres::shared().dump(url.rsplit('/').next().unwrap(), &["--inserts"]);
        // Each dump has another token, and each row of migrations its own time.
        let lines = dump.lines().filter(|line| !line.starts_with('\\'));
        lines.map(|line| line.split(", '20").next().unwrap_or(line)).collect::<Vec<_>>().join("\n")
    }

    #[tokio::test]
    async fn a_new_database_has_the_schema_that_all_migrations_make() {
        let (_, _, migrated) = database(known()).await;
        let new = Postgres::shared().database();
        assert_eq!(migrate(&Connector::new(&new).unwrap(), None).await.unwrap(), MIGRATIONS.len());
        let (new, migrated) = (dump(&new), dump(&migrated));
        assert!(migrated.contains("CREATE TABLE journeyman.jobs"), "{migrated}");
        assert!(new == migrated, "run make schema: {}", differing_lines(&new, &migrated));
    }

    /// Returns the lines that only one of two texts has.
    fn differing_lines(left: &str, right: &str) -> String {
        let only = |one: &str, other: &str, sign: char| -> String {
            one.lines().filter(|line| !other.contains(line)).map(|line| format!("{sign} {line}\n")).collect()
        };
        only(left, right, '-') + &only(right, left, '+')
    }

    #[tokio::test]
    #[ignore = "writes the file of the schema: make schema"]
    async fn write_schema() {
        let (_, _, url) = database(known()).await;
        let options = ["--schema-only", "--no-owner", "--no-privileges", "--exclude-table=journeyman.migrations"];
        let dump = Postgres::shared().dump(url.rsplit('/').next().unwrap(), &options);
        // Settings of the session, comments, and the schema itself, which `BASE` creates.
        let left_out = ["SET ", "SELECT pg_catalog.", "--", "\\", "CREATE SCHEMA"];
        let mut schema = String::new();
        for line in dump.lines().filter(|line| !left_out.iter().any(|start| line.starts_with(start))) {
            if !(line.is_empty() && schema.ends_with("\n\n")) {
                schema.push_str(line);
                schema.push('\n');
            }
        }
        let head = "-- The schema that all migrations together make, for new databases. Written by: make schema\n\n";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/postgres/schema.sql");
        std::fs::write(path, format!("{head}{}\n", schema.trim())).unwrap();
    }

    #[test]
    fn a_migration_without_a_transaction_can_be_repeated() {
        for (number, migration) in (1..).zip(MIGRATIONS) {
            let Some(statements) = separate_statements(migration.sql) else {
                assert!(!migration.sql.contains("CONCURRENTLY"), "{number}: needs the line {NO_TRANSACTION:?}");
                continue;
            };
            let mut dropped = Vec::new();
            for statement in statements {
                let lines: Vec<&str> = statement.lines().filter(|line| !line.starts_with("--")).collect();
                let text = lines.join(" ");
                let words: Vec<&str> = text.split_whitespace().collect();
                match words.as_slice() {
                    ["DROP", "INDEX", "CONCURRENTLY", "IF", "EXISTS", name] => dropped.push((*name).to_owned()),
                    ["CREATE", "INDEX", "CONCURRENTLY", name, ..] => {
                        assert!(dropped.iter().any(|known| known == name), "{number}: {name} is not dropped first");
                    }
                    _ => panic!("{number}: can this be repeated? {statement}"),
                }
            }
        }
    }

    #[tokio::test]
    async fn a_migration_that_does_not_get_its_locks_is_not_applied() {
        let (connector, reader, _) = database(39).await;
        reader.batch_execute("BEGIN; SELECT id FROM jobs").await.unwrap();
        let limits = LockLimits { wait: Duration::from_millis(50), pause: Duration::from_millis(10), attempts: 2 };
        let error = migrate_within(&connector, Some(40), limits).await.unwrap_err();
        assert!(matches!(error, OpenError::Locked { number: 40, .. }), "{error}");
        assert!(error.to_string().contains("pg_stat_activity"), "{error}");
        reader.batch_execute("COMMIT").await.unwrap();
        assert_eq!(newest(&reader).await.unwrap(), Some((39, 5)));
        assert_eq!(migrate(&connector, Some(40)).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn requests_continue_while_a_migration_waits_for_a_long_transaction() {
        let (connector, long, url) = database(39).await;
        long.batch_execute("BEGIN; SELECT id FROM jobs").await.unwrap();
        let limits = LockLimits { wait: Duration::from_millis(200), pause: Duration::from_millis(50), attempts: 1000 };
        let migrating = tokio::spawn(async move { migrate_within(&connector, Some(40), limits).await });
        let request = connect(&url).await;
        // The migration rolls back each attempt that did not get its locks.
        let attempt = "SELECT query_start::text FROM pg_stat_activity
                           WHERE datname = current_database() AND query = 'ROLLBACK'";
        let (mut requests, mut attempts) = (0, BTreeSet::new());
        until_async("20 requests during three attempts of the migration", async || {
            request.batch_execute("SELECT id FROM jobs").await.unwrap();
            requests += 1;
            attempts.extend(request.query(attempt, &[]).await.unwrap().iter().map(|row| row.get::<_, String>(0)));
            assert!(!migrating.is_finished());
            (requests >= 20 && attempts.len() >= 3).then_some(())
        })
        .await;
        long.batch_execute("COMMIT").await.unwrap();
        assert_eq!(migrating.await.unwrap().unwrap(), 1);
    }

    #[tokio::test]
    async fn an_index_is_created_while_other_processes_write_and_start() {
        let (connector, writer, url) = database(35).await;
        let entry = |seq: u32| {
            format!("INSERT INTO log (job, seq, type, at, data) VALUES ('job_1', {seq}, 'agent.plan', 1, '{{}}')")
        };
        writer.batch_execute(&format!("BEGIN; {}", entry(1))).await.unwrap();
        let mut starting = tokio::task::JoinSet::new();
        for connector in [connector.clone(), connector] {
            starting.spawn(async move { migrate(&connector, Some(36)).await });
        }
        let other = connect(&url).await;
        let waits = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
                         AND query LIKE 'CREATE INDEX CONCURRENTLY%'";
        until_async("the creation of the index waits for the transaction", async || {
            (!other.query(waits, &[]).await.unwrap().is_empty()).then_some(())
        })
        .await;
        other.batch_execute(&entry(2)).await.unwrap();
        writer.batch_execute("COMMIT").await.unwrap();
        let made: Vec<usize> = starting.join_all().await.into_iter().map(Result::unwrap).collect();
        assert_eq!(made.iter().sum::<usize>(), 1, "{made:?}");
        assert!(index_of_plans(&other).await.0);
    }

    #[tokio::test]
    async fn an_index_that_an_interrupted_migration_has_left_is_created_again() {
        let (connector, client, _) = database(35).await;
        // An interruption leaves an invalid index. That it has another definition shows that it is replaced.
        client.batch_execute("CREATE INDEX log_plans ON log (seq)").await.unwrap();
        let invalid = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'log_plans'::regclass";
        client.batch_execute(invalid).await.unwrap();
        assert_eq!(migrate(&connector, Some(36)).await.unwrap(), 1);
        let (is_valid, definition) = index_of_plans(&client).await;
        assert!(is_valid && definition.contains("(job, seq)"), "{definition}");
    }

    #[tokio::test]
    async fn the_usage_of_existing_runs_is_added_up_whatever_providers_reported() {
        let server = Postgres::shared();
        let url = server.database();
        let database = url.rsplit('/').next().unwrap();
        let sql = |text: &str| server.sql(database, &format!("SET search_path TO journeyman;\n{text}"));
        server.sql(database, "CREATE SCHEMA journeyman");
        for migration in &MIGRATIONS[..25] {
            sql(migration.sql);
        }
        sql("INSERT INTO jobs (id, project, status, title, created_at, state)
             VALUES ('job_1', 'shop', 'failed', '', 1, '{}')");
        let max = u64::MAX;
        let large = format!(r#"{{"input_tokens":{max},"output_tokens":{max},"cached_tokens":0,"cost_micros":{max}}}"#);
        let plain = r#"{"input_tokens":5,"output_tokens":2,"cached_tokens":0,"cost_micros":null}"#;
        let none = r#"{"input_tokens":0,"output_tokens":0,"cached_tokens":0,"cost_micros":null}"#;
        for (number, usage) in [large.as_str(), plain, none, "{}"].into_iter().enumerate() {
            sql(&format!(
                "INSERT INTO runs (id, job, message, attempt, status, worker, started_at, finished_at, usage, commits)
                 VALUES ('run_{number}', 'job_1', 'msg_1', 1, 'succeeded', 'w', 1, 86400000001, '{usage}', '[]')"
            ));
        }
        sql(MIGRATIONS[25].sql);
        let found =
            sql("SELECT concat_ws(' ', day, project, author, runs, unpriced, input_tokens, cached_tokens, cost_micros)
                         FROM usage_days");
        let limit = crate::lists::LARGEST_SUM;
        assert_eq!(found, format!("1 shop  4 1 {limit} 0 {limit}"));
    }
}
