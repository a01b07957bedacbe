//! Migrations of the schema. A migration and its version number are one transaction, so that a killed process leaves
//! the previous schema, and the next start continues from there. A new database gets the current schema in one
//! transaction instead, which takes one sync.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::error::OpenError;

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
    include_str!("../../migrations/sqlite/0045_reservations.sql"),
    include_str!("../../migrations/sqlite/0046_base_comparisons.sql"),
    include_str!("../../migrations/sqlite/0047_effort.sql"),
    include_str!("../../migrations/sqlite/0048_retired_secrets.sql"),
    include_str!("../../migrations/sqlite/0050_proofs.sql"),
    include_str!("../../migrations/sqlite/0051_second_factors.sql"),
    include_str!("../../migrations/sqlite/0052_passkeys.sql"),
];

/// The schema that all migrations together make. `make schema` writes the file.
const SCHEMA: &str = include_str!("../../migrations/sqlite/schema.sql");

/// The current schema version.
#[expect(clippy::cast_possible_wrap, reason = "there are a few")]
pub(crate) const SCHEMA_VERSION: i64 = MIGRATIONS.len() as i64;

pub(crate) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), OpenError> {
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
        let (sql, reached) = if version == 0 { (SCHEMA, known) } else { (*migration, version + 1) };
        transaction.execute_batch(sql).map_err(failed)?;
        transaction.pragma_update(None, "user_version", reached).map_err(failed)?;
        transaction.commit().map_err(failed)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the kind, name, table and SQL of everything in a schema.
    fn objects(db: &Connection) -> Vec<[Option<String>; 4]> {
        let text = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name";
        let mut select = db.prepare(text).unwrap();
        let rows = select.query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?])).unwrap();
        rows.map(Result::unwrap).collect()
    }

    /// Returns a database to which all migrations were applied.
    fn migrated() -> Connection {
        let db = Connection::open_in_memory().unwrap();
        for migration in MIGRATIONS {
            db.execute_batch(migration).unwrap();
        }
        db
    }

    #[test]
    fn a_new_database_has_the_schema_that_all_migrations_make() {
        let mut new = Connection::open_in_memory().unwrap();
        migrate(&mut new, Path::new(":memory:")).unwrap();
        let (new_objects, migrated_objects) = (objects(&new), objects(&migrated()));
        assert!(new_objects == migrated_objects, "run make schema: {new_objects:#?} {migrated_objects:#?}");
        let version: i64 = new.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        assert_eq!(version, SCHEMA_VERSION);
        for [kind, name, ..] in new_objects {
            if kind.as_deref() == Some("table") {
                let text = format!("SELECT count(*) FROM {}", name.unwrap());
                assert_eq!(migrated().query_row(&text, [], |row| row.get::<_, i64>(0)).unwrap(), 0, "{text}");
            }
        }
    }

    #[test]
    fn a_database_of_any_earlier_version_is_migrated() {
        let expected = objects(&migrated());
        for version in [1, 20, MIGRATIONS.len() - 1, MIGRATIONS.len()] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("journeyman.db");
            let mut db = Connection::open(&path).unwrap();
            db.pragma_update(None, "journal_mode", "WAL").unwrap();
            db.pragma_update(None, "foreign_keys", true).unwrap();
            for migration in &MIGRATIONS[..version] {
                db.execute_batch(migration).unwrap();
            }
            db.pragma_update(None, "user_version", i64::try_from(version).unwrap()).unwrap();
            migrate(&mut db, &path).unwrap();
            assert!(objects(&db) == expected, "from version {version}");
            let reached: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
            assert_eq!(reached, SCHEMA_VERSION, "from version {version}");
        }
    }

    #[test]
    #[ignore = "writes the file of the schema: make schema"]
    fn write_schema() {
        let db = migrated();
        // SQLite makes the indexes and tables without SQL, and those whose names begin with sqlite_, itself.
        let text = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid";
        let mut select = db.prepare(text).unwrap();
        let statements = select.query_map([], |row| row.get::<_, String>(0)).unwrap();
        let schema: String = statements.map(|statement| format!("{};\n\n", statement.unwrap())).collect();
        let head = "-- The schema that all migrations together make, for new databases. Written by: make schema\n\n";
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/sqlite/schema.sql");
        std::fs::write(path, format!("{head}{}\n", schema.trim_end())).unwrap();
    }

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
                let at = |index| row.get(index);
                Ok((at(0)?, row.get(1)?, row.get(2)?, at(3)?, at(4)?, at(5)?, at(6)?, at(7)?))
            })
            .unwrap();
        let limit = crate::lists::LARGEST_SUM;
        assert_eq!(found, (1, "shop".to_owned(), String::new(), 4, 1, limit, 0, limit));
    }
}
