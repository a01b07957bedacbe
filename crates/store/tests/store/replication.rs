//! Tests of failover from a lost primary to its standby, which must have all acknowledged writes.

use std::sync::Arc;

use journeyman_core::feed::{Expired, FeedCursor, FeedQuery};
use journeyman_core::ports::{StoreError, UpdateError};
use journeyman_testkit::Postgres;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::epochs::open_pull;
use super::fixtures::{Fixture, free, new_job, postgres_at, project, prompt, shop};

/// Returns a primary, its standby, and a store whose URL names both.
async fn pair() -> (Postgres, Postgres, Fixture) {
    let primary = Postgres::durable();
    let url = primary.database();
    let standby = primary.standby();
    let first = format!("127.0.0.1:{}", primary.port());
    // The standby comes first, because the store must skip a server that does not accept writes.
    let both = url.replace(&first, &format!("127.0.0.1:{},{first}", standby.port()));
    let fixture = postgres_at(&both).await;
    (primary, standby, fixture)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_synchronous_standby_has_all_acknowledged_writes_and_the_store_uses_it() {
    let (primary, standby, fixture) = pair().await;
    let fixture = Arc::new(fixture);
    // Several jobs, because the number of messages that may wait on one job is limited.
    let mut jobs = Vec::new();
    for _ in 0..40 {
        jobs.push(fixture.engine.create_job(&project("shop"), new_job("first"), free()).await.unwrap().record.id);
    }
    let (sender, to, over) = (Arc::clone(&fixture), jobs.clone(), CancellationToken::new());
    let (taken_over, (begun, mut first_sent)) = (over.clone(), watch::channel(0));
    let client = tokio::spawn(async move {
        let mut accepted = Vec::new();
        let mut more = 3;
        for number in 0_usize.. {
            let (id, text) = (to[number % to.len()], number.to_string());
            let after = taken_over.is_cancelled();
            match sender.engine.add_message(&shop(), id, prompt(&text), free()).await {
                Ok(_) => {
                    accepted.push(text);
                    begun.send_replace(accepted.len());
                    more -= usize::from(after);
                }
                // Not stored, or unknown whether it was stored.
                Err(UpdateError::Store(StoreError::Unavailable(_) | StoreError::Unknown(_))) => {}
                Err(error) => panic!("{error}"),
            }
            if more == 0 {
                break;
            }
        }
        accepted
    });
    first_sent.wait_for(|sent| *sent >= 50).await.unwrap();
    let failover = tokio::task::spawn_blocking(move || {
        primary.crash();
        standby.promote();
        standby
    });
    let _standby = failover.await.unwrap();
    over.cancel();
    let accepted = client.await.unwrap();
    let mut stored: Vec<String> = Vec::new();
    for id in jobs {
        stored.extend(fixture.store.messages(id).await.unwrap().into_iter().map(|one| one.prompt));
    }
    for text in accepted {
        assert_eq!(stored.iter().filter(|one| **one == text).count(), 1, "{text} in {stored:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_acknowledged_without_the_synchronous_standby() {
    let (_primary, standby, fixture) = pair().await;
    let id = fixture.engine.create_job(&project("shop"), new_job("first"), free()).await.unwrap().record.id;
    standby.stop();
    let sent = fixture.engine.add_message(&shop(), id, prompt("second"), free()).await;
    assert!(matches!(sent, Err(UpdateError::Store(StoreError::Unknown(_)))), "{sent:?}");
}

/// Confirms, as a control case, that asynchronous replication may lose acknowledged writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_asynchronous_standby_may_lack_acknowledged_writes() {
    let (primary, standby, fixture) = pair().await;
    let id = fixture.engine.create_job(&project("shop"), new_job("first"), free()).await.unwrap().record.id;
    primary.wait_for_standbys("");
    standby.stop();
    fixture.engine.add_message(&shop(), id, prompt("second"), free()).await.unwrap();
    primary.crash();
    standby.up();
    standby.promote();
    let stored = fixture.store.messages(id).await.unwrap();
    assert_eq!(stored.len(), 1, "the second message was acknowledged and is lost");
}

/// The standby lacks the last transactions of the primary, whose numbers readers have seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_standby_gives_no_number_of_a_lost_event_again() {
    let (primary, standby, fixture) = pair().await;
    let id = fixture.job().await;
    let after = |after| FeedQuery { after, limit: 99, ..FeedQuery::default() };
    let kept = fixture.store.feed(after(0)).await.unwrap();
    let newest = kept.last().unwrap().position;
    let kept_seq = fixture.store.job(id).await.unwrap().unwrap().last_seq;
    primary.wait_for_standbys("");
    standby.stop();
    fixture.engine.add_message(&shop(), id, prompt("second"), free()).await.unwrap();
    fixture.job().await;
    fixture.job().await;
    let lost_pull = open_pull(&fixture, "shop", "a").await;
    let lost: Vec<u64> = fixture.store.feed(after(newest)).await.unwrap().iter().map(|one| one.position).collect();
    let lost_seq = fixture.store.job(id).await.unwrap().unwrap().last_seq;
    assert!(lost.len() == 2 && lost_seq > kept_seq, "{lost:?}");
    primary.crash();
    standby.up();
    standby.promote();
    fixture.engine.add_message(&shop(), id, prompt("third"), free()).await.unwrap();
    fixture.job().await;
    let entries = fixture.store.feed(after(0)).await.unwrap();
    assert_eq!(entries[..kept.len()], kept[..], "events keep their identity");
    assert_eq!(entries.len(), kept.len() + 1);
    assert!(entries.iter().all(|entry| !lost.contains(&entry.position)), "{entries:?}");
    let ends = fixture.store.feed_ends().await.unwrap();
    for read in lost.iter().copied().chain([newest]) {
        let expected = Err(Expired::OtherEpoch { next: Some(ends.cursor(newest)) });
        assert_eq!(ends.after(FeedCursor { position: read, epoch: None }), expected, "{ends:?}");
    }
    assert!(open_pull(&fixture, "shop", "b").await > lost_pull, "no pull request gets the number of a lost one");
    let job = fixture.store.job(id).await.unwrap().unwrap();
    assert!(!job.has_seq(lost_seq) && job.has_seq(kept_seq), "{job:?}");
    let log = fixture.store.log(id, kept_seq, 99).await.unwrap();
    assert!(log.iter().all(|entry| entry.seq > lost_seq), "{log:?}");
}
