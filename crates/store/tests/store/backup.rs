//! Backups of a database in use, and restored databases.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use journeyman_core::ids::JobId;
use journeyman_store::{
    BackupError, Exported, ExportedJob, MasterKey, MasterKeys, PostgresOpenError, PostgresStore, Schema, SqliteStore,
    VaultError, check_empty_postgres, check_sqlite, export_postgres, export_sqlite, import_postgres,
};
use journeyman_testkit::{Postgres, World};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::conformance::complete_next_job;
use super::copy::{contents, fill};
use super::fixtures::{Fixture, free, keyed, master_key, new_job, postgres_at, project, prompt, shop, sqlite};

/// Returns a PostgreSQL store with data, and its URL.
async fn populated() -> (Fixture, String) {
    let url = Postgres::shared().database();
    let fixture = postgres_at(&url).await;
    fill(&fixture).await;
    (fixture, url)
}

/// Exports the database at `url` into a new folder.
async fn export(url: &str) -> (tempfile::TempDir, Exported, Vec<ExportedJob>) {
    let (dir, mut jobs) = (tempfile::tempdir().unwrap(), Vec::new());
    let exported = export_postgres(url, dir.path(), &master_key().into(), &mut |job| jobs.push(job)).await.unwrap();
    (dir, exported, jobs)
}

async fn opened(url: &str, world: &Arc<World>) -> Fixture {
    let store = PostgresStore::open(url, 4, Schema::Check, master_key(), world.clone()).await.unwrap();
    Fixture::over("postgres", world.clone(), Arc::new(store))
}

/// Creates a job with two waiting messages.
async fn queued(fixture: &Fixture) -> JobId {
    let id = fixture.engine.create_job(&project("shop"), new_job("first"), free()).await.unwrap().record.id;
    fixture.engine.add_message(&shop(), id, prompt("second"), free()).await.unwrap();
    id
}

/// A client that sends messages without pauses.
struct Sending {
    stop: CancellationToken,
    client: JoinHandle<Vec<JobId>>,
}

impl Sending {
    fn begin(fixture: &Fixture) -> Self {
        let (engine, stop) = (fixture.engine.clone(), CancellationToken::new());
        let stopped = stop.clone();
        let client = tokio::spawn(async move {
            let mut jobs = Vec::new();
            while !stopped.is_cancelled() {
                let id = engine.create_job(&project("shop"), new_job("0"), free()).await.unwrap().record.id;
                jobs.push(id);
                for number in 1..50 {
                    engine.add_message(&shop(), id, prompt(&number.to_string()), free()).await.unwrap();
                }
            }
            jobs
        });
        Self { stop, client }
    }

    /// Stops the client, and returns the jobs that it sent to.
    async fn end(self) -> Vec<JobId> {
        self.stop.cancel();
        self.client.await.unwrap()
    }
}

/// Asserts that each job is consistent with its messages and its log.
async fn assert_consistent(fixture: &Fixture, jobs: &[JobId]) {
    for id in jobs {
        let Some(job) = fixture.store.job(*id).await.unwrap() else { continue };
        let messages = fixture.store.messages(*id).await.unwrap();
        assert_eq!(job.queue, messages.iter().map(|message| message.id).collect::<Vec<_>>());
        let prompts: Vec<usize> = messages.iter().map(|message| message.prompt.parse().unwrap()).collect();
        assert_eq!(prompts, (0..messages.len()).collect::<Vec<_>>());
        assert_eq!(job.last_seq, fixture.store.log(*id, 0, 1000).await.unwrap().last().unwrap().seq);
    }
}

/// Returns texts without the versions in them, which a restored database begins to count anew.
fn without_versions(texts: Vec<String>) -> Vec<String> {
    let cut = |text: String| {
        let mut parts = text.split("version: ");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |known, part| known + part.trim_start_matches(|digit: char| digit.is_ascii_digit()))
    };
    texts.into_iter().map(cut).collect()
}

/// Asserts that work continues in a restored database: idempotency keys are known, numbering continues, and earlier
/// leases expire.
async fn assert_usable(fixture: &Fixture) {
    fixture.world.advance(Duration::from_secs(60));
    complete_next_job(fixture).await;
    let id = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
    assert!(fixture.engine.add_message(&shop(), id, prompt("b"), keyed("0", "b")).await.unwrap().replayed);
}

#[tokio::test]
async fn a_restored_postgresql_database_is_complete_and_usable() {
    let (old, url) = populated().await;
    // Text with characters that the `COPY` format must escape.
    for text in ["\\.", "a\n\\.\nb", "tab\there, \\N, \"quoted\", ''", "Grüße 🦀\r\n"] {
        old.engine.create_job(&project("shop"), new_job(text), free()).await.unwrap();
    }
    let (dir, exported, jobs) = export(&url).await;
    assert!(jobs.len() > 4 && jobs.iter().all(|one| one.repository.as_deref() == Some("local:shop")));
    let rows = |name: &str| exported.tables.iter().find(|table| table.name == name).unwrap().rows;
    assert_eq!(rows("jobs"), jobs.len() as u64);
    assert_eq!(rows("project_secrets"), 1);
    let target = Postgres::shared().database();
    import_postgres(&target, dir.path(), &exported).await.unwrap();
    let new = opened(&target, &old.world).await;
    assert_eq!(without_versions(contents(&new).await), without_versions(contents(&old).await));
    assert_usable(&new).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_during_writes_is_consistent_and_has_all_earlier_data() {
    let (old, url) = populated().await;
    let (before, sending) = (queued(&old).await, Sending::begin(&old));
    let mut backups = Vec::new();
    for _ in 0..5 {
        backups.push(export(&url).await);
    }
    let sent = sending.end().await;
    for (dir, exported, _) in backups {
        let target = Postgres::shared().database();
        import_postgres(&target, dir.path(), &exported).await.unwrap();
        let new = opened(&target, &old.world).await;
        assert_eq!(new.store.messages(before).await.unwrap().len(), 2);
        assert_consistent(&new, &sent).await;
    }
}

#[tokio::test]
async fn a_restore_needs_an_empty_database_and_a_matching_schema() {
    let (_, url) = populated().await;
    let (dir, mut exported, _) = export(&url).await;
    let refused = import_postgres(&url, dir.path(), &exported).await;
    assert!(matches!(&refused, Err(BackupError::NotEmpty(table)) if table == "meta"), "{refused:?}");
    let refused = check_empty_postgres(&url, exported.schema_version).await;
    assert!(matches!(&refused, Err(BackupError::NotEmpty(_))), "{refused:?}");
    check_empty_postgres(&Postgres::shared().database(), exported.schema_version).await.unwrap();
    let target = Postgres::shared().database();
    PostgresStore::migrate(&target).await.unwrap();
    exported.schema_version -= 1;
    let refused = import_postgres(&target, dir.path(), &exported).await;
    assert!(matches!(refused, Err(BackupError::Ahead { .. })), "{refused:?}");
    let refused = check_empty_postgres(&target, exported.schema_version).await;
    assert!(matches!(refused, Err(BackupError::Ahead { .. })), "{refused:?}");
    exported.schema_version += 2;
    let refused = import_postgres(&Postgres::shared().database(), dir.path(), &exported).await;
    assert!(matches!(refused, Err(BackupError::Newer { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_backup_with_an_earlier_schema_is_migrated() {
    let server = Postgres::shared();
    let url = server.database();
    let database = url.rsplit('/').next().unwrap();
    // A database with schema version 4: the log contains the line of an accepted message, which migration 5 moves to
    // the messages.
    let migrations = ["0001_start", "0002_claims", "0003_master_key", "0004_jobs_by_row"];
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("migrations/postgres");
    let steps = migrations.map(|name| std::fs::read_to_string(folder.join(format!("{name}.sql"))).unwrap()).join(";\n");
    server.sql(
        database,
        &format!(
            "CREATE SCHEMA journeyman; SET search_path TO journeyman;
             CREATE TABLE migrations (number BIGINT PRIMARY KEY, needs BIGINT NOT NULL, at TIMESTAMPTZ NOT NULL DEFAULT now());
             {steps};
             INSERT INTO migrations (number, needs) SELECT number, 2 FROM generate_series(1, 4) AS number;
             INSERT INTO messages (id, job, prompt, origin, delivery, status, created_at, commits)
                 VALUES ('msg_1', 'job_1', 'x', 'api', 'queue', 'queued', 1, '[]');
             INSERT INTO log (job, seq, type, at, data)
                 VALUES ('job_1', 7, 'message.accepted', 1, '{{\"messageId\": \"msg_1\"}}')"
        ),
    );
    let (dir, exported, _) = export(&url).await;
    assert_eq!(exported.schema_version, 4);
    let target = server.database();
    import_postgres(&target, dir.path(), &exported).await.unwrap();
    let target = target.rsplit('/').next().unwrap();
    assert_eq!(server.sql(target, "SELECT seq FROM journeyman.messages"), "7");
    assert_eq!(server.sql(target, "SELECT count(*) FROM journeyman.log"), "0");
}

#[tokio::test]
async fn a_truncated_file_restores_nothing() {
    let (_, url) = populated().await;
    let (dir, exported, _) = export(&url).await;
    let path = dir.path().join("messages.copy");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.split_inclusive('\n').skip(1).collect::<String>()).unwrap();
    let target = Postgres::shared().database();
    let refused = import_postgres(&target, dir.path(), &exported).await;
    assert!(matches!(&refused, Err(BackupError::Rows { table, .. }) if table == "messages"), "{refused:?}");
    let target = target.rsplit('/').next().unwrap();
    assert_eq!(Postgres::shared().sql(target, "SELECT count(*) FROM journeyman.jobs"), "0");
}

#[tokio::test]
async fn a_backup_with_another_master_key_is_refused() {
    let (dir, other) = (tempfile::tempdir().unwrap(), MasterKeys::from(MasterKey::new([1; 32])));
    let (_, url) = populated().await;
    let refused = export_postgres(&url, dir.path(), &other, &mut drop).await;
    assert!(matches!(refused, Err(BackupError::Key(VaultError::OtherKey))), "{refused:?}");
    let fixture = sqlite().await;
    let from = fixture.dir.as_ref().unwrap().path().join("journeyman.db");
    let refused = export_sqlite(&from, &dir.path().join("copy"), &other, &mut drop);
    assert!(matches!(refused, Err(BackupError::Key(VaultError::OtherKey))), "{refused:?}");
}

#[tokio::test]
async fn a_backup_needs_a_schema_and_a_reachable_server() {
    let dir = tempfile::tempdir().unwrap();
    let refused = export_postgres(&Postgres::shared().database(), dir.path(), &master_key().into(), &mut drop).await;
    assert!(matches!(refused, Err(BackupError::Unused(_))), "{refused:?}");
    let refused =
        export_postgres("postgres://u:s3cret@127.0.0.1:1/d", dir.path(), &master_key().into(), &mut drop).await;
    assert!(matches!(&refused, Err(BackupError::Postgres(PostgresOpenError::Database(_)))), "{refused:?}");
    assert!(!refused.unwrap_err().to_string().contains("s3cret"));
    let refused = export_sqlite(&dir.path().join("none.db"), &dir.path().join("copy"), &master_key().into(), &mut drop);
    assert!(matches!(refused, Err(BackupError::Unused(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_is_copied_during_writes_and_the_copy_is_usable() {
    let old = sqlite().await;
    fill(&old).await;
    let (before, sending) = (queued(&old).await, Sending::begin(&old));
    let (dir, mut jobs) = (tempfile::tempdir().unwrap(), Vec::<JobId>::new());
    // A name that must be escaped in a URL.
    let copy = dir.path().join("a ?#% copy.db");
    let from = old.dir.as_ref().unwrap().path().join("journeyman.db");
    let exported = export_sqlite(&from, &copy, &master_key().into(), &mut |one| jobs.push(one.job.id)).unwrap();
    let sent = sending.end().await;
    assert!(jobs.contains(&before) && exported.tables.is_empty());
    assert_eq!(check_sqlite(&copy).unwrap(), exported.schema_version);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "the check creates no other file");
    let store = SqliteStore::open(&copy, master_key(), old.world.clone()).unwrap();
    let new = Fixture::over("sqlite", old.world.clone(), Arc::new(store));
    assert_eq!(new.store.messages(before).await.unwrap().len(), 2);
    assert_consistent(&new, &sent).await;
    assert_usable(&new).await;
}

#[tokio::test]
async fn a_damaged_sqlite_copy_is_detected() {
    let old = sqlite().await;
    fill(&old).await;
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("copy.db");
    let from = old.dir.as_ref().unwrap().path().join("journeyman.db");
    export_sqlite(&from, &copy, &master_key().into(), &mut drop).unwrap();
    let mut bytes = std::fs::read(&copy).unwrap();
    let middle = bytes.len() / 2;
    for byte in &mut bytes[middle..middle + 4096] {
        *byte ^= 0xff;
    }
    std::fs::write(&copy, bytes).unwrap();
    let found = check_sqlite(&copy);
    assert!(matches!(found, Err(BackupError::Damaged(..) | BackupError::Sqlite(..))), "{found:?}");
    std::fs::write(&copy, "no database").unwrap();
    assert!(matches!(check_sqlite(&copy), Err(BackupError::Sqlite(..))));
}
