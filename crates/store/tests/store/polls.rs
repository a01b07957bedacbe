//! Tests of the schedule of polls, on both databases.

use std::time::Duration;

use journeyman_core::code_host::HostName;
use journeyman_core::inbox::{Content, Decision, InboxState, NewEvent, Next, Outcome};
use journeyman_core::poll::{Cursor, LONGEST_DELAY, POLLED, Poll, PollProblem};
use journeyman_core::time::{Clock as _, Timestamp};

use super::fixtures::{Fixture, all, shop};

fn host() -> HostName {
    HostName("github.com".to_owned())
}

fn poll(project: &str, seconds: i64) -> Poll {
    Poll {
        project: project.parse().unwrap(),
        host: host(),
        cursor: None,
        next_at: Timestamp::from_micros(seconds * 1_000_000),
        pulls: 2,
        quiet: 3,
        failures: 4,
        problem: None,
        version: 1,
    }
}

#[tokio::test]
async fn only_the_next_version_of_a_row_is_stored() {
    for Fixture { name, store, .. } in all().await {
        let first = poll("shop", 10);
        assert!(store.put_poll(first.clone()).await.unwrap(), "{name}");
        assert!(!store.put_poll(first.clone()).await.unwrap(), "{name}");
        let problem = PollProblem { text: "gone".to_owned(), since: Timestamp::from_micros(7) };
        let cursor = Some(Cursor("{}".to_owned()));
        let second = Poll { cursor, problem: Some(problem), version: 2, ..first.clone() };
        assert!(store.put_poll(second.clone()).await.unwrap(), "{name}");
        assert!(!store.put_poll(Poll { version: 4, ..first }).await.unwrap(), "{name}");
        assert_eq!(store.polls().await.unwrap(), std::slice::from_ref(&second), "{name}");
        assert_eq!(store.poll_of(shop()).await.unwrap(), Some(second.clone()), "{name}");
        assert!(store.put_poll(Poll { problem: None, version: 3, ..second.clone() }).await.unwrap(), "{name}");
        assert_eq!(store.poll_of(shop()).await.unwrap(), Some(Poll { problem: None, version: 3, ..second }), "{name}");
        store.remove_poll(shop()).await.unwrap();
        assert_eq!(store.poll_of(shop()).await.unwrap(), None, "{name}");
        assert_eq!((store.polls().await.unwrap(), store.polled_hosts().await.unwrap()), (vec![], vec![]), "{name}");
    }
}

#[tokio::test]
async fn the_longest_overdue_is_polled_first() {
    for Fixture { name, store, .. } in all().await {
        let other = Poll { host: HostName("gitlab.example".to_owned()), ..poll("other", 1) };
        for one in [poll("b", 20), poll("a", 20), poll("c", 10), poll("d", 40), other] {
            assert!(store.put_poll(one).await.unwrap(), "{name}");
        }
        let now = Timestamp::from_micros(30_000_000);
        let due = |limit: usize| store.due_polls(host(), now, limit);
        let names = |polls: Vec<Poll>| polls.into_iter().map(|poll| poll.project.to_string()).collect::<Vec<_>>();
        assert_eq!(names(due(9).await.unwrap()), ["c", "a", "b"], "{name}");
        assert_eq!(names(due(1).await.unwrap()), ["c"], "{name}");
        // The clock was set back since the polls were stored.
        let before = Timestamp::default() - (LONGEST_DELAY - Duration::from_secs(35));
        assert_eq!(names(store.due_polls(host(), before, 9).await.unwrap()), ["d"], "{name}");
        assert_eq!(store.polled_hosts().await.unwrap(), [host(), HostName("gitlab.example".to_owned())], "{name}");
    }
}

#[tokio::test]
async fn the_newest_webhook_of_a_project_is_found() {
    for Fixture { name, store, world, .. } in all().await {
        assert_eq!(store.last_hook_at(shop()).await.unwrap(), None, "{name}");
        let begin = world.now();
        for (delivery, event, project) in
            [("1", "issue_comment", Some(shop())), ("2", POLLED, Some(shop())), ("3", "push", None)]
        {
            let new = NewEvent {
                host: host(),
                code_host: None,
                project: None,
                delivery: delivery.to_owned(),
                event: event.to_owned(),
                content: Content::Raw(Vec::new()),
                at: world.now(),
            };
            assert!(store.receive(new).await.unwrap());
            let claimed = store.claim_events(world.now(), Duration::from_secs(30), 1).await.unwrap();
            let next = Next::Ends { state: InboxState::Done, outcome: Outcome::NotUsed, detail: None };
            let decision = Decision { project, job: None, event: None, subject: None, next };
            store.decide_event(claimed[0].number, 1, decision).await.unwrap();
            world.advance(Duration::from_secs(10));
        }
        assert_eq!(store.last_hook_at(shop()).await.unwrap(), Some(begin), "{name}");
        assert_eq!(store.open_pulls().await.unwrap(), [], "{name}");
        assert_eq!(store.indexed_pulls_in(shop()).await.unwrap(), [], "{name}");
    }
}
