//! Epochs: after a restore, no number is given a second time, and numbers of the lost history are recognized.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use journeyman_core::audit::AuditEntry;
use journeyman_core::code_host::{HostName, PullState};
use journeyman_core::decision;
use journeyman_core::decision::Row;
use journeyman_core::decision::pull::PullOfBranch;
use journeyman_core::feed::{Expired, FeedCursor, FeedEntry, FeedQuery};
use journeyman_core::ids::JobId;
use journeyman_core::inbox::{Content, NewEvent};
use journeyman_core::pull::{LocalPull, NewPull};
use journeyman_core::time::Clock as _;
use journeyman_store::{PostgresStore, Schema, SqliteStore, export_postgres, export_sqlite, import_postgres};
use journeyman_testkit::{Postgres, Seeds as _, World, decide_on, until};

use super::conformance::complete_next_job;
use super::fixtures::{Fixture, free, master_key, new_job, postgres_at, project, prompt, shop, sqlite};

async fn feed(fixture: &Fixture) -> Vec<FeedEntry> {
    let all = FeedQuery { limit: 999, ..FeedQuery::default() };
    fixture.store.feed(all).await.unwrap()
}

async fn positions(fixture: &Fixture) -> BTreeSet<u64> {
    feed(fixture).await.iter().map(|entry| entry.position).collect()
}

async fn seqs(fixture: &Fixture, job: JobId) -> BTreeSet<u64> {
    fixture.store.log(job, 0, 999).await.unwrap().iter().map(|entry| entry.seq).collect()
}

async fn opened(path: &Path, world: &Arc<World>) -> Fixture {
    let store = SqliteStore::open(path, master_key(), world.clone()).unwrap();
    Fixture::over("sqlite", world.clone(), Arc::new(store))
}

/// Makes a backup of a store, continues to use the store with `more`, and returns the restored backup.
async fn restored(old: &Fixture, url: Option<&str>, more: impl AsyncFnOnce()) -> (Fixture, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let Some(url) = url else {
        let to = dir.path().join("restored.db");
        let from = old.dir.as_ref().unwrap().path().join("journeyman.db");
        export_sqlite(&from, &to, &master_key().into(), &mut |_| {}).unwrap();
        more().await;
        return (opened(&to, &old.world).await, dir);
    };
    let exported = export_postgres(url, dir.path(), &master_key().into(), &mut |_| {}).await.unwrap();
    more().await;
    let target = Postgres::shared().database();
    import_postgres(&target, dir.path(), &exported).await.unwrap();
    let store = PostgresStore::open(&target, 4, Schema::Check, master_key(), old.world.clone()).await.unwrap();
    (Fixture::over("postgres", old.world.clone(), Arc::new(store)), dir)
}

#[tokio::test]
async fn no_number_is_given_again_after_a_restore() {
    let url = Postgres::shared().database();
    for (old, url) in [(sqlite().await, None), (postgres_at(&url).await, Some(url.as_str()))] {
        let name = old.name;
        let job = old.job().await;
        complete_next_job(&old).await;
        let (kept, kept_seqs) = (feed(&old).await, seqs(&old, job).await);
        let more = async || {
            old.engine.add_message(&shop(), job, prompt("lost"), free()).await.unwrap();
            old.engine.cancel(&shop(), job).await.unwrap();
            old.job().await;
        };
        let (new, _dir) = restored(&old, url, more).await;
        let newest = kept.last().unwrap().position;
        let lost: BTreeSet<u64> = positions(&old).await.into_iter().filter(|position| *position > newest).collect();
        let lost_seqs: BTreeSet<u64> = &seqs(&old, job).await - &kept_seqs;
        assert!(!lost.is_empty() && !lost_seqs.is_empty(), "{name}");

        assert_eq!(feed(&new).await, kept, "{name}: events keep their identity");
        let unchanged = new.store.job(job).await.unwrap().unwrap();
        new.engine.add_message(&shop(), job, prompt("new"), free()).await.unwrap();
        new.engine.cancel(&shop(), job).await.unwrap();
        let fresh = new.job().await;
        assert!(lost.is_disjoint(&positions(&new).await), "{name}");
        assert!(positions(&new).await.len() > kept.len(), "{name}");
        assert!(lost_seqs.is_disjoint(&seqs(&new, job).await), "{name}");
        assert!(seqs(&new, job).await.is_superset(&kept_seqs), "{name}");
        assert_eq!(seqs(&new, fresh).await.first(), Some(&1), "{name}: a new job has used no numbers");

        let ends = new.store.feed_ends().await.unwrap();
        // A cursor from before the backup is of another epoch too, but nothing that its reader has seen was lost.
        for (read, continues) in lost.iter().map(|read| (*read, newest)).chain([(newest, newest), (1, 1)]) {
            let expected = Err(Expired::OtherEpoch { next: Some(ends.cursor(continues)) });
            assert_eq!(ends.after(FeedCursor { position: read, epoch: None }), expected, "{name}: {ends:?}");
        }
        for own in [ends.newest, newest, 1] {
            assert_eq!(ends.after(ends.cursor(own).to_string().parse().unwrap()), Ok(own), "{name}: {ends:?}");
        }
        let changed = new.store.job(job).await.unwrap().unwrap();
        for known in [&unchanged, &changed] {
            assert!(lost_seqs.iter().all(|seq| !known.has_seq(*seq)), "{name}: {known:?}");
            assert!(kept_seqs.iter().all(|seq| known.has_seq(*seq)), "{name}: {known:?}");
        }
        assert!(changed.has_seq(changed.last_seq) && changed.revision > unchanged.revision + 1, "{name}");
        let before = old.store.project(shop()).await.unwrap().unwrap().version;
        let after = new.store.project(shop()).await.unwrap().unwrap().version;
        assert!(after > before + 1_000_000, "{name}: an entity tag of a lost state fits no later state: {after}");
    }
}

/// Opens a pull request of a job; returns its number.
pub(super) async fn open_pull(fixture: &Fixture, repository: &str, head: &str) -> u64 {
    let new = NewPull { title: "T".into(), head: head.into(), ..NewPull::default() };
    let (repository, now) = (repository.to_owned(), fixture.world.now());
    fixture.store.open_pull(repository, "main".into(), new, now).await.unwrap().unwrap().number
}

/// Opens a pull request of a person; returns its number.
async fn propose(fixture: &Fixture, repository: &str, head: &str) -> u64 {
    let subject = PullOfBranch(repository.to_owned(), head.to_owned());
    let new = LocalPull {
        repository: repository.to_owned(),
        number: 0,
        title: "T".into(),
        body: String::new(),
        state: PullState::Open,
        draft: false,
        head: head.to_owned(),
        base: "main".into(),
        labels: Vec::new(),
        created_at: fixture.world.now(),
        ended_at: None,
        ended_by: None,
        ended_between: None,
        merge_commit: None,
    };
    let (at, actor, action) = (fixture.world.now(), "cli".to_owned(), "pull.opened".to_owned());
    let audit = AuditEntry { at, actor, action, subject: String::new(), address: None };
    let decide = move |state: &_| decision::pull::open(state, new.clone(), &shop(), audit.clone());
    let change = decide_on(&*fixture.store, subject, fixture.world.now(), decide).await.unwrap();
    let numbers = change.rows.iter().map(|row| match row {
        Row::PullOpened(pull) => Some(pull.number),
        _ => None,
    });
    numbers.flatten().next().unwrap()
}

#[tokio::test]
async fn no_pull_request_gets_the_number_of_a_lost_one() {
    let url = Postgres::shared().database();
    for (old, url) in [(sqlite().await, None), (postgres_at(&url).await, Some(url.as_str()))] {
        let name = old.name;
        assert_eq!((open_pull(&old, "shop", "a").await, propose(&old, "shop", "b").await), (1, 2), "{name}");
        let lost = Mutex::new(BTreeSet::new());
        let more = async || {
            let of_jobs = [open_pull(&old, "shop", "c").await, open_pull(&old, "new", "c").await];
            let of_people = [propose(&old, "shop", "d").await, propose(&old, "new", "d").await];
            *lost.lock().unwrap() = of_jobs.into_iter().chain(of_people).collect();
        };
        let (new, dir) = restored(&old, url, more).await;
        let mut lost = lost.into_inner().unwrap();
        assert_eq!(lost, BTreeSet::from([1, 2, 3, 4]), "{name}");
        // The lost history had the repository `new`, and this one gets another with the same name.
        let mut last = 4;
        for repository in ["shop", "new"] {
            last = open_pull(&new, repository, "e").await;
            assert!(lost.iter().all(|number| *number < last) && last < 1 << 53, "{name}: {last} is after {lost:?}");
            assert_eq!(propose(&new, repository, "f").await, last + 1, "{name}: then one by one");
        }
        if url.is_some() {
            continue;
        }
        // Another restore, of a backup of the restored database.
        let (path, again) = (dir.path().join("restored.db"), dir.path().join("again.db"));
        export_sqlite(&path, &again, &master_key().into(), &mut |_| {}).unwrap();
        lost.insert(last + 1);
        let newest = opened(&again, &old.world).await;
        assert!(open_pull(&newest, "shop", "g").await > last + 1, "{name}");
    }
}

#[tokio::test]
async fn what_begins_after_a_restore_has_no_number_of_the_lost_history() {
    let url = Postgres::shared().database();
    for (old, url) in [(sqlite().await, None), (postgres_at(&url).await, Some(url.as_str()))] {
        let name = old.name;
        let event = |fixture: &Fixture| NewEvent {
            host: HostName("git.example".to_owned()),
            code_host: Some("git".parse().unwrap()),
            project: None,
            delivery: "1".to_owned(),
            event: "push".to_owned(),
            content: Content::Raw(b"{}".to_vec()),
            at: fixture.world.now(),
        };
        let more = async || {
            let lost = old.store.create_project(project("lost"), [].into()).await.unwrap();
            assert_eq!(lost.version, 1, "{name}");
            assert!(old.store.receive(event(&old)).await.unwrap(), "{name}");
        };
        let (new, _dir) = restored(&old, url, more).await;
        // The entity tag of the lost project does not fit the one that is made in its place.
        let again = new.store.create_project(project("lost"), [].into()).await.unwrap();
        assert!(again.version > 1 << 20, "{name}: {again:?}");
        let changed = new.store.update_project(again.clone(), [].into()).await.unwrap();
        assert_eq!(changed.version, again.version + 1, "{name}");
        // The table was empty when the backup was made.
        assert!(new.store.receive(event(&new)).await.unwrap(), "{name}");
        let claimed = new.store.claim_events(new.world.now(), Duration::from_secs(60), 9).await.unwrap();
        assert!(claimed.len() == 1 && claimed[0].number > 1 << 20, "{name}: {claimed:?}");
    }
}

#[tokio::test]
async fn a_database_file_that_was_put_back_by_hand_is_noticed() {
    let (dir, world) = (tempfile::tempdir().unwrap(), World::new());
    let (path, copy) = (dir.path().join("journeyman.db"), dir.path().join("copy.db"));
    let fixture = opened(&path, &world).await;
    fixture.store.create_project(project("shop"), [].into()).await.unwrap();
    fixture.store.note_start().await.unwrap();
    fixture.job().await;
    // A copy that has no mark, as other programs make it.
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    drop((db, fixture));

    let fixture = opened(&path, &world).await;
    assert_eq!(fixture.store.feed_ends().await.unwrap().gaps, [], "an ordinary start begins no epoch");
    fixture.store.note_start().await.unwrap();
    fixture.engine.create_job(&project("shop"), new_job("lost"), free()).await.unwrap();
    let lost = fixture.store.feed_ends().await.unwrap().newest;
    drop(fixture);
    let log = dir.path().join("journeyman.db-wal");
    until("the database is closed", || (!log.exists()).then_some(()));
    std::fs::copy(&copy, &path).unwrap();

    for attempt in ["first", "second"] {
        let fixture = opened(&path, &world).await;
        let ends = fixture.store.feed_ends().await.unwrap();
        assert_eq!(ends.gaps.len(), 1, "{attempt}: one epoch begins");
        let lost = FeedCursor { position: lost, epoch: None };
        assert!(matches!(ends.after(lost), Err(Expired::OtherEpoch { next: Some(_) })), "{attempt}: {ends:?}");
        fixture.job().await;
        assert!(fixture.store.feed_ends().await.unwrap().newest > ends.newest, "{attempt}");
        fixture.store.note_start().await.unwrap();
    }
}

#[tokio::test]
async fn a_check_of_writes_writes() {
    for fixture in super::fixtures::all().await {
        assert_eq!(fixture.store.check_writes().await, Ok(()), "{}", fixture.name);
        assert_eq!(fixture.store.check_writes().await, Ok(()), "{}", fixture.name);
    }
}
