//! Slack workspaces, events, threads and posts, on both databases.

use std::time::Duration;

use journeyman_core::audit::AuditEntry;
use journeyman_core::decision;
use journeyman_core::decision::slack::SlackCode;
use journeyman_core::decision::{Change, Row};
use journeyman_core::ids::{JobId, SlackWorkspaceId, UserId};
use journeyman_core::inbox::InboxState;
use journeyman_core::ports::{AdminError, Retention, SlackEventFilter};
use journeyman_core::refusal::{Refusal, RefusalKind, ResourceKind};
use journeyman_core::resource::{Key, Locked, Put};
use journeyman_core::secret::SecretValue;
use journeyman_core::slack::{
    NewSlackEvent, NewSlackPost, SLACK_LEASE, SlackContent, SlackDecision, SlackEvent, SlackInboxEvent, SlackMode,
    SlackNext, SlackOutcome, SlackPost, SlackPostContent, SlackPostState, SlackPosted, SlackSecret, SlackSettings,
    SlackThread, SlackThreadId, SlackWorkspace,
};
use journeyman_core::time::{Clock as _, Timestamp};
use journeyman_core::user::TokenHash;
use journeyman_core::version::Precondition;
use journeyman_testkit::{Refused as _, Seeds as _, all_stored, decide_on, stored};
use uuid::Uuid;

use super::fixtures::{Fixture, all, shop};
use super::reports::delete_job;

fn id(number: u128) -> SlackWorkspaceId {
    SlackWorkspaceId::from_uuid(Uuid::from_u128(number))
}

fn thread_id(channel: &str, thread: &str) -> SlackThreadId {
    SlackThreadId { workspace: id(1), channel: channel.to_owned(), thread: thread.to_owned() }
}

fn post(channel: &str, purpose: &str) -> NewSlackPost {
    let content = SlackPostContent::Text(purpose.to_owned());
    NewSlackPost { thread: thread_id(channel, "1.0"), purpose: purpose.to_owned(), content }
}

impl Fixture {
    async fn administer_slack(
        &self,
        number: u128,
        team: &str,
        decide: impl FnMut(&Locked<SlackWorkspace>) -> Result<Change, Refusal> + Send + 'static,
    ) -> Result<(), AdminError> {
        let key: Key<SlackWorkspace> = Key { id: id(number), project: None, name: team.to_owned() };
        decide_on(&*self.store, key, self.engine.now(), decide).await.map(drop)
    }

    fn slack_entry(&self, action: &str) -> AuditEntry {
        let (at, actor, action) = (self.engine.now(), "cli".to_owned(), action.to_owned());
        AuditEntry { at, actor, action, subject: String::new(), address: None }
    }

    async fn connect_slack(&self, number: u128, team: &str) -> Result<(), AdminError> {
        let settings = SlackSettings {
            name: "Acme".to_owned(),
            team: team.to_owned(),
            bot_user: "UBOT".to_owned(),
            enterprise: None,
            mode: SlackMode::Events,
            channels: [("C1".to_owned(), shop())].into(),
            users: [].into(),
        };
        let workspace = SlackWorkspace { id: id(number), settings, created_at: self.engine.now(), version: 1 };
        let secrets = [(SlackSecret::BotToken, Some(SecretValue("xoxb-12345".to_owned())))];
        let audit = self.slack_entry("slack_workspace.created");
        let new = Put { resource: workspace, secrets: secrets.into() };
        let decide = move |locked: &_| decision::resource::create(locked, new.clone(), audit.clone());
        self.administer_slack(number, team, decide).await
    }

    async fn receive_slack(&self, event_id: &str, thread: &str, ts: &str) -> bool {
        let event = SlackEvent {
            event_id: event_id.to_owned(),
            team: "T1".to_owned(),
            installations: Vec::new(),
            author_team: None,
            channel: "C1".to_owned(),
            thread: thread.to_owned(),
            ts: ts.to_owned(),
            content: SlackContent::Deleted,
        };
        let new = NewSlackEvent { workspace: id(1), event, at: self.world.now() };
        self.store.receive_slack(new).await.unwrap()
    }

    async fn claim_slack(&self) -> Vec<SlackInboxEvent> {
        self.store.claim_slack_events(self.world.now(), SLACK_LEASE, 10).await.unwrap()
    }

    async fn decide_slack(&self, event: &SlackInboxEvent, next: SlackNext, posts: Vec<NewSlackPost>) -> bool {
        self.decide_slack_for(JobId::from_uuid(Uuid::from_u128(7)), event, next, posts).await
    }

    async fn decide_slack_for(
        &self,
        job: JobId,
        event: &SlackInboxEvent,
        next: SlackNext,
        posts: Vec<NewSlackPost>,
    ) -> bool {
        let thread = Some(SlackThread { id: event.thread.clone(), project: shop(), job });
        let decision = SlackDecision { next, job: Some((job, None)), thread, posts, at: self.world.now() };
        self.store.decide_slack_event(event.number, event.attempts, decision).await.unwrap()
    }

    async fn claim_posts(&self) -> Vec<SlackPost> {
        self.store.claim_slack_posts(self.world.now(), SLACK_LEASE, 10).await.unwrap()
    }

    fn posted(&self, post: &SlackPost, state: SlackPostState, due_at: Option<Timestamp>) -> SlackPosted {
        SlackPosted {
            number: post.number,
            claim: post.claims,
            ts: Some("9.0".to_owned()),
            shown: Some("text".to_owned()),
            state,
            detail: None,
            failures: 0,
            due_at,
            free_at: self.world.now() + Duration::from_secs(1),
        }
    }
}

fn done() -> SlackNext {
    SlackNext::Ends(InboxState::Done, SlackOutcome::JobCreated, Some("so".to_owned()))
}

fn ids(events: &[SlackInboxEvent]) -> Vec<&str> {
    events.iter().map(|event| event.event_id.as_str()).collect()
}

#[tokio::test]
async fn a_workspace_is_connected_once_and_its_secrets_are_kept() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.connect_slack(1, "T1").await.unwrap();
        let again = fixture.connect_slack(2, "T1").await;
        assert_eq!(again.refused(), Err((RefusalKind::Exists, ResourceKind::SlackWorkspace)), "{name}");
        let secrets = fixture.store.slack_secrets(id(1)).await.unwrap();
        assert_eq!(secrets, [(SlackSecret::BotToken, SecretValue("xoxb-12345".to_owned()))].into(), "{name}");
        let audit = fixture.slack_entry("slack_workspace.changed");
        let decide = move |locked: &_| {
            let app = [(SlackSecret::AppToken, Some(SecretValue("xapp-12345".to_owned())))];
            let changes = app.into_iter().chain([(SlackSecret::BotToken, None)]).collect();
            let edit = |known: &SlackWorkspace| {
                let settings = SlackSettings { name: "Other".to_owned(), ..known.settings.clone() };
                Ok(Put { resource: SlackWorkspace { settings, ..known.clone() }, secrets: changes })
            };
            decision::resource::change(locked, &Precondition::Version(vec![1]), edit, audit.clone())
        };
        fixture.administer_slack(1, "T1", decide).await.unwrap();
        let found = stored::<SlackWorkspace>(&*fixture.store, id(1)).await.unwrap();
        assert_eq!((found.settings.name.as_str(), found.version), ("Other", 2), "{name}");
        let secrets = fixture.store.slack_secrets(id(1)).await.unwrap();
        assert_eq!(secrets.into_keys().collect::<Vec<_>>(), [SlackSecret::AppToken], "{name}");
    }
}

#[tokio::test]
async fn a_removed_workspace_leaves_nothing_and_is_remembered() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.connect_slack(1, "T1").await.unwrap();
        fixture.receive_slack("Ev1", "1.0", "1.0").await;
        let event = fixture.claim_slack().await.remove(0);
        fixture.decide_slack(&event, done(), vec![post("C1", "a")]).await;
        for _ in 0..2 {
            let audit = fixture.slack_entry("slack_workspace.removed");
            let decide = move |locked: &_| decision::resource::remove(locked, &Precondition::None, audit.clone());
            fixture.administer_slack(1, "", decide).await.unwrap();
        }
        assert!(!fixture.receive_slack("Ev2", "1.0", "1.0").await, "{name}");
        assert!(all_stored::<SlackWorkspace>(&*fixture.store, None).await.is_empty(), "{name}");
        assert!(fixture.store.slack_secrets(id(1)).await.unwrap().is_empty(), "{name}");
        assert_eq!(fixture.store.slack_thread(event.thread).await.unwrap(), None, "{name}");
        assert!(fixture.store.slack_posts(id(1), None, 10).await.unwrap().is_empty(), "{name}");
    }
}

#[tokio::test]
async fn events_are_stored_once_and_claimed_in_the_order_of_their_thread() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.connect_slack(1, "T1").await.unwrap();
        assert!(fixture.receive_slack("Ev1", "1.0", "2.0").await, "{name}");
        assert!(!fixture.receive_slack("Ev1", "1.0", "2.0").await, "{name}");
        fixture.receive_slack("Ev2", "1.0", "1.0").await;
        fixture.receive_slack("Ev3", "3.0", "3.0").await;
        let claimed = fixture.claim_slack().await;
        assert_eq!(ids(&claimed), ["Ev2", "Ev3"], "{name}");
        assert_eq!(ids(&fixture.claim_slack().await), [""; 0], "{name}");
        let retry = SlackNext::Retries(fixture.world.now() + Duration::from_secs(5));
        assert!(fixture.decide_slack(&claimed[1], retry, Vec::new()).await, "{name}");
        assert!(fixture.decide_slack(&claimed[0], done(), Vec::new()).await, "{name}");
        assert!(!fixture.decide_slack(&claimed[0], done(), vec![post("C1", "late")]).await, "{name}");
        assert_eq!(ids(&fixture.claim_slack().await), ["Ev1"], "{name}");
        fixture.world.advance(SLACK_LEASE);
        assert_eq!(ids(&fixture.claim_slack().await), ["Ev1", "Ev3"], "{name}: their process died");
        assert!(fixture.store.slack_posts(id(1), None, 10).await.unwrap().is_empty(), "{name}");
        let filter =
            SlackEventFilter { workspace: id(1), thread: Some(thread_id("C1", "1.0")), before: None, limit: 10 };
        let listed = fixture.store.slack_events(filter).await.unwrap();
        assert_eq!(ids(&listed), ["Ev2", "Ev1"], "{name}");
        assert_eq!(listed[0].outcome, Some(SlackOutcome::JobCreated), "{name}");
        assert!(fixture.store.slack_thread(thread_id("C1", "1.0")).await.unwrap().is_some(), "{name}");
    }
}

#[tokio::test]
async fn posts_are_stored_once_and_sent_to_each_channel_one_after_the_other() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.connect_slack(1, "T1").await.unwrap();
        for (event_id, posts) in
            [("Ev1", vec![post("C1", "a"), post("C1", "b"), post("C2", "a")]), ("Ev2", vec![post("C1", "a")])]
        {
            fixture.receive_slack(event_id, "1.0", "1.0").await;
            let event = fixture.claim_slack().await.remove(0);
            assert!(fixture.decide_slack(&event, done(), posts).await, "{name}");
        }
        let claimed = fixture.claim_posts().await;
        let claims: Vec<_> =
            claimed.iter().map(|post| (post.thread.channel.as_str(), post.purpose.as_str(), post.claims)).collect();
        assert_eq!(claims, [("C1", "a", 1), ("C2", "a", 1)], "{name}");
        assert!(fixture.claim_posts().await.is_empty(), "{name}");
        let finished = fixture.posted(&claimed[0], SlackPostState::Done, None);
        assert!(fixture.store.finish_slack_post(finished.clone()).await.unwrap(), "{name}");
        assert!(!fixture.store.finish_slack_post(finished).await.unwrap(), "{name}: it is final");
        assert!(fixture.claim_posts().await.is_empty(), "{name}: the channel pauses");
        fixture.world.advance(Duration::from_secs(1));
        let next = fixture.claim_posts().await;
        assert_eq!(next.iter().map(|post| post.purpose.as_str()).collect::<Vec<_>>(), ["b"], "{name}");
        fixture.world.advance(SLACK_LEASE);
        let again = fixture.claim_posts().await;
        assert!(again.iter().all(SlackPost::may_be_posted) && again.len() == 2, "{name}: their process died");
        let late = fixture.posted(&next[0], SlackPostState::Done, None);
        assert!(!fixture.store.finish_slack_post(late).await.unwrap(), "{name}");
        let later = fixture.world.now() + Duration::from_secs(2);
        let open = fixture.posted(&again[0], SlackPostState::Open, Some(later));
        assert!(fixture.store.finish_slack_post(open).await.unwrap(), "{name}");
        let removed = fixture.store.sweep_slack(later, later, 100).await.unwrap();
        assert_eq!(removed, 3, "{name}: two events and a post");
        let left = fixture.store.slack_posts(id(1), None, 10).await.unwrap();
        assert!(left.iter().all(|post| post.state == SlackPostState::Open) && left.len() == 2, "{name}");
    }
}

/// Returns the post of the status of a job's first message, in a thread.
async fn status(fixture: &Fixture, job: JobId, thread: SlackThreadId) -> NewSlackPost {
    let message = fixture.store.messages(job).await.unwrap().remove(0).id;
    let content = SlackPostContent::Status { project: shop(), job, message };
    NewSlackPost { thread, purpose: format!("status/{message}"), content }
}

#[tokio::test]
async fn a_deleted_job_leaves_no_thread_event_or_post() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.connect_slack(1, "T1").await.unwrap();
        let jobs = [fixture.job().await, fixture.job().await, fixture.job().await];
        for (thread, job) in ["1.0", "2.0", "3.0"].into_iter().zip(jobs) {
            fixture.receive_slack(&format!("Ev{thread}"), thread, thread).await;
            let event = fixture.claim_slack().await.remove(0);
            let reply = NewSlackPost { thread: event.thread.clone(), ..post("C1", "reply") };
            let posts = vec![status(&fixture, job, event.thread.clone()).await, reply];
            assert!(fixture.decide_slack_for(job, &event, done(), posts).await, "{name}");
        }
        // Another job was created in the thread of the first one, which keeps its job.
        fixture.receive_slack("Ev1.1", "1.0", "1.1").await;
        let event = fixture.claim_slack().await.remove(0);
        let posts = vec![status(&fixture, jobs[2], event.thread.clone()).await];
        assert!(fixture.decide_slack_for(jobs[2], &event, done(), posts).await, "{name}");

        let left = async || {
            let filter = SlackEventFilter { workspace: id(1), thread: None, before: None, limit: 10 };
            let events = fixture.store.slack_events(filter).await.unwrap();
            let posts = fixture.store.slack_posts(id(1), None, 10).await.unwrap();
            let mut threads = Vec::new();
            for thread in ["1.0", "2.0", "3.0"] {
                let found = fixture.store.slack_thread(thread_id("C1", thread)).await.unwrap();
                threads.extend(found.map(|found| found.job));
            }
            let posts: Vec<String> = posts.into_iter().map(|post| post.thread.thread).collect();
            (threads, events.into_iter().map(|event| event.event_id).collect::<Vec<_>>(), posts)
        };
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        fixture.engine.cancel(&shop(), jobs[0]).await.unwrap();
        delete_job(&fixture, shop(), jobs[0]).await.unwrap();
        let expected = (jobs[1..].to_vec(), owned(&["Ev1.1", "Ev3.0", "Ev2.0"]));
        let (threads, events, posts) = left().await;
        assert_eq!((threads, events), expected, "{name}: deleted");
        assert_eq!(posts, ["1.0", "3.0", "3.0", "2.0", "2.0"], "{name}: the status of the other job stays");

        fixture.engine.cancel(&shop(), jobs[1]).await.unwrap();
        fixture.world.advance(Duration::from_secs(60));
        let retention = Retention { jobs: Some(Duration::from_secs(60)), ..Retention::default() };
        fixture.store.sweep(fixture.world.now(), retention, 10).await.unwrap();
        let expected = (jobs[2..].to_vec(), owned(&["Ev1.1", "Ev3.0"]), owned(&["1.0", "3.0", "3.0"]));
        assert_eq!(left().await, expected, "{name}: swept");

        fixture.engine.cancel(&shop(), jobs[2]).await.unwrap();
        fixture.store.delete_project(shop()).await.unwrap();
        assert_eq!(left().await, (Vec::new(), Vec::new(), Vec::new()), "{name}: deleted with the project");
    }
}

#[tokio::test]
async fn a_code_connects_one_account_also_if_two_decisions_have_read_it() {
    for fixture in all().await {
        let name = fixture.name;
        let (hash, user) = (TokenHash([7; 32]), UserId::from_uuid(Uuid::from_u128(7)));
        fixture.connect_slack(1, "T1").await.unwrap();
        fixture.connect_slack(2, "T2").await.unwrap();
        let row = Row::SlackCode { hash, user, expires_at: fixture.engine.now() + Duration::from_secs(600) };
        let audit = fixture.slack_entry("slack_code.created");
        let decide = move |_: &_| Ok(Change::new([row.clone()], audit.clone()));
        fixture.administer_slack(1, "T1", decide).await.unwrap();
        let link = async |number: u128| {
            let audit = fixture.slack_entry("slack_account.connected");
            let link = move |locked: &_| decision::slack::link(locked, "U7", user, hash, audit.clone());
            decide_on(&*fixture.store, SlackCode(id(number), hash), fixture.engine.now(), link).await.map(drop)
        };
        let mut done = <[_; 2]>::from(tokio::join!(link(1), link(2)));
        done.sort_by_key(Result::is_err);
        assert_eq!(done[0], Ok(()), "{name}");
        assert_eq!(done[1].refused(), Err((RefusalKind::NotFound, ResourceKind::SlackCode)), "{name}");
    }
}
