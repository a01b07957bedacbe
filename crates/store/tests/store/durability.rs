//! Tests of properties that only SQLite has: durability, schema versions, disk space, and clear errors.

use std::sync::Arc;
use std::time::Duration;

use journeyman_core::engine::Engine;
use journeyman_core::job::command::Report;
use journeyman_core::job::event::{TranscriptEntry, TranscriptKind};
use journeyman_core::message::Message;
use journeyman_core::ports::{JobStore, Retention, Store, StoreError, UpdateError};
use journeyman_core::secret::SecretValue;
use journeyman_core::time::Clock;
use journeyman_store::{MasterKey, OpenError, SqliteStore, VaultError};
use journeyman_testkit::{Seeds as _, World, within};
use rusqlite::Connection;

use super::fixtures::{Fixture, free, master_key, new_job, project, prompt, shop, sqlite, worker};

#[tokio::test]
async fn accepted_jobs_are_visible_to_another_store_on_the_same_file() {
    let fixture = sqlite().await;
    let path = fixture.dir.as_ref().unwrap().path().join("journeyman.db");
    let id = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
    let other = SqliteStore::open(&path, master_key(), World::new()).unwrap();
    assert_eq!(other.job(id).await.unwrap(), fixture.store.job(id).await.unwrap());
    other.ready().await.unwrap();
}

#[tokio::test]
async fn many_requests_share_transactions() {
    let fixture = Arc::new(sqlite().await);
    let id = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
    let mut sent = tokio::task::JoinSet::new();
    for number in 0..90 {
        let fixture = Arc::clone(&fixture);
        sent.spawn(async move {
            fixture.engine.add_message(&shop(), id, prompt(&number.to_string()), free()).await.unwrap()
        });
    }
    sent.join_all().await;
    let log = fixture.store.log(id, 0, 1000).await.unwrap();
    assert_eq!(log.iter().map(|entry| entry.seq).collect::<Vec<_>>(), (1..=92).collect::<Vec<u64>>());
    assert_eq!(fixture.store.messages(id).await.unwrap().len(), 91);
}

#[test]
fn a_newer_schema_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journeyman.db");
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 999).unwrap();
    let error = SqliteStore::open(&path, master_key(), World::new()).err().unwrap();
    assert!(matches!(error, OpenError::Newer { found: 999, .. }), "{error}");
    assert!(error.to_string().contains("newer Journeyman"), "{error}");
}

#[test]
fn a_file_that_is_not_a_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journeyman.db");
    std::fs::write(&path, "this is a text file, and longer than the header of a database would be").unwrap();
    let error = SqliteStore::open(&path, master_key(), World::new()).err().unwrap();
    assert!(error.to_string().contains("journeyman.db"), "{error}");
}

#[tokio::test]
async fn an_unreadable_row_is_named() {
    let fixture = sqlite().await;
    let id = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
    let path = fixture.dir.as_ref().unwrap().path().join("journeyman.db");
    let db = Connection::open(path).unwrap();
    db.execute("UPDATE messages SET status = 'dreaming'", []).unwrap();
    db.execute("UPDATE jobs SET state = '{}'", []).unwrap();
    let Err(StoreError::Corrupt { table: "messages", detail, .. }) = fixture.store.messages(id).await else {
        panic!("an unknown status was read");
    };
    assert!(detail.contains("dreaming"), "{detail}");
    // The store that wrote the job still has it in its cache, so another store reads it.
    let path = fixture.dir.as_ref().unwrap().path().join("journeyman.db");
    let other = SqliteStore::open(&path, master_key(), World::new()).unwrap();
    let Err(StoreError::Corrupt { table: "jobs", row, .. }) = other.job(id).await else {
        panic!("an unreadable job was read");
    };
    assert_eq!(row, id.to_string());
}

#[tokio::test]
async fn secrets_are_encrypted_in_the_files_and_another_key_is_refused() {
    let fixture = sqlite().await;
    let secrets = [("TOKEN".to_owned(), Some(SecretValue("s3cr3t-v4lue".to_owned())))].into();
    fixture.store.update_project(project("shop"), secrets).await.unwrap();
    let dir = fixture.dir.as_ref().unwrap().path();
    for file in std::fs::read_dir(dir).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(12).any(|window| window == b"s3cr3t-v4lue"));
    }
    let other = SqliteStore::open(&dir.join("journeyman.db"), MasterKey::new([1; 32]), World::new());
    assert!(matches!(other, Err(OpenError::Key(VaultError::OtherKey))));
}

#[tokio::test]
async fn a_full_disk_is_an_error_and_leaves_no_partial_write() {
    let fixture = sqlite().await;
    let id = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
    let path = fixture.dir.as_ref().unwrap().path().join("journeyman.db");
    // A failing trigger simulates a disk that is full when the message is written, after the job.
    let fail =
        "CREATE TRIGGER full BEFORE INSERT ON messages BEGIN SELECT RAISE(FAIL, 'database or disk is full'); END";
    Connection::open(&path).unwrap().execute_batch(fail).unwrap();
    let refused = fixture.engine.add_message(&shop(), id, prompt("b"), free()).await.unwrap_err();
    assert!(refused.to_string().contains("full"), "{refused}");
    let other = SqliteStore::open(&path, master_key(), World::new()).unwrap();
    assert_eq!(other.job(id).await.unwrap().unwrap().queue.len(), 1, "the write of the job was rolled back too");
    Connection::open(&path).unwrap().execute_batch("DROP TRIGGER full").unwrap();
    fixture.engine.add_message(&shop(), id, prompt("b"), free()).await.unwrap();
}

#[tokio::test]
async fn decisions_see_the_writes_of_other_processes() {
    let fixture = sqlite().await;
    let path = fixture.dir.as_ref().unwrap().path().join("journeyman.db");
    let id = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
    fixture.engine.add_message(&shop(), id, prompt("b"), free()).await.unwrap();
    let other: Arc<dyn Store> = Arc::new(SqliteStore::open(&path, master_key(), fixture.world.clone()).unwrap());
    let engine = Engine::new(other.clone(), fixture.world.clone(), fixture.world.clone());
    engine.add_message(&shop(), id, prompt("c"), free()).await.unwrap();
    fixture.engine.add_message(&shop(), id, prompt("d"), free()).await.unwrap();
    engine.add_message(&shop(), id, prompt("e"), free()).await.unwrap();
    let prompts = |messages: Vec<Message>| messages.into_iter().map(|message| message.prompt).collect::<Vec<_>>();
    assert_eq!(prompts(fixture.store.messages(id).await.unwrap()), ["a", "b", "c", "d", "e"]);
    let log = fixture.store.log(id, 0, 100).await.unwrap();
    assert_eq!(log.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    engine.cancel(&shop(), id).await.unwrap();
    other.delete_project(shop()).await.unwrap();
    let late = fixture.engine.add_message(&shop(), id, prompt("f"), free()).await;
    assert_eq!(late, Err(UpdateError::NotFound));
    assert_eq!(fixture.store.job(id).await.unwrap(), None);
}

#[tokio::test]
async fn a_hanging_disk_is_an_error_in_time_and_nothing_is_stored_later() {
    let fixture = sqlite().await;
    let id = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
    // Another connection that holds the lock of the file simulates a hanging disk.
    let holder = Connection::open(fixture.dir.as_ref().unwrap().path().join("journeyman.db")).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let shop = shop();
    let sent = fixture.engine.add_message(&shop, id, prompt("b"), free());
    let refused = within("an answer while the disk hangs", sent).await;
    assert_eq!(refused, Err(UpdateError::Store(StoreError::Busy)));
    holder.execute_batch("ROLLBACK").unwrap();
    fixture.engine.add_message(&shop, id, prompt("c"), free()).await.unwrap();
    let prompts: Vec<String> = fixture.store.messages(id).await.unwrap().into_iter().map(|one| one.prompt).collect();
    assert_eq!(prompts, ["a", "c"]);
}

/// Runs a checkpoint, which otherwise happens after enough writes, and returns the size of the database file in bytes.
fn size(fixture: &Fixture) -> u64 {
    Connection::open(file(fixture)).unwrap().query_row("PRAGMA wal_checkpoint(FULL)", [], |_| Ok(())).unwrap();
    std::fs::metadata(file(fixture)).unwrap().len()
}

fn file(fixture: &Fixture) -> std::path::PathBuf {
    fixture.dir.as_ref().unwrap().path().join("journeyman.db")
}

/// Creates inactive jobs with transcripts of 8 MiB in total.
async fn add_transcripts(fixture: &Fixture) {
    for _ in 0..32 {
        let id = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
        let claimed = fixture.engine.claim(worker(1), Duration::from_secs(30)).await.unwrap().unwrap();
        let data = serde_json::json!({"text": "x".repeat(32 * 1024)});
        let entry = TranscriptEntry { kind: TranscriptKind::Message, data, at: fixture.world.now() };
        let report = Report::Transcript(vec![entry; 8]);
        fixture.engine.report(id, claimed.lease.token, report).await.unwrap();
        fixture.engine.cancel(&shop(), id).await.unwrap();
    }
}

#[tokio::test]
async fn a_sweep_returns_free_space_to_the_disk() {
    let fixture = sqlite().await;
    add_transcripts(&fixture).await;
    let before = size(&fixture);
    assert!(before > 8 << 20, "{before}");
    fixture.world.advance(Duration::from_secs(3600));
    let retention = Retention { transcripts: Some(Duration::from_secs(60)), ..Retention::default() };
    let swept = fixture.store.sweep(fixture.world.now(), retention, 100).await.unwrap();
    assert_eq!(swept.transcripts, 32);
    // The size without another checkpoint.
    let after = std::fs::metadata(file(&fixture)).unwrap().len();
    // The database keeps some free pages for new data.
    assert!(after < 5 << 20, "{after} of {before}");
    let healthy: String =
        Connection::open(file(&fixture)).unwrap().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(healthy, "ok");
}

#[tokio::test]
async fn an_earlier_database_returns_free_space_only_after_it_was_compacted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journeyman.db");
    // Like a file from an earlier version, without `auto_vacuum`, which must be set before the first table is created.
    Connection::open(&path).unwrap().execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE old (a)").unwrap();
    let world = World::new();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path, master_key(), world.clone()).unwrap());
    store.create_project(project("shop"), [].into()).await.unwrap();
    let fixture = Fixture { dir: Some(dir), ..Fixture::over("sqlite", world, store) };
    add_transcripts(&fixture).await;
    fixture.world.advance(Duration::from_secs(3600));
    let retention = Retention { transcripts: Some(Duration::from_secs(60)), ..Retention::default() };
    fixture.store.sweep(fixture.world.now(), retention, 100).await.unwrap();
    assert!(size(&fixture) > 8 << 20, "it cannot return space yet");
    let id = fixture.engine.create_job(&project("shop"), new_job("kept"), free()).await.unwrap().record.id;
    fixture.engine.cancel(&shop(), id).await.unwrap();
    let Fixture { store, engine, dir, world, .. } = fixture;
    drop((store, engine));
    let [before, after] = SqliteStore::compact(&path).unwrap();
    assert!(before > 8 << 20 && after < 1 << 20, "{before} {after}");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path, master_key(), world.clone()).unwrap());
    let fixture = Fixture { dir, ..Fixture::over("sqlite", world, store) };
    assert_eq!(fixture.store.job(id).await.unwrap().unwrap().title, "kept");
    add_transcripts(&fixture).await;
    fixture.world.advance(Duration::from_secs(3600));
    fixture.store.sweep(fixture.world.now(), retention, 100).await.unwrap();
    assert!(size(&fixture) < 5 << 20, "{}", size(&fixture));
}

#[tokio::test]
async fn recovery_moves_the_log_of_a_killed_process_into_the_database() {
    let fixture = sqlite().await;
    let id = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
    // A copy of the files equals what a killed process leaves behind.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journeyman.db");
    let log = dir.path().join("journeyman.db-wal");
    std::fs::copy(file(&fixture), &path).unwrap();
    std::fs::copy(file(&fixture).with_extension("db-wal"), &log).unwrap();
    assert!(std::fs::metadata(&log).unwrap().len() > 0);
    SqliteStore::recover(&path).unwrap();
    assert_eq!(std::fs::metadata(&log).map_or(0, |log| log.len()), 0, "the log is empty");
    let store = SqliteStore::open(&path, master_key(), World::new()).unwrap();
    assert_eq!(store.job(id).await.unwrap(), fixture.store.job(id).await.unwrap());
    // Recovery also works while another program uses the database, and without a database.
    SqliteStore::recover(&path).unwrap();
    store.ready().await.unwrap();
    SqliteStore::recover(&dir.path().join("none.db")).unwrap();
}

#[test]
fn an_unreadable_log_is_an_error_that_names_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journeyman.db");
    Connection::open(&path).unwrap().execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE old (a)").unwrap();
    // A folder in place of the log simulates an unreadable file.
    std::fs::create_dir(dir.path().join("journeyman.db-wal")).unwrap();
    let error = SqliteStore::recover(&path).err().unwrap().to_string();
    assert!(error.contains("journeyman.db"), "{error}");
}

#[test]
fn a_missing_database_is_not_created_by_compacting() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journeyman.db");
    let error = SqliteStore::compact(&path).err().unwrap().to_string();
    assert!(error.contains("cannot be rewritten") && error.contains("two more copies"), "{error}");
    assert!(!path.exists());
}

#[tokio::test]
async fn an_older_database_is_recognized_without_a_change() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journeyman.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE old (a)").unwrap();
    let files = || {
        let names = dir.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name());
        (names.collect::<Vec<_>>(), std::fs::read(&path).unwrap())
    };
    let before = files();
    assert!(SqliteStore::needs_migration(&path).unwrap());
    assert!(files() == before, "the check has changed the file");
    drop(SqliteStore::open(&path, master_key(), World::new()).unwrap());
    assert!(!SqliteStore::needs_migration(&path).unwrap());
    let missing = dir.path().join("none.db");
    let error = SqliteStore::needs_migration(&missing).err().unwrap().to_string();
    assert!(error.contains("none.db") && !missing.exists(), "{error}");
}
