//! The feed: the events of all jobs in one order, which no reader misses.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use journeyman_core::feed::{FeedEnds, FeedEntry, FeedKind, FeedQuery};
use journeyman_core::ports::Retention;

use super::conformance::complete_next_job;
use super::fixtures::{Fixture, all, free, migrated, new_job, postgres_at, project, prompt, shop};
use journeyman_testkit::{Seeds as _, within};

fn query(after: u64) -> FeedQuery {
    FeedQuery { after, limit: 99, ..FeedQuery::default() }
}

async fn kinds(fixture: &Fixture, query: FeedQuery) -> Vec<String> {
    fixture.store.feed(query).await.unwrap().into_iter().map(|entry| entry.kind).collect()
}

#[tokio::test]
async fn the_changes_of_jobs_are_in_the_feed_in_their_order() {
    for fixture in all().await {
        let name = fixture.name;
        assert_eq!(fixture.store.feed_ends().await.unwrap(), FeedEnds::default(), "{name}");
        let id = fixture.job().await;
        complete_next_job(&fixture).await;
        fixture.engine.add_message(&shop(), id, prompt("b"), free()).await.unwrap();
        fixture.engine.claim(super::fixtures::worker(1), Duration::from_secs(60)).await.unwrap();
        fixture.engine.cancel(&shop(), id).await.unwrap();
        fixture.engine.archive(&shop(), id).await.unwrap();
        let entries = fixture.store.feed(query(0)).await.unwrap();
        let seen: Vec<&str> = entries.iter().map(|entry| entry.kind.as_str()).collect();
        let expected =
            ["job.created", "message.finished", "job.completed", "message.failed", "job.failed", "job.archived"];
        assert_eq!(seen, expected, "{name}");
        let positions: Vec<u64> = entries.iter().map(|entry| entry.position).collect();
        assert_eq!(positions, [1, 2, 3, 4, 5, 6], "{name}");
        let finished = &entries[1];
        let messages = fixture.store.messages(id).await.unwrap();
        assert_eq!(finished.data["messageId"], messages[0].id.to_string(), "{name}");
        assert_eq!(finished.data["runId"], messages[0].run.unwrap().to_string(), "{name}");
        assert_eq!(finished.data["job"]["status"], "completed", "{name}: the record after the whole change");
        assert_eq!(finished.data["job"]["id"], id.to_string(), "{name}");
        assert_eq!((finished.project.clone(), finished.job), (shop(), id), "{name}");
        assert_eq!(entries[3].data["reason"]["code"], "cancelled", "{name}");
        assert_eq!(
            fixture.store.feed_ends().await.unwrap(),
            FeedEnds { oldest: Some(1), newest: 6, gaps: Vec::new() },
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_reader_selects_projects_types_and_a_position() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.store.create_project(project("other"), [].into()).await.unwrap();
        fixture.job().await;
        fixture.engine.create_job(&project("other"), new_job("x"), free()).await.unwrap();
        complete_next_job(&fixture).await;
        complete_next_job(&fixture).await;
        let created = || FeedQuery { kinds: vec![FeedKind::JobCreated], ..query(0) };
        assert_eq!(kinds(&fixture, created()).await, ["job.created"; 2], "{name}");
        let in_shop = FeedQuery { projects: Some(vec![shop()]), ..query(0) };
        assert_eq!(
            kinds(&fixture, in_shop.clone()).await,
            ["job.created", "message.finished", "job.completed"],
            "{name}"
        );
        let both = FeedQuery { projects: Some(vec![shop(), "other".parse().unwrap()]), ..query(0) };
        assert_eq!(fixture.store.feed(both).await.unwrap(), fixture.store.feed(query(0)).await.unwrap(), "{name}");
        let later = FeedQuery { after: 1, limit: 1, ..in_shop };
        assert_eq!(kinds(&fixture, later).await, ["message.finished"], "{name}");
        assert_eq!(kinds(&fixture, query(6)).await, Vec::<String>::new(), "{name}");
        assert_eq!(
            kinds(&fixture, FeedQuery { projects: Some(vec![]), ..query(0) }).await,
            Vec::<String>::new(),
            "{name}"
        );
    }
}

#[tokio::test]
async fn old_events_are_removed_and_the_end_of_the_feed_stays() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.job().await;
        fixture.world.advance(Duration::from_hours(31 * 24));
        fixture.job().await;
        fixture.store.feed(query(0)).await.unwrap();
        let swept = fixture.store.sweep(fixture.engine.now(), Retention::default(), 10).await.unwrap();
        assert_eq!(swept.feed, 1, "{name}");
        assert_eq!(
            fixture.store.feed_ends().await.unwrap(),
            FeedEnds { oldest: Some(2), newest: 2, gaps: Vec::new() },
            "{name}"
        );
        fixture.world.advance(Duration::from_hours(31 * 24));
        fixture.store.sweep(fixture.engine.now(), Retention::default(), 10).await.unwrap();
        assert_eq!(
            fixture.store.feed_ends().await.unwrap(),
            FeedEnds { oldest: None, newest: 2, gaps: Vec::new() },
            "{name}"
        );
        fixture.job().await;
        assert_eq!(fixture.store.feed(query(0)).await.unwrap()[0].position, 3, "{name}: positions are not reused");
        fixture.engine.cancel(&shop(), fixture.store.feed(query(0)).await.unwrap()[0].job).await.unwrap();
    }
}

#[tokio::test]
async fn waiters_wake_up_for_the_feed() {
    for fixture in all().await {
        let seen = fixture.store.feed_version();
        let store = Arc::clone(&fixture.store);
        let waiting = tokio::spawn(async move { store.feed_changed(seen).await });
        fixture.job().await;
        within("a wake-up", waiting).await.unwrap();
        assert_ne!(fixture.store.feed_version(), seen, "{}", fixture.name);
    }
}

/// Two processes write at the same time, and commit in any order. Two readers follow the feed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_writers_and_readers_see_every_event_once_and_in_one_order() {
    const JOBS: usize = 60;
    let url = migrated().await;
    let first = Arc::new(postgres_at(&url).await);
    let store = super::fixtures::open_again(&url, &first).await;
    let second = Arc::new(Fixture::over("postgres", first.world.clone(), store));
    let writers = [&first, &second].map(|fixture| {
        let fixture = Arc::clone(fixture);
        tokio::spawn(async move {
            let jobs = (0..JOBS).map(|_| fixture.job());
            futures::future::join_all(jobs).await
        })
    });
    let readers = [&first, &second].map(|fixture| {
        let fixture = Arc::clone(fixture);
        tokio::spawn(async move {
            let mut seen: Vec<FeedEntry> = Vec::new();
            while seen.len() < 2 * JOBS {
                let version = fixture.store.feed_version();
                let after = seen.last().map_or(0, |entry| entry.position);
                let found = fixture.store.feed(FeedQuery { limit: 7, ..query(after) }).await.unwrap();
                if found.is_empty() {
                    drop(tokio::time::timeout(Duration::from_millis(5), fixture.store.feed_changed(version)).await);
                }
                seen.extend(found);
            }
            seen
        })
    });
    let mut made = BTreeSet::new();
    for writer in writers {
        made.extend(writer.await.unwrap());
    }
    for reader in readers {
        let seen = within("all events", reader).await.unwrap();
        let jobs: BTreeSet<_> = seen.iter().map(|entry| entry.job).collect();
        assert_eq!(jobs, made);
        let positions: Vec<u64> = seen.iter().map(|entry| entry.position).collect();
        assert_eq!(positions, (1..=positions.len() as u64).collect::<Vec<_>>(), "without gaps");
    }
}
