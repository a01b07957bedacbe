//! Tests of the inbox, on both databases.

use std::time::Duration;

use journeyman_core::code_host::{HostName, PullRepository};
use journeyman_core::engine::Prompt;
use journeyman_core::hook::{
    CommentAction, CommentKind, EventRepository, HookContent, HookEvent, HostComment, HostUser,
};
use journeyman_core::ids::JobId;
use journeyman_core::inbox::{Content, Decision, INBOX_LIFETIME, InboxEvent, InboxState, NewEvent, Next, Outcome};
use journeyman_core::message::{MessageSource, Origin};
use journeyman_core::poll::POLLED;
use journeyman_core::ports::{Decided, InboxFilter, Retention};
use journeyman_core::time::{Clock as _, Timestamp};

use super::fixtures::{Fixture, all, free, new_job, project, prompt, shop};

const LEASE: Duration = Duration::from_secs(30);

fn host() -> HostName {
    HostName("github.com".to_owned())
}

fn repository() -> PullRepository {
    PullRepository { host: host(), id: "17".to_owned() }
}

fn comment(id: &str, version: &str) -> HookEvent {
    let comment = HostComment {
        kind: CommentKind::Pull,
        id: id.to_owned(),
        version: version.to_owned(),
        url: format!("https://github.com/acme/shop/pull/1#{id}"),
        author: HostUser { id: "5".to_owned(), name: "maria".to_owned(), is_bot: false },
        body: "Please.".to_owned(),
        position: None,
        hunk: None,
        thread: None,
        review: None,
    };
    HookEvent {
        repository: Some(EventRepository { id: "17".to_owned(), path: "acme/shop".to_owned() }),
        sender: None,
        content: HookContent::Comment { number: 1, action: CommentAction::Created, comment },
    }
}

impl Fixture {
    async fn receive(&self, delivery: &str) -> bool {
        self.receive_as("issue_comment", delivery).await
    }

    async fn receive_as(&self, event: &str, delivery: &str) -> bool {
        let event = NewEvent {
            host: host(),
            code_host: Some("github".parse().unwrap()),
            project: None,
            delivery: delivery.to_owned(),
            event: event.to_owned(),
            content: Content::Raw(delivery.as_bytes().to_vec()),
            at: self.world.now(),
        };
        self.store.receive(event).await.unwrap()
    }

    async fn claim_events(&self, limit: usize) -> Vec<InboxEvent> {
        self.store.claim_events(self.world.now(), LEASE, limit).await.unwrap()
    }

    /// Receives and claims an event.
    async fn claimed(&self, delivery: &str) -> InboxEvent {
        assert!(self.receive(delivery).await, "{}", self.name);
        self.claim_events(1).await.remove(0)
    }

    async fn decide(&self, event: &InboxEvent, decision: Decision) -> Decided {
        self.store.decide_event(event.number, event.attempts, decision).await.unwrap()
    }

    /// Receives an event about a comment, and lets it wait for others of the job until a time.
    async fn waiting(&self, delivery: &str, job: JobId, until: Timestamp) -> InboxEvent {
        let event = self.claimed(delivery).await;
        let decided = self.decide(&event, decision(Some(job), delivery, Next::Waits(until))).await;
        assert_eq!(decided, Decided::Stored, "{}", self.name);
        event
    }

    async fn event(&self, number: u64) -> InboxEvent {
        let filter = InboxFilter { before: Some(number + 1), ..InboxFilter::newest(None, 1) };
        self.store.inbox(filter).await.unwrap().remove(0)
    }

    fn after(&self, seconds: u64) -> Timestamp {
        self.world.now() + Duration::from_secs(seconds)
    }
}

/// Returns a decision about a comment whose ID is `comment`.
fn decision(job: Option<JobId>, id: &str, next: Next) -> Decision {
    let subject = Some(format!("comment/{id}/1"));
    Decision { project: Some(shop()), job, event: Some(Box::new(comment(id, "1"))), subject, next }
}

fn ended(outcome: Outcome) -> Next {
    Next::Ends { state: InboxState::Ignored, outcome, detail: Some("so".to_owned()) }
}

fn from(numbers: &[u64]) -> Prompt {
    let source = MessageSource {
        origin: Origin::Comment,
        newer: None,
        repository: repository(),
        number: 1,
        id: "c".to_owned(),
        url: String::new(),
        author: None,
        comments: Vec::new(),
        inbox: numbers.to_vec(),
        logs: Vec::new(),
        files: Vec::new(),
    };
    Prompt { origin: Origin::Comment, source: Some(Box::new(source)), ..prompt("Please.") }
}

#[tokio::test]
async fn only_one_of_several_decisions_at_once_about_the_same_comment_is_stored() {
    for fixture in all().await {
        let name = fixture.name;
        for delivery in 0..8 {
            assert!(fixture.receive(&delivery.to_string()).await, "{name}");
        }
        let events = fixture.claim_events(8).await;
        let next = || Next::Ends { state: InboxState::Done, outcome: Outcome::Helped, detail: None };
        let decided = events.iter().map(|event| fixture.decide(event, decision(None, "1", next())));
        let decided = futures::future::join_all(decided).await;
        let stored = decided.iter().filter(|decided| **decided == Decided::Stored).count();
        let duplicates = decided.iter().filter(|decided| **decided == Decided::Duplicate).count();
        assert_eq!((stored, duplicates), (1, 7), "{name}: {decided:?}");
    }
}

#[tokio::test]
async fn a_delivery_is_stored_once() {
    for fixture in all().await {
        let name = fixture.name;
        assert!(fixture.receive("1").await && !fixture.receive("1").await && fixture.receive("2").await, "{name}");
        let events = fixture.claim_events(10).await;
        let found: Vec<_> = events.iter().map(|event| (event.delivery.as_str(), event.attempts)).collect();
        assert_eq!(found, [("1", 1), ("2", 1)], "{name}");
        assert_eq!(events[0].content, Some(Content::Raw(b"1".to_vec())), "{name}");
        assert_eq!(fixture.store.inbox_backlog().await.unwrap().tasks, 2, "{name}");
    }
}

#[tokio::test]
async fn an_event_has_one_owner_until_its_lease_expires() {
    for fixture in all().await {
        let name = fixture.name;
        let first = fixture.claimed("1").await;
        assert_eq!(fixture.claim_events(10).await, [], "{name}: it is claimed");
        fixture.world.advance(LEASE);
        let second = fixture.claim_events(10).await.remove(0);
        assert_eq!((second.number, second.attempts), (first.number, 2), "{name}");
        let late = fixture.decide(&first, decision(None, "a", ended(Outcome::NotUsed))).await;
        assert_eq!(late, Decided::Lost, "{name}");
        let decided = fixture.decide(&second, decision(None, "a", ended(Outcome::NotUsed))).await;
        assert_eq!(decided, Decided::Stored, "{name}");
        let event = fixture.event(first.number).await;
        assert_eq!((event.state, event.outcome), (InboxState::Ignored, Some(Outcome::NotUsed)), "{name}");
        assert_eq!((event.detail.as_deref(), event.project.clone()), (Some("so"), Some(shop())), "{name}");
        assert_eq!(event.read(), Some(&comment("a", "1")), "{name}: the raw body is no longer needed");
        assert_eq!(fixture.store.next_event_at().await.unwrap(), None, "{name}");
    }
}

#[tokio::test]
async fn a_failed_event_is_due_again_later() {
    for fixture in all().await {
        let name = fixture.name;
        let event = fixture.claimed("1").await;
        let at = fixture.after(60);
        let retry = Decision { subject: None, event: None, ..decision(None, "a", Next::Retries(at)) };
        assert_eq!(fixture.decide(&event, retry).await, Decided::Stored, "{name}");
        assert_eq!(fixture.store.next_event_at().await.unwrap(), Some(at), "{name}");
        assert_eq!(fixture.claim_events(10).await, [], "{name}");
        fixture.world.advance(Duration::from_secs(60));
        let again = fixture.claim_events(10).await.remove(0);
        assert_eq!((again.attempts, again.content), (2, Some(Content::Raw(b"1".to_vec()))), "{name}");
    }
}

#[tokio::test]
async fn the_same_comment_in_the_same_version_is_a_duplicate() {
    for fixture in all().await {
        let name = fixture.name;
        let job = fixture.job().await;
        fixture.waiting("a", job, fixture.after(20)).await;
        for next in [Next::Waits(fixture.after(40)), Next::Retries(fixture.after(20)), ended(Outcome::NotUsed)] {
            let event = fixture.claimed(&format!("another delivery: {next:?}")).await;
            let again = Decision { event: None, ..decision(Some(job), "a", next.clone()) };
            assert_eq!(fixture.decide(&event, again).await, Decided::Duplicate, "{name} {next:?}");
            let event = fixture.event(event.number).await;
            assert_eq!(
                (event.state, event.outcome),
                (InboxState::Ignored, Some(Outcome::Duplicate)),
                "{name} {next:?}"
            );
            assert_eq!(event.content, None, "{name} {next:?}: the raw body is no longer needed");
        }
        assert_eq!(fixture.store.waiting_events(job).await.unwrap().len(), 1, "{name}");
        let due = fixture.store.jobs_with_due_events(fixture.after(20), 10).await.unwrap();
        assert_eq!(due, [job], "{name}: a duplicate postpones nothing");
        let about = fixture.store.events_about(host(), "comment/a".to_owned()).await.unwrap();
        assert!(about.iter().any(|event| event.state == InboxState::Waiting), "{name}: {about:?}");
        assert_eq!(fixture.store.events_about(host(), "comment/".to_owned()).await.unwrap(), [], "{name}");
    }
}

#[tokio::test]
async fn an_event_that_is_decided_again_later_is_known_by_its_subject() {
    for fixture in all().await {
        let name = fixture.name;
        let event = fixture.claimed("1").await;
        let retry = decision(None, "a", Next::Retries(fixture.after(60)));
        assert_eq!(fixture.decide(&event, retry.clone()).await, Decided::Stored, "{name}");
        let about = fixture.store.events_about(host(), "comment/a".to_owned()).await.unwrap();
        let found: Vec<_> = about.iter().map(|event| (event.number, event.state, event.project.clone())).collect();
        assert_eq!(found, [(event.number, InboxState::Received, Some(shop()))], "{name}");
        let other = fixture.claimed("2").await;
        assert_eq!(fixture.decide(&other, retry.clone()).await, Decided::Duplicate, "{name}");
        assert_eq!(fixture.decide(&event, retry).await, Decided::Stored, "{name}: it is no duplicate of itself");
    }
}

#[tokio::test]
async fn events_of_a_job_wait_for_the_last_one() {
    for fixture in all().await {
        let name = fixture.name;
        let (job, other) = (fixture.job().await, fixture.job().await);
        let first = fixture.waiting("a", job, fixture.after(20)).await;
        fixture.waiting("b", other, fixture.after(20)).await;
        let second = fixture.waiting("c", job, fixture.after(30)).await;
        let due = |after| fixture.store.jobs_with_due_events(fixture.after(after), 10);
        assert_eq!(due(19).await.unwrap(), [], "{name}");
        assert_eq!(due(20).await.unwrap(), [other], "{name}: the other event of the job waits too");
        let mut both = due(30).await.unwrap();
        both.sort_unstable();
        assert_eq!(both, [job, other], "{name}");
        let waiting = fixture.store.waiting_events(job).await.unwrap();
        let numbers: Vec<u64> = waiting.iter().map(|event| event.number).collect();
        assert_eq!(numbers, [first.number, second.number], "{name}");
        fixture.store.postpone_events(job, fixture.after(60)).await.unwrap();
        assert_eq!(due(59).await.unwrap(), [other], "{name}");
        let (state, outcome) = (InboxState::Ignored, Outcome::JobArchived);
        fixture.store.end_events(numbers, state, outcome, Some("archived".to_owned())).await.unwrap();
        assert_eq!(fixture.store.waiting_events(job).await.unwrap(), [], "{name}");
        let event = fixture.event(first.number).await;
        assert_eq!((event.outcome, event.detail.as_deref()), (Some(outcome), Some("archived")), "{name}");
    }
}

#[tokio::test]
async fn a_message_ends_its_events_in_the_same_transaction() {
    for fixture in all().await {
        let name = fixture.name;
        let job = fixture.job().await;
        let events =
            [fixture.waiting("a", job, fixture.after(1)).await, fixture.waiting("b", job, fixture.after(1)).await];
        let numbers = events.map(|event| event.number);
        fixture.engine.add_message(&shop(), job, from(&numbers), free()).await.unwrap();
        let message = fixture.store.messages(job).await.unwrap().pop().unwrap();
        assert_eq!(fixture.store.waiting_events(job).await.unwrap(), [], "{name}");
        let of_message = fixture.store.inbox_of_message(message.id).await.unwrap();
        let found: Vec<_> = of_message.iter().map(|event| (event.number, event.state, event.outcome)).collect();
        let expected = numbers.map(|number| (number, InboxState::Done, Some(Outcome::Message)));
        assert_eq!(found, expected, "{name}");
        assert_eq!((message.origin, message.source.unwrap().inbox), (Origin::Comment, numbers.to_vec()), "{name}");
    }
}

#[tokio::test]
async fn an_issue_has_one_job() {
    for fixture in all().await {
        let name = fixture.name;
        let event = fixture.claimed("1").await;
        let mut prompt = from(&[event.number]);
        prompt.origin = Origin::Issue;
        prompt.source.as_mut().unwrap().origin = Origin::Issue;
        let new = journeyman_core::engine::NewJob { prompt, ..new_job("x") };
        let job = fixture.engine.create_job(&project("shop"), new, free()).await.unwrap().record.id;
        assert_eq!(fixture.store.job_of_issue(repository(), 1).await.unwrap(), Some(job), "{name}");
        assert_eq!(fixture.store.job_of_issue(repository(), 2).await.unwrap(), None, "{name}");
        let event = fixture.event(event.number).await;
        assert_eq!(
            (event.state, event.outcome, event.job),
            (InboxState::Done, Some(Outcome::JobCreated), Some(job)),
            "{name}"
        );
    }
}

#[tokio::test]
async fn old_events_that_have_ended_are_removed() {
    for fixture in all().await {
        let name = fixture.name;
        let job = fixture.job().await;
        let event = fixture.claimed("1").await;
        fixture.decide(&event, decision(None, "a", ended(Outcome::NotUsed))).await;
        fixture.waiting("2", job, fixture.after(1)).await;
        fixture.world.advance(INBOX_LIFETIME);
        fixture.receive("3").await;
        let swept = fixture.store.sweep(fixture.world.now(), Retention::default(), 10).await.unwrap();
        assert_eq!(swept.inbox, 1, "{name}");
        let filter = InboxFilter::newest(None, 10);
        let left: Vec<String> =
            fixture.store.inbox(filter).await.unwrap().into_iter().map(|event| event.delivery).collect();
        assert_eq!(left, ["3", "2"], "{name}");
    }
}

#[tokio::test]
async fn a_page_shows_the_events_of_a_project() {
    for fixture in all().await {
        let name = fixture.name;
        let job = fixture.job().await;
        let first = fixture.waiting("a", job, fixture.after(1)).await.number;
        fixture.receive("b").await;
        let last = fixture.receive("c").await;
        assert!(last, "{name}");
        let page =
            |project, before, limit| fixture.store.inbox(InboxFilter { before, ..InboxFilter::newest(project, limit) });
        let deliveries = |events: Vec<InboxEvent>| events.into_iter().map(|event| event.delivery).collect::<Vec<_>>();
        assert_eq!(deliveries(page(None, None, 2).await.unwrap()), ["c", "b"], "{name}");
        assert_eq!(deliveries(page(None, Some(first + 1), 2).await.unwrap()), ["a"], "{name}");
        assert_eq!(deliveries(page(Some(shop()), None, 9).await.unwrap()), ["a"], "{name}");
        let second = fixture.claim_events(1).await.remove(0);
        fixture.decide(&second, decision(None, "b", ended(Outcome::NotUsed))).await;
        let (waiting, not_used) = (Some(InboxState::Waiting), Some(Outcome::NotUsed));
        for (project, state, outcome, expected) in [
            (None, waiting, None, vec!["a"]),
            (Some(shop()), waiting, None, vec!["a"]),
            (None, Some(InboxState::Received), None, vec!["c"]),
            (None, None, not_used, vec!["b"]),
            (Some(shop()), None, not_used, vec!["b"]),
            (Some(shop()), waiting, not_used, vec![]),
        ] {
            let filter = InboxFilter { state, outcome, ..InboxFilter::newest(project, 9) };
            let found = fixture.store.inbox(filter).await.unwrap();
            assert_eq!(deliveries(found), expected, "{name}: {state:?} {outcome:?}");
        }
    }
}

#[tokio::test]
async fn events_without_a_project_and_the_last_webhook_of_a_host_are_found() {
    for fixture in all().await {
        let (name, github) = (fixture.name, "github".parse::<journeyman_core::code_host::CodeHostId>().unwrap());
        assert_eq!(fixture.store.last_event_of(github.clone()).await.unwrap(), None, "{name}");
        for (delivery, outcome) in [("a", Outcome::NoProject), ("b", Outcome::NotUsed), ("c", Outcome::NoProject)] {
            let event = fixture.claimed(delivery).await;
            fixture.decide(&event, Decision { project: None, ..decision(None, delivery, ended(outcome)) }).await;
            fixture.world.advance(Duration::from_secs(1));
        }
        assert!(fixture.receive_as(POLLED, "d").await, "{name}");
        let unclaimed = fixture.store.unclaimed_events(10).await.unwrap();
        let found: Vec<&str> = unclaimed.iter().map(|event| event.delivery.as_str()).collect();
        assert_eq!(found, ["c", "a"], "{name}");
        assert_eq!(fixture.store.unclaimed_events(1).await.unwrap().len(), 1, "{name}");
        let last = fixture.store.last_event_of(github).await.unwrap();
        assert_eq!(last, Some(fixture.event(unclaimed[0].number).await.received_at), "{name}");
        assert_eq!(fixture.store.last_event_of("other".parse().unwrap()).await.unwrap(), None, "{name}");
    }
}
