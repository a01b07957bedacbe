//! Migrations of the schema. A migration and its version number are one transaction, so that a killed process leaves
//! the previous schema, and the next start continues from there.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::OpenError;

/// All migrations, in order. A released migration never changes.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/sqlite/0001_start.sql"),
    include_str!("../../migrations/sqlite/0002_claims.sql"),
    include_str!("../../migrations/sqlite/0003_master_key.sql"),
    include_str!("../../migrations/sqlite/0004_jobs_by_row.sql"),
    include_str!("../../migrations/sqlite/0005_accepted_lines.sql"),
    include_str!("../../migrations/sqlite/0006_retention.sql"),
    include_str!("../../migrations/sqlite/0007_spending.sql"),
    include_str!("../../migrations/sqlite/0008_users.sql"),
    include_str!("../../migrations/sqlite/0009_holds.sql"),
    include_str!("../../migrations/sqlite/0010_titles.sql"),
    include_str!("../../migrations/sqlite/0011_answers.sql"),
    include_str!("../../migrations/sqlite/0012_branches.sql"),
    include_str!("../../migrations/sqlite/0013_versions.sql"),
    include_str!("../../migrations/sqlite/0014_outbox.sql"),
    include_str!("../../migrations/sqlite/0015_traces.sql"),
    include_str!("../../migrations/sqlite/0016_code_hosts.sql"),
    include_str!("../../migrations/sqlite/0017_inbox.sql"),
    include_str!("../../migrations/sqlite/0018_check_watches.sql"),
    include_str!("../../migrations/sqlite/0019_comments.sql"),
    include_str!("../../migrations/sqlite/0020_polls.sql"),
    include_str!("../../migrations/sqlite/0021_repository_identity.sql"),
    include_str!("../../migrations/sqlite/0022_pull_list.sql"),
    include_str!("../../migrations/sqlite/0023_poll_problems.sql"),
    include_str!("../../migrations/sqlite/0024_keys.sql"),
    include_str!("../../migrations/sqlite/0025_job_attributes.sql"),
    include_str!("../../migrations/sqlite/0026_usage.sql"),
    include_str!("../../migrations/sqlite/0027_feed.sql"),
    include_str!("../../migrations/sqlite/0028_webhooks.sql"),
    include_str!("../../migrations/sqlite/0029_deliveries.sql"),
    include_str!("../../migrations/sqlite/0030_usage_models.sql"),
    include_str!("../../migrations/sqlite/0031_updated_messages.sql"),
    include_str!("../../migrations/sqlite/0032_trusts.sql"),
    include_str!("../../migrations/sqlite/0033_slack.sql"),
    include_str!("../../migrations/sqlite/0034_slack_jobs.sql"),
    include_str!("../../migrations/sqlite/0035_diffs.sql"),
    include_str!("../../migrations/sqlite/0036_plans.sql"),
    include_str!("../../migrations/sqlite/0037_verdicts.sql"),
    include_str!("../../migrations/sqlite/0038_workers.sql"),
    include_str!("../../migrations/sqlite/0039_imports.sql"),
    include_str!("../../migrations/sqlite/0040_diffs_and_reports.sql"),
    include_str!("../../migrations/sqlite/0041_templates.sql"),
    include_str!("../../migrations/sqlite/0042_resolved_comments.sql"),
    include_str!("../../migrations/sqlite/0043_key_names.sql"),
    include_str!("../../migrations/sqlite/0044_ended_by.sql"),
];

/// The current schema version.
#[expect(clippy::cast_possible_wrap, reason = "there are a few")]
pub(crate) const SCHEMA_VERSION: i64 = MIGRATIONS.len() as i64;

pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::Database { path: path.to_owned(), source };
    let known = SCHEMA_VERSION;
    loop {
        // Taking the lock before reading the version prevents two processes that start together from migrating twice.
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let version: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
        if version > known {
            return Err(OpenError::Newer { path: path.to_owned(), found: version, known });
        }
        let next = usize::try_from(version).ok().and_then(|done| MIGRATIONS.get(done));
        let Some(migration) = next else { return Ok(()) };
        transaction.execute_batch(migration).map_err(failed)?;
        transaction.pragma_update(None, "user_version", version + 1).map_err(failed)?;
        transaction.commit().map_err(failed)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_of_existing_runs_is_added_up_whatever_providers_reported() {
        let db = Connection::open_in_memory().unwrap();
        for migration in &MIGRATIONS[..25] {
            db.execute_batch(migration).unwrap();
        }
        let run = |id: &str, usage: &str| {
            let text =
                "INSERT INTO runs (id, job, message, attempt, status, worker, started_at, finished_at, usage, commits)
                        VALUES (?1, 'job_1', 'msg_1', 1, 'succeeded', 'w', 1, 86400000001, ?2, '[]')";
            db.execute(text, [id, usage]).unwrap();
        };
        let job = "INSERT INTO jobs (id, project, status, title, created_at, state) VALUES ('job_1', 'shop', 'failed', '', 1, '{}')";
        db.execute(job, []).unwrap();
        let max = u64::MAX;
        run(
            "run_1",
            &format!(r#"{{"input_tokens":{max},"output_tokens":{max},"cached_tokens":0,"cost_micros":{max}}}"#),
        );
        run("run_2", r#"{"input_tokens":5,"output_tokens":2,"cached_tokens":0,"cost_micros":null}"#);
        run("run_3", r#"{"input_tokens":0,"output_tokens":0,"cached_tokens":0,"cost_micros":null}"#);
        run("run_4", "{}");
        db.execute_batch(MIGRATIONS[25]).unwrap();
        let text =
            "SELECT day, project, author, runs, unpriced, input_tokens, cached_tokens, cost_micros FROM usage_days";
        let found: (i64, String, String, i64, i64, i64, i64, i64) = db
            .query_row(text, [], |row| {
                let at = |place| row.get(place);
                Ok((at(0)?, row.get(1)?, row.get(2)?, at(3)?, at(4)?, at(5)?, at(6)?, at(7)?))
            })
            .unwrap();
        let limit = crate::lists::LARGEST_SUM;
        assert_eq!(found, (1, "shop".to_owned(), String::new(), 4, 1, limit, 0, limit));
    }
}
