//! Tests of SQLite on a disk whose fsync fails. The part that uses the disk runs in a separate process.

#![expect(clippy::disallowed_methods, reason = "a test in a separate process gets its folder from the environment")]

use std::path::Path;
use std::process::{Command, Output};

use journeyman_core::ports::{StoreError, UpdateError};
use journeyman_store::SqliteStore;
use journeyman_testkit::{FailingDisk, Seeds as _, World};

use super::fixtures::{Fixture, free, keyed, master_key, new_job, project, prompt, shop};

/// The variable with the database's folder, for the process that uses the failing disk.
const FOLDER: &str = "JOURNEYMAN_TEST_FOLDER";

fn open(path: &Path) -> Fixture {
    SqliteStore::recover(path).unwrap();
    let world = World::new();
    let store = SqliteStore::open(path, master_key(), world.clone()).unwrap();
    Fixture::over("sqlite", world, std::sync::Arc::new(store))
}

/// Runs an ignored test of this file in a process that uses the failing disk.
fn on_disk(disk: &FailingDisk, folder: &Path, test: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--ignored", "--nocapture", &format!("store::io_errors::{test}")]).env(FOLDER, folder);
    command.envs(disk.environment()).output().unwrap()
}

#[test]
fn an_io_error_at_commit_has_an_unknown_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FailingDisk::new(dir.path());
    let met = on_disk(&disk, dir.path(), "meets_the_failing_disk");
    assert!(met.status.success(), "{}", String::from_utf8_lossy(&met.stderr));
    // The transaction is in the log, which the failed process could not know.
    let starts = on_disk(&disk, dir.path(), "starts_on_the_failing_disk");
    assert!(starts.status.success(), "{}", String::from_utf8_lossy(&starts.stderr));
    disk.work();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let path = dir.path().join("journeyman.db");
        let fixture = open(&path);
        let log = dir.path().join("journeyman.db-wal");
        assert_eq!(std::fs::metadata(&log).map_or(0, |log| log.len()), 0, "the log was moved into the database");
        let job = fixture.engine.create_job(&project("shop"), new_job("a"), keyed("job", "a")).await.unwrap();
        assert!(job.replayed, "the job exists already");
        let again = fixture.engine.add_message(&shop(), job.record.id, prompt("b"), keyed("k", "b")).await.unwrap();
        assert!(again.replayed, "a repeated request with the same key is not stored twice");
        assert_eq!(fixture.store.messages(job.record.id).await.unwrap().len(), 2);
    });
}

#[tokio::test]
#[ignore = "run by the test above, in a process whose disk fails"]
async fn meets_the_failing_disk() {
    // The folder is not set if all ignored tests run.
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let fixture = open(&Path::new(&folder).join("journeyman.db"));
    fixture.store.create_project(project("shop"), [].into()).await.unwrap();
    let made = fixture.engine.create_job(&project("shop"), new_job("a"), keyed("job", "a")).await.unwrap();
    let control = std::env::var_os("FAIL_SYNC").unwrap();
    std::fs::write(&control, "").unwrap();
    let sent = fixture.engine.add_message(&shop(), made.record.id, prompt("b"), keyed("k", "b")).await;
    assert!(matches!(sent, Err(UpdateError::Store(StoreError::Unknown(_)))), "{sent:?}");
    fixture.store.failed().await;
    // The disk works again, but that makes no difference: the store cannot know which writes were lost.
    std::fs::remove_file(&control).unwrap();
    let sent = fixture.engine.add_message(&shop(), made.record.id, prompt("c"), free()).await;
    assert!(matches!(sent, Err(UpdateError::Store(StoreError::Unavailable(_)))), "{sent:?}");
    assert!(fixture.store.ready().await.is_err());
    assert!(fixture.store.job(made.record.id).await.is_err(), "a read must not claim that the message does not exist");
    assert!(fixture.store.messages(made.record.id).await.is_err());
    assert!(fixture.store.log(made.record.id, 0, 100).await.is_err());
    std::fs::write(&control, "").unwrap();
}

#[test]
#[ignore = "run by the test above, in a process whose disk fails"]
fn starts_on_the_failing_disk() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let error = SqliteStore::recover(&Path::new(&folder).join("journeyman.db")).err().unwrap().to_string();
    assert!(error.contains("journeyman.db-wal") && error.contains("check the disk"), "{error}");
}
