//! Migrations of the schema, and the check whether this program is compatible with an existing schema.
//!
//! Machines are upgraded one after the other, so a program may encounter a schema that is newer than it knows. Each
//! migration states the oldest program that it needs. A migration that only adds something ("expand") keeps that
//! number, and older programs continue to run. A migration that removes something that older programs use ("contract")
//! raises the number, and is released after these programs are no longer in use.

use tokio_postgres::Client;
use tokio_util::task::AbortOnDropHandle;

use super::OpenError;
use super::connect::Connector;
use super::error::PgError;

/// A migration of the schema.
pub(super) struct Migration {
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
    Migration { sql: include_str!("../../migrations/postgres/0040_job_diffs.sql"), needs: 5 },
];

/// Takes the lock for migrations, so that processes that start together do not migrate twice.
const LOCK: &str = "SELECT pg_advisory_lock(hashtextextended('journeyman/migrate', 0))";

const SCHEMA: &str = "
    CREATE SCHEMA IF NOT EXISTS journeyman;
    CREATE TABLE IF NOT EXISTS journeyman.migrations (
        number BIGINT PRIMARY KEY,
        needs  BIGINT NOT NULL,
        at     TIMESTAMPTZ NOT NULL DEFAULT now()
    );
    SET search_path TO journeyman";

/// Returns the current schema version.
pub(super) fn known() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// Applies the missing migrations, up to number `only_to` if it is given, and returns how many it applied.
pub(super) async fn migrate(connector: &Connector, only_to: Option<i64>) -> Result<usize, OpenError> {
    // A separate connection without statement timeouts: another process may be migrating, and the migration of a large
    // table takes time. Closing the connection releases the lock.
    let (client, connection) = connector.config.connect(connector.tls.clone()).await.map_err(PgError::from)?;
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    client.batch_execute(LOCK).await.map_err(PgError::from)?;
    client.batch_execute(SCHEMA).await.map_err(PgError::from)?;
    run(&client, only_to).await
}

async fn run(client: &Client, only_to: Option<i64>) -> Result<usize, OpenError> {
    let mut made = 0;
    let last = only_to.unwrap_or_else(known);
    if let (Some(only_to), Some((found, needs))) = (only_to, newest(client).await?)
        && found > only_to
    {
        return Err(OpenError::Newer { found, needs, known: only_to });
    }
    for (number, migration) in (1..=last).zip(MIGRATIONS) {
        if newest(client).await?.is_some_and(|(newest, _)| newest >= number) {
            continue;
        }
        // One transaction, so that a killed process leaves the previous schema.
        let note = format!("INSERT INTO migrations (number, needs) VALUES ({number}, {})", migration.needs);
        let text = format!("BEGIN; {}; {note}; COMMIT", migration.sql);
        client.batch_execute(&text).await.map_err(PgError::from)?;
        made += 1;
    }
    if only_to.is_none() {
        check(client).await?;
    }
    Ok(made)
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
    use journeyman_testkit::Postgres;

    use super::*;

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
