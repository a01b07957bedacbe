//! Tests of properties that only PostgreSQL has: many processes that share a database, a server that fails, and schemas
//! of other versions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use journeyman_core::engine::{Admission, Engine};
use journeyman_core::ports::{Store, StoreError, UpdateError};
use journeyman_store::{MasterKey, PostgresOpenError, PostgresStore, Schema, VaultError};
use journeyman_testkit::{Postgres, Seeds as _, World, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::fixtures::{
    Fixture, RECHECK, free, keyed, listening, master_key, migrated, new_job, postgres_at, project, prompt, shop, worker,
};

const LEASE: Duration = Duration::from_secs(30);

/// Returns two stores, as of two processes, that share a database and a clock.
async fn two() -> (Fixture, Engine, Arc<dyn Store>) {
    let url = migrated().await;
    let first = postgres_at(&url).await;
    let second = PostgresStore::open(&url, 4, Schema::Check, master_key(), first.world.clone()).await.unwrap();
    let second: Arc<dyn Store> = Arc::new(second.with_recheck(RECHECK));
    listening(&*second).await;
    let engine = Engine::new(second.clone(), first.world.clone(), first.world.clone());
    (first, engine, second)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_in_one_process_wakes_waiters_in_another() {
    let (here, _, there) = two().await;
    let id = here.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
    let job = there.job(id).await.unwrap().unwrap();
    let (waiting, seen) = (Arc::clone(&there), there.work_version());
    let work = tokio::spawn(async move { waiting.work_changed(seen).await });
    let waiting = Arc::clone(&there);
    let entries = tokio::spawn(async move { waiting.watch(id).changed(job.last_seq).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    here.engine.add_message(&shop(), id, prompt("b"), free()).await.unwrap();
    within("a notification about work", work).await.unwrap();
    within("a notification about entries", entries).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rate_limit_is_exact_on_two_machines_with_different_clocks() {
    let (here, _, there) = two().await;
    let behind = World::new();
    behind.set_back(Duration::from_secs(10));
    let second = Engine::new(there, behind.clone(), here.world.clone());
    let id = here.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
    for hour in 0..3 {
        let mut sent = tokio::task::JoinSet::new();
        for number in 0..60 {
            let engine = if number % 2 == 0 { here.engine.clone() } else { second.clone() };
            let limited = Admission { idempotency: None, limit: 30 };
            sent.spawn(async move { engine.add_message(&shop(), id, prompt("b"), limited).await });
        }
        let sent = sent.join_all().await;
        let refused = sent.iter().filter(|sent| matches!(sent, Err(UpdateError::RateLimited(..)))).count();
        assert_eq!((refused, sent.iter().filter(|sent| sent.is_ok()).count()), (30, 30), "hour {hour}");
        // Slightly more than an hour, so that the window has ended for the slow clock too.
        for clock in [&here.world, &behind] {
            clock.advance(Duration::from_secs(3620));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_duplicates_in_two_processes_store_one_message() {
    let (here, engine, _) = two().await;
    let id = here.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
    for round in 0..10 {
        let key = format!("k{round}");
        let mut sent = tokio::task::JoinSet::new();
        for number in 0..8 {
            let engine = if number % 2 == 0 { here.engine.clone() } else { engine.clone() };
            let admission = keyed(&key, "b");
            sent.spawn(async move { engine.add_message(&shop(), id, prompt("b"), admission).await.unwrap().replayed });
        }
        let replayed = sent.join_all().await.into_iter().filter(|replayed| *replayed).count();
        assert_eq!(replayed, 7, "round {round}");
    }
    assert_eq!(here.store.messages(id).await.unwrap().len(), 11);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_share_a_rate_limit() {
    let (here, engine, _) = two().await;
    let limited = || Admission { idempotency: None, limit: 20 };
    let id = here.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
    let mut sent = tokio::task::JoinSet::new();
    for number in 0..40 {
        let engine = if number % 2 == 0 { here.engine.clone() } else { engine.clone() };
        sent.spawn(async move { engine.add_message(&shop(), id, prompt("b"), limited()).await.is_ok() });
    }
    let accepted = sent.join_all().await.into_iter().filter(|accepted| *accepted).count();
    assert_eq!(accepted, 20);
    assert_eq!(here.store.messages(id).await.unwrap().len(), 21);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_do_not_exceed_the_run_limit_of_a_project() {
    let (here, engine, _) = two().await;
    let mut limited = project("shop");
    limited.settings.limits.concurrent_runs = Some(3);
    here.store.update_project(limited, [].into()).await.unwrap();
    for _ in 0..12 {
        here.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap();
    }
    let mut claims = tokio::task::JoinSet::new();
    for number in 0..8 {
        let engine = if number % 2 == 0 { here.engine.clone() } else { engine.clone() };
        claims.spawn(async move { engine.claim(worker(number), LEASE).await.unwrap().is_some() });
    }
    let begun = claims.join_all().await.into_iter().filter(|begun| *begun).count();
    assert!((1..=3).contains(&begun), "{begun}");
}

#[tokio::test]
async fn a_request_that_the_server_rejects_does_not_fail_others() {
    let fixture = postgres_at(&migrated().await).await;
    let id = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
    // PostgreSQL cannot store text with a NUL character, which the HTTP interface would refuse earlier.
    let shop = shop();
    let (good, bad, last) = tokio::join!(
        fixture.engine.add_message(&shop, id, prompt("b"), free()),
        fixture.engine.add_message(&shop, id, prompt("\0"), free()),
        fixture.engine.add_message(&shop, id, prompt("c"), free()),
    );
    good.unwrap();
    last.unwrap();
    assert!(matches!(bad, Err(UpdateError::Store(StoreError::Unavailable(_)))), "{bad:?}");
    let prompts: Vec<String> = fixture.store.messages(id).await.unwrap().into_iter().map(|one| one.prompt).collect();
    assert_eq!(prompts, ["a", "b", "c"]);
}

/// Crashes and restarts the server while clients send messages, and repeat those that failed because nothing was
/// stored. Half of the clients use no idempotency keys. Every message must be stored exactly once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_during_commits_neither_lose_nor_duplicate_messages() {
    let server = Arc::new(Postgres::durable());
    let url = server.database();
    let fixture = Arc::new(postgres_at(&url).await);
    let mut jobs = Vec::new();
    for _ in 0..4 {
        jobs.push(fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id);
    }
    let mut clients = tokio::task::JoinSet::new();
    for (number, id) in jobs.iter().copied().enumerate() {
        let fixture = Arc::clone(&fixture);
        clients.spawn(async move {
            let (shop, mut accepted) = (shop(), Vec::new());
            for message in 0..60 {
                let text = format!("{number}-{message}");
                let admission = || if number % 2 == 0 { keyed(&text, &text) } else { free() };
                let send = || fixture.engine.add_message(&shop, id, prompt(&text), admission());
                while let Err(error) = send().await {
                    // On a slow machine, a write may also wait for the server for too long.
                    let is_unstored =
                        matches!(error, UpdateError::Store(StoreError::Unavailable(_) | StoreError::Busy));
                    assert!(is_unstored, "{error}");
                }
                accepted.push(text);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            (id, accepted)
        });
    }
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let server = Arc::clone(&server);
        let restart = move || {
            server.crash();
            server.up();
        };
        tokio::task::spawn_blocking(restart).await.unwrap();
    }
    for (id, accepted) in clients.join_all().await {
        let stored: Vec<String> = fixture.store.messages(id).await.unwrap().into_iter().map(|one| one.prompt).collect();
        assert_eq!(stored[1..], accepted);
    }
}

#[tokio::test]
async fn an_unreachable_server_is_an_error_until_it_is_back() {
    let server = Postgres::durable();
    let fixture = postgres_at(&server.database()).await;
    let id = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
    server.stop();
    let refused = fixture.engine.add_message(&shop(), id, prompt("b"), free()).await;
    assert!(matches!(refused, Err(UpdateError::Store(StoreError::Unavailable(_)))), "{refused:?}");
    assert!(fixture.store.ready().await.is_err());
    assert!(fixture.store.job(id).await.is_err());
    server.up();
    fixture.store.ready().await.unwrap();
    fixture.engine.add_message(&shop(), id, prompt("b"), free()).await.unwrap();
    assert_eq!(fixture.store.messages(id).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_schema_is_created_once_and_incompatible_schemas_are_refused() {
    let server = Postgres::shared();
    let url = server.database();
    let database = url.rsplit('/').next().unwrap();
    let open = |schema| PostgresStore::open(&url, 2, schema, master_key(), World::new());
    let error = open(Schema::Check).await.err().unwrap();
    assert!(matches!(error, PostgresOpenError::Older { found: 0, .. }), "{error}");
    assert!(error.to_string().contains("journeyman migrate"), "{error}");
    let made = tokio::join!(PostgresStore::migrate(&url), PostgresStore::migrate(&url), PostgresStore::migrate(&url));
    let made = [made.0.unwrap(), made.1.unwrap(), made.2.unwrap()];
    assert_eq!(made.iter().filter(|made| **made > 0).count(), 1, "one of three creates it: {made:?}");
    open(Schema::Check).await.unwrap();
    let next = made.iter().sum::<usize>() + 1;
    server.sql(database, &format!("INSERT INTO journeyman.migrations (number, needs) VALUES ({next}, 1)"));
    open(Schema::Migrate).await.expect("the later version is compatible");
    server.sql(database, &format!("UPDATE journeyman.migrations SET needs = {next} WHERE number = {next}"));
    let error = open(Schema::Migrate).await.err().unwrap();
    assert!(matches!(error, PostgresOpenError::Newer { .. }), "{error}");
}

#[tokio::test]
async fn errors_from_opening_a_database_do_not_reveal_the_password() {
    let server = Postgres::shared();
    let cases = [
        (server.url("nowhere").replace("journeyman@", "journeyman:s3cret@"), "does not exist"),
        ("postgres://u:s3cret@127.0.0.1:1/d".to_owned(), "refused"),
        ("postgres://u:s3cret@127.0.0.1:1/d?sslmode=sometimes".to_owned(), "sslmode"),
        (format!("{}?sslmode=require", server.database()), "TLS"),
    ];
    for (url, expected) in cases {
        let error = PostgresStore::open(&url, 1, Schema::Migrate, master_key(), World::new()).await.err().unwrap();
        let text = error.to_string();
        assert!(text.contains(expected) && !text.contains("s3cret"), "{text}");
    }
}

/// Starts a proxy between a store and its server, and returns its port. When `cut` is set, the proxy closes a
/// connection instead of forwarding the response to a commit.
async fn cutting_proxy(to: String, cut: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (to, cut) = (to.clone(), Arc::clone(&cut));
            tokio::spawn(async move {
                let server = TcpStream::connect(to).await.unwrap();
                let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
                    (client.into_split(), server.into_split());
                let up = tokio::io::copy(&mut from_client, &mut to_server);
                let down = async {
                    let mut bytes = vec![0; 1 << 16];
                    while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
                        let answer = &bytes[..count];
                        // The tag of a committed transaction, with or without writes.
                        let commit = answer.windows(7).any(|part| part == b"COMMIT\0");
                        if commit && cut.swap(false, Ordering::SeqCst) {
                            return;
                        }
                        to_client.write_all(answer).await.unwrap();
                    }
                };
                tokio::select! {
                    _ = up => {}
                    () = down => {}
                }
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_response_is_lost_is_not_repeated() {
    let url = Postgres::shared().database();
    let (cut, server) = (Arc::new(AtomicBool::new(false)), url.split(['@', '/']).nth(3).unwrap().to_owned());
    let port = cutting_proxy(server.clone(), Arc::clone(&cut)).await;
    let fixture = postgres_at(&url.replace(&server, &format!("127.0.0.1:{port}"))).await;
    let id = fixture.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
    for round in 0..5 {
        cut.store(true, Ordering::SeqCst);
        fixture.engine.add_message(&shop(), id, prompt(&format!("b{round}")), free()).await.unwrap();
        assert!(!cut.load(Ordering::SeqCst), "a response was lost");
        assert_eq!(fixture.store.messages(id).await.unwrap().len(), round + 2);
    }
}

#[tokio::test]
async fn a_store_does_not_open_with_another_master_key() {
    let url = migrated().await;
    postgres_at(&url).await;
    let other = PostgresStore::open(&url, 2, Schema::Migrate, MasterKey::new([1; 32]), World::new()).await;
    assert!(matches!(other, Err(PostgresOpenError::Key(VaultError::OtherKey))));
}

#[tokio::test]
async fn a_column_that_a_newer_version_adds_fails_no_request_of_a_running_process() {
    let server = Postgres::shared();
    let url = server.database();
    let name = url.rsplit('/').next().unwrap();
    let fixture = postgres_at(&url).await;
    let (store, engine) = (&fixture.store, &fixture.engine);
    store.create_project(project("web"), [].into()).await.unwrap();
    let id = engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
    let use_all = async || {
        assert!(store.project("web".parse().unwrap()).await.unwrap().is_some());
        assert_eq!(store.keys().await.unwrap(), []);
        store.user_by_name("ada".into()).await.unwrap();
        store.messages(id).await.unwrap();
        store.update_project(project("web"), [].into()).await.unwrap();
        engine.add_message(&shop(), id, prompt("b"), free()).await.unwrap();
    };
    use_all().await;
    for table in ["projects", "keys", "users", "jobs", "messages", "idempotency_keys"] {
        server.sql(name, &format!("ALTER TABLE journeyman.{table} ADD COLUMN later BIGINT"));
    }
    for _ in 0..20 {
        use_all().await;
    }
}
