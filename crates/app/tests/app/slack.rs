//! Slack: mentions become jobs, replies their messages, and each post is made once.

use std::sync::Arc;
use std::time::Duration;

use journeyman_app::{Answered, Caller, Error, RefusalKind, SlackEdit, SlackReceived};
use journeyman_core::ids::SlackWorkspaceId;
use journeyman_core::inbox::InboxState;
use journeyman_core::message::Origin;
use journeyman_core::ports::{HookRefusal, JobFilter, SignedRequest, SlackError};
use journeyman_core::secret::SecretValue;
use journeyman_core::slack::{SlackOutcome, SlackPostState, SlackSecret};
use journeyman_core::time::Timestamp;
use journeyman_core::user::{Role, TokenHash, User};
use journeyman_core::version::Precondition;
use journeyman_testkit::{FakeSlack, Seeds as _, SlackFault};
use serde_json::json;
use uuid::Uuid;

use super::fixtures::{Fixture, all, operator, shop};

const ROOT: &str = "1700000000.000100";

fn user(number: u128, role: Role) -> User {
    User {
        id: journeyman_core::ids::UserId::from_uuid(Uuid::from_u128(number)),
        name: format!("user{number}"),
        role,
        password: None,
        identity: None,
        second_factor: None,
        passkeys: Default::default(),
        created_at: Timestamp::from_micros(1),
        signed_in_at: None,
        disabled_at: None,
        version: 1,
    }
}

fn secrets() -> [(SlackSecret, Option<SecretValue>); 2] {
    let secret = |text: &str| Some(SecretValue(text.to_owned()));
    [(SlackSecret::BotToken, secret("xoxb-12345")), (SlackSecret::SigningSecret, secret("0123456789"))]
}

impl Fixture {
    /// Connects the workspace: the channel `C1` with the project `shop`, `U1` with a member, and `U2` with a viewer.
    pub(super) async fn connect(&self) -> SlackWorkspaceId {
        self.create_shop().await;
        let (member, viewer) = (user(1, Role::Member), user(2, Role::Viewer));
        for one in [&member, &viewer] {
            let audit = operator().audit(self.engine.now(), "user.created", one.id);
            self.store.create_user(one.clone(), audit).await.unwrap();
        }
        let edit = SlackEdit {
            channels: [("C1".to_owned(), Some(shop().id))].into(),
            users: [("U1".to_owned(), Some(member.id)), ("U2".to_owned(), Some(viewer.id))].into(),
            secrets: secrets().into(),
            ..SlackEdit::default()
        };
        let made = self.cases.create_slack_workspace(&operator(), edit, None, |_| String::new()).await.unwrap();
        let Answered::New(made) = made else { panic!("there is no idempotency key") };
        made.workspace.id
    }

    async fn receive_slack(&self, id: SlackWorkspaceId, body: Vec<u8>) -> SlackReceived {
        let request = SignedRequest { timestamp: "1".to_owned(), signature: "valid".to_owned(), body };
        self.cases.receive_slack(id, &request).await.unwrap()
    }

    /// Carries out what is due for some seconds.
    async fn run_slack(&self, seconds: u64) {
        for _ in 0..seconds {
            while self.cases.carry_out_due_slack().await.unwrap() > 0 {}
            self.world.advance(Duration::from_secs(1));
        }
    }

    async fn outcomes(&self, id: SlackWorkspaceId) -> Vec<Option<SlackOutcome>> {
        let mut events = self.cases.slack_events(&operator(), id, None, 100).await.unwrap();
        events.reverse();
        events.into_iter().map(|event| event.outcome).collect()
    }

    async fn count_jobs(&self) -> usize {
        self.store.jobs(JobFilter { limit: 100, ..JobFilter::default() }).await.unwrap().len()
    }
}

#[tokio::test]
async fn a_mention_creates_a_job_and_a_reply_sends_a_message_once() {
    for fixture in all().await {
        let (id, name) = (fixture.connect().await, fixture.name);
        let mention = FakeSlack::message("Ev1", "U1", ROOT, None, "<@UBOT> Fix the cart.");
        assert_eq!(fixture.receive_slack(id, mention.clone()).await, SlackReceived::Stored, "{name}");
        assert_eq!(fixture.receive_slack(id, mention).await, SlackReceived::Known, "{name}");
        fixture.run_slack(3).await;
        // Slack sends a mention in a thread as two events.
        for event in ["Ev2", "Ev3"] {
            let reply = FakeSlack::message(event, "U1", "1700000001.000100", Some(ROOT), "<@UBOT> Also the tests.");
            assert_eq!(fixture.receive_slack(id, reply).await, SlackReceived::Stored, "{name}");
        }
        fixture.run_slack(5).await;
        let outcomes = fixture.outcomes(id).await;
        let expected = [SlackOutcome::JobCreated, SlackOutcome::Message, SlackOutcome::Duplicate].map(Some);
        assert_eq!(outcomes, expected, "{name}");
        let jobs = fixture.store.jobs(JobFilter { limit: 100, ..JobFilter::default() }).await.unwrap();
        assert_eq!(jobs.len(), 1, "{name}");
        let messages = fixture.store.messages(jobs[0].id).await.unwrap();
        let prompts: Vec<&str> = messages.iter().map(|message| message.prompt.as_str()).collect();
        assert_eq!(prompts, ["Fix the cart.", "Also the tests."], "{name}");
        assert!(messages.iter().all(|message| message.origin == Origin::Slack), "{name}");
        assert_eq!(messages[0].author.as_deref(), Some("user1"), "{name}");
        let posts = fixture.slack.posts();
        assert_eq!(posts.len(), 2, "{name}: {posts:?}");
        assert!(
            posts.iter().all(|post| post.thread == ROOT && post.text.starts_with("⏳ Queued")),
            "{name}: {posts:?}"
        );
        assert_eq!(fixture.slack.reactions().len(), 2, "{name}");
    }
}

#[tokio::test]
async fn a_reply_that_arrives_before_the_mention_waits_for_it() {
    for fixture in all().await {
        let id = fixture.connect().await;
        let reply = FakeSlack::message("Ev1", "U1", "1700000001.000100", Some(ROOT), "Also the tests.");
        fixture.receive_slack(id, reply).await;
        fixture.run_slack(1).await;
        fixture.receive_slack(id, FakeSlack::message("Ev2", "U1", ROOT, None, "<@UBOT> Fix the cart.")).await;
        fixture.run_slack(10).await;
        let outcomes = fixture.outcomes(id).await;
        assert_eq!(outcomes, [SlackOutcome::Message, SlackOutcome::JobCreated].map(Some), "{}", fixture.name);
    }
}

#[tokio::test]
async fn people_of_a_channel_that_was_disconnected_no_longer_reach_its_jobs() {
    for fixture in all().await {
        let id = fixture.connect().await;
        fixture.receive_slack(id, FakeSlack::message("Ev1", "U1", ROOT, None, "<@UBOT> Fix the cart.")).await;
        fixture.run_slack(3).await;
        let edit = SlackEdit { channels: [("C1".to_owned(), None)].into(), ..SlackEdit::default() };
        fixture.cases.change_slack_workspace(&operator(), id, Precondition::None, edit).await.unwrap();
        let reply = FakeSlack::message("Ev2", "U1", "1700000001.000100", Some(ROOT), "Also the tests.");
        fixture.receive_slack(id, reply).await;
        fixture.run_slack(10).await;
        let expected = [SlackOutcome::JobCreated, SlackOutcome::NotAddressed].map(Some);
        assert_eq!(fixture.outcomes(id).await, expected, "{}", fixture.name);
    }
}

#[tokio::test]
async fn a_post_whose_answer_is_lost_is_not_posted_again() {
    for fixture in all().await {
        let id = fixture.connect().await;
        let lost = || SlackFault::After(SlackError::Unavailable("the connection was lost".to_owned()));
        fixture.slack.fail(lost());
        fixture.slack.fail(lost());
        fixture.receive_slack(id, FakeSlack::message("Ev1", "U1", ROOT, None, "<@UBOT> Fix the cart.")).await;
        fixture.run_slack(20).await;
        let posts = fixture.slack.posts();
        assert_eq!((posts.len(), fixture.slack.reactions().len()), (1, 1), "{}: {posts:?}", fixture.name);
    }
}

#[tokio::test]
async fn a_rate_limit_delays_posts_and_a_refusal_ends_them() {
    for fixture in all().await {
        let (id, name) = (fixture.connect().await, fixture.name);
        fixture.slack.fail(SlackFault::Before(SlackError::RateLimited(Duration::from_secs(30))));
        fixture.receive_slack(id, FakeSlack::message("Ev1", "U1", ROOT, None, "<@UBOT> Fix the cart.")).await;
        fixture.run_slack(20).await;
        assert_eq!(fixture.slack.requests(), 1, "{name}: the channel accepts nothing meanwhile");
        let refused = SlackError::Refused("Slack refused reactions.add (is_archived)".to_owned());
        fixture.slack.fail(SlackFault::Before(refused.clone()));
        fixture.slack.fail(SlackFault::Before(refused));
        fixture.run_slack(60).await;
        assert_eq!(fixture.slack.requests(), 3, "{name}");
        let posts = fixture.cases.slack_posts(&operator(), id, None, 10).await.unwrap();
        assert!(posts.iter().all(|post| post.detail.as_deref().unwrap_or_default().contains("is_archived")), "{name}");
    }
}

#[tokio::test]
async fn a_post_is_sent_again_after_an_administrator_has_repaired_the_app() {
    for fixture in all().await {
        let (id, name) = (fixture.connect().await, fixture.name);
        for _ in 0..6 {
            let error = SlackError::Repairable("Slack refused the request (token_revoked)".to_owned());
            fixture.slack.fail(SlackFault::Before(error));
        }
        fixture.receive_slack(id, FakeSlack::message("Ev1", "U1", ROOT, None, "<@UBOT> Fix the cart.")).await;
        fixture.run_slack(2).await;
        let posts = fixture.cases.slack_posts(&operator(), id, None, 10).await.unwrap();
        assert_eq!(posts.len(), 2, "{name}");
        for post in &posts {
            assert_eq!(post.state, SlackPostState::Open, "{name}");
            assert!(post.error().is_some_and(|error| error.contains("token_revoked")), "{name}: {post:?}");
        }
        let findings = fixture.cases.check_slack_workspace(&operator(), id).await.unwrap();
        assert!(findings.iter().any(|one| one.check == "posts" && one.text.contains("token_revoked")), "{name}");
        fixture.run_slack(60).await;
        assert_eq!((fixture.slack.posts().len(), fixture.slack.reactions().len()), (1, 1), "{name}");
        let posts = fixture.cases.slack_posts(&operator(), id, None, 10).await.unwrap();
        assert!(posts.iter().all(|post| post.error().is_none()), "{name}: {posts:?}");
    }
}

#[tokio::test]
async fn people_and_channels_that_are_not_connected_get_an_explanation_once() {
    for fixture in all().await {
        let (id, name) = (fixture.connect().await, fixture.name);
        let says =
            |event: &str, account: &str, ts: &str| FakeSlack::message(event, account, ts, Some(ROOT), "<@UBOT> Go.");
        fixture.receive_slack(id, says("Ev1", "U9", "1700000001.000100")).await;
        fixture.receive_slack(id, says("Ev2", "U9", "1700000002.000100")).await;
        fixture.receive_slack(id, says("Ev3", "U2", "1700000003.000100")).await;
        let elsewhere = FakeSlack::direct("Ev4", "U1", "1700000004.000100", "Go.");
        fixture.receive_slack(id, elsewhere).await;
        fixture.run_slack(20).await;
        let expected = [
            SlackOutcome::UnknownUser,
            SlackOutcome::UnknownUser,
            SlackOutcome::NotPermitted,
            SlackOutcome::UnknownChannel,
        ];
        assert_eq!(fixture.outcomes(id).await, expected.map(Some), "{name}");
        assert_eq!((fixture.count_jobs().await, fixture.slack.posts().len()), (0, 3), "{name}");
    }
}

#[tokio::test]
async fn a_person_connects_an_account_with_a_code_that_is_valid_once() {
    for fixture in all().await {
        let (id, name) = (fixture.connect().await, fixture.name);
        let member = Arc::new(user(1, Role::Member));
        let (code, _) = fixture.cases.create_slack_code(&Caller::user(member.clone(), None)).await.unwrap();
        let link =
            |event: &str, account: &str, ts: &str| FakeSlack::direct(event, account, ts, &format!("link {code}"));
        fixture.receive_slack(id, link("Ev1", "U7", "1700000001.000100")).await;
        fixture.run_slack(3).await;
        fixture.receive_slack(id, link("Ev2", "U8", "1700000002.000100")).await;
        fixture.run_slack(3).await;
        let expected = [SlackOutcome::Linked, SlackOutcome::CodeRefused].map(Some);
        assert_eq!(fixture.outcomes(id).await, expected, "{name}");
        let settings = fixture.cases.slack_workspace(&operator(), id).await.unwrap().workspace.settings;
        assert_eq!((settings.users.get("U7"), settings.users.get("U8")), (Some(&member.id), None), "{name}");
        let (old, _) = fixture.cases.create_slack_code(&Caller::user(member, None)).await.unwrap();
        fixture.world.advance(Duration::from_secs(600));
        fixture.receive_slack(id, FakeSlack::direct("Ev3", "U8", "1700000003.000100", &format!("link {old}"))).await;
        fixture.run_slack(3).await;
        assert_eq!(fixture.outcomes(id).await.last(), Some(&Some(SlackOutcome::CodeRefused)), "{name}");
    }
}

#[tokio::test]
async fn a_code_that_is_sent_in_a_channel_is_revoked_at_once_and_starts_nothing() {
    for fixture in all().await {
        let (id, name) = (fixture.connect().await, fixture.name);
        fixture.receive_slack(id, FakeSlack::message("Ev1", "U1", ROOT, None, "<@UBOT> Fix the cart.")).await;
        fixture.run_slack(3).await;
        let member = Arc::new(user(1, Role::Member));
        for (number, thread, text) in [(1, None, "<@UBOT> link CODE"), (2, Some(ROOT), "link CODE")] {
            let (code, _) = fixture.cases.create_slack_code(&Caller::user(member.clone(), None)).await.unwrap();
            let ts = format!("170000000{number}.000100");
            let body = FakeSlack::message(&format!("EvC{number}"), "U7", &ts, thread, &text.replace("CODE", &code));
            assert_eq!(fixture.receive_slack(id, body).await, SlackReceived::Stored, "{name}");
            let found = fixture.store.slack_code(TokenHash::of(&code), fixture.engine.now()).await.unwrap();
            assert_eq!(found, None, "{name}: {text}");
            let direct = FakeSlack::direct(&format!("EvD{number}"), "U7", &ts, &format!("link {code}"));
            fixture.receive_slack(id, direct).await;
            fixture.run_slack(5).await;
            let events = fixture.cases.slack_events(&operator(), id, None, 10).await.unwrap();
            assert!(!format!("{events:?}").contains(&code), "{name}: the code is stored");
            let replies = fixture.slack.posts().into_iter().filter(|post| post.thread == thread.unwrap_or(&ts));
            let mut replies = replies.filter(|post| post.channel == "C1");
            assert!(replies.any(|post| post.text.contains("in a direct message")), "{name}: no answer in the thread");
        }
        let refused = SlackOutcome::CodeRefused;
        let expected = [SlackOutcome::JobCreated, refused, refused, refused, refused].map(Some);
        assert_eq!(fixture.outcomes(id).await, expected, "{name}");
        let jobs = fixture.store.jobs(JobFilter { limit: 100, ..JobFilter::default() }).await.unwrap();
        assert_eq!(jobs.len(), 1, "{name}");
        assert_eq!(fixture.store.messages(jobs[0].id).await.unwrap().len(), 1, "{name}");
        let line = format!("service slack_code.revoked {}", member.id);
        assert_eq!(fixture.audited().await.into_iter().filter(|one| *one == line).count(), 2, "{name}");
    }
}

#[tokio::test]
async fn a_job_is_stopped_and_a_deleted_message_is_withdrawn() {
    for fixture in all().await {
        let (id, name) = (fixture.connect().await, fixture.name);
        fixture.receive_slack(id, FakeSlack::message("Ev1", "U1", ROOT, None, "<@UBOT> Fix the cart.")).await;
        fixture.receive_slack(id, FakeSlack::message("Ev2", "U1", "1700000001.000100", Some(ROOT), "More.")).await;
        fixture.run_slack(3).await;
        fixture.receive_slack(id, FakeSlack::deleted("Ev3", "1700000001.000100", ROOT)).await;
        fixture.run_slack(3).await;
        fixture.receive_slack(id, FakeSlack::message("Ev4", "U1", "1700000002.000100", Some(ROOT), "stop")).await;
        fixture.run_slack(15).await;
        let expected =
            [SlackOutcome::JobCreated, SlackOutcome::Message, SlackOutcome::MessageWithdrawn, SlackOutcome::Cancelled];
        assert_eq!(fixture.outcomes(id).await, expected.map(Some), "{name}");
        let events = fixture.cases.slack_events(&operator(), id, None, 10).await.unwrap();
        assert!(events.iter().all(|event| event.state == InboxState::Done), "{name}");
        let texts: Vec<String> = fixture.slack.posts().into_iter().map(|post| post.text).collect();
        assert!(texts.iter().all(|text| !text.starts_with("⏳")), "{name}: {texts:?}");
    }
}

#[tokio::test]
async fn a_wrong_signature_token_or_secret_is_refused() {
    for fixture in all().await {
        let (id, name) = (fixture.connect().await, fixture.name);
        let body = FakeSlack::message("Ev1", "U1", ROOT, None, "<@UBOT> Go.");
        let forged = SignedRequest { timestamp: "1".to_owned(), signature: "v0=0".to_owned(), body };
        assert_eq!(fixture.cases.receive_slack(id, &forged).await, Err(HookRefusal::Signature), "{name}");
        let other = SlackWorkspaceId::from_uuid(Uuid::from_u128(99));
        assert_eq!(fixture.cases.receive_slack(other, &forged).await, Err(HookRefusal::NotFound), "{name}");
        let edit = |token: &str| {
            let mut edit = SlackEdit { secrets: secrets().into(), ..SlackEdit::default() };
            edit.secrets.insert(SlackSecret::BotToken, Some(SecretValue(token.to_owned())));
            edit
        };
        let create =
            async |token| fixture.cases.create_slack_workspace(&operator(), edit(token), None, |_| String::new()).await;
        let kind = |error: Error| match error {
            Error::Refused(refusal) => Some(refusal.kind),
            _ => None,
        };
        assert_eq!(create("xoxb-revoked").await.err().and_then(kind), Some(RefusalKind::SlackFailed), "{name}");
        assert_eq!(create("xapp-12345").await.err().and_then(kind), Some(RefusalKind::Invalid), "{name}");
        assert!(create("xoxb-12345").await.is_err(), "{name}: it is connected already");
    }
}

#[tokio::test]
async fn a_mention_by_a_bot_is_refused_in_words_once() {
    for fixture in all().await {
        let (id, name) = (fixture.connect().await, fixture.name);
        for (event, ts) in [("Ev1", ROOT), ("Ev2", "1700000001.000100")] {
            // The account of a bot could be connected with a user.
            let more = json!({ "bot": true });
            let mention = FakeSlack::message_with(event, "U1", ts, Some(ROOT), "<@UBOT> Deploy.", &more);
            assert_eq!(fixture.receive_slack(id, mention).await, SlackReceived::Stored, "{name}");
        }
        fixture.run_slack(5).await;
        assert_eq!(fixture.outcomes(id).await, [SlackOutcome::NotPermitted; 2].map(Some), "{name}");
        assert_eq!(fixture.count_jobs().await, 0, "{name}");
        let posts = fixture.slack.posts();
        assert_eq!(posts.len(), 1, "{name}: {posts:?}");
        assert!(posts[0].thread == ROOT && posts[0].text.contains("only from people"), "{name}: {posts:?}");
    }
}

#[tokio::test]
async fn in_a_shared_channel_only_connected_people_start_jobs() {
    for fixture in all().await {
        let (id, name) = (fixture.connect().await, fixture.name);
        // Slack says that the event occurred in the other workspace, and that it is for this one.
        let more = json!({ "team": "T9", "author_team": "T9", "installations": [{ "team": "T1" }] });
        let stranger = FakeSlack::message_with("Ev1", "U9", ROOT, None, "<@UBOT> Deploy.", &more);
        assert_eq!(fixture.receive_slack(id, stranger).await, SlackReceived::Stored, "{name}");
        fixture.run_slack(3).await;
        assert_eq!(fixture.count_jobs().await, 0, "{name}");
        let posts = fixture.slack.posts();
        assert_eq!(posts.len(), 1, "{name}: {posts:?}");
        assert!(posts[0].text.contains("you belong to another workspace"), "{name}: {posts:?}");

        let more = json!({ "team": "T9", "author_team": "T1", "installations": [{ "team": "T1" }] });
        let member = FakeSlack::message_with("Ev2", "U1", "1700000009.000100", None, "<@UBOT> Fix it.", &more);
        assert_eq!(fixture.receive_slack(id, member).await, SlackReceived::Stored, "{name}");
        fixture.run_slack(3).await;
        let expected = [SlackOutcome::UnknownUser, SlackOutcome::JobCreated].map(Some);
        assert_eq!(fixture.outcomes(id).await, expected, "{name}");
        assert_eq!(fixture.count_jobs().await, 1, "{name}");
    }
}

#[tokio::test]
async fn an_installation_for_an_organization_gets_the_events_of_its_workspaces() {
    for fixture in all().await {
        let (id, name) = (fixture.connect().await, fixture.name);
        let of_org = json!({ "team": "T5", "installations": [{ "enterprise": "E1" }] });
        let mention =
            |event: &str, ts: &str| FakeSlack::message_with(event, "U1", ts, None, "<@UBOT> Fix it.", &of_org);
        // The workspace was connected before the app was installed for the organization.
        assert_eq!(fixture.receive_slack(id, mention("Ev1", ROOT)).await, SlackReceived::Stored, "{name}");
        fixture.run_slack(3).await;
        let events = fixture.cases.slack_events(&operator(), id, None, 10).await.unwrap();
        assert_eq!(events[0].outcome, Some(SlackOutcome::Refused), "{name}");
        let detail = events[0].detail.as_deref().unwrap();
        assert!(detail.contains("set the bot token again"), "{name}: {detail}");
        let reply = FakeSlack::message_with("Ev2", "U1", "1700000002.000100", Some(ROOT), "Hello.", &of_org);
        assert_eq!(fixture.receive_slack(id, reply).await, SlackReceived::NotUsed, "{name}: it addresses nobody");

        let token = Some(SecretValue("xoxb-12345-org".to_owned()));
        let edit = SlackEdit { secrets: [(SlackSecret::BotToken, token)].into(), ..SlackEdit::default() };
        fixture.cases.change_slack_workspace(&operator(), id, Precondition::None, edit).await.unwrap();
        let second = mention("Ev3", "1700000009.000100");
        assert_eq!(fixture.receive_slack(id, second).await, SlackReceived::Stored, "{name}");
        fixture.run_slack(3).await;
        assert_eq!(fixture.count_jobs().await, 1, "{name}");
        let other = json!({ "team": "T6", "installations": [{ "enterprise": "E2" }] });
        let other = FakeSlack::message_with("Ev4", "U1", "1700000019.000100", None, "<@UBOT> Fix it.", &other);
        assert_eq!(fixture.receive_slack(id, other).await, SlackReceived::Stored, "{name}");
        fixture.run_slack(3).await;
        assert_eq!(fixture.count_jobs().await, 1, "{name}: another organization");
    }
}

#[tokio::test]
async fn an_event_for_another_workspace_reaches_it_if_the_app_is_the_same() {
    for (is_same, fixture) in all()
        .await
        .into_iter()
        .flat_map(|fixture| [(true, fixture)])
        .chain(all().await.into_iter().map(|fixture| (false, fixture)))
    {
        let (id, name) = (fixture.connect().await, fixture.name);
        let signing = if is_same { "0123456789" } else { "9876543210" };
        let secret = |text: &str| Some(SecretValue(text.to_owned()));
        let member = fixture.cases.slack_workspace(&operator(), id).await.unwrap().workspace.settings.users["U1"];
        let edit = SlackEdit {
            channels: [("C1".to_owned(), Some(shop().id))].into(),
            users: [("U1".to_owned(), Some(member))].into(),
            secrets: [
                (SlackSecret::BotToken, secret("xoxb-12345-other")),
                (SlackSecret::SigningSecret, secret(signing)),
            ]
            .into(),
            ..SlackEdit::default()
        };
        let made = fixture.cases.create_slack_workspace(&operator(), edit, None, |_| String::new()).await.unwrap();
        let Answered::New(other) = made else { panic!("there is no idempotency key") };
        let more = json!({ "team": "T2" });
        let mention = FakeSlack::message_with("Ev1", "U1", ROOT, None, "<@UBOT> Fix it.", &more);
        assert_eq!(fixture.receive_slack(id, mention).await, SlackReceived::Stored, "{name}");
        fixture.run_slack(3).await;
        let (here, there) = (fixture.outcomes(id).await, fixture.outcomes(other.workspace.id).await);
        match is_same {
            true => assert_eq!((here, there), (vec![], vec![Some(SlackOutcome::JobCreated)]), "{name}"),
            // The administrator of one app must not write for another one.
            false => assert_eq!((here, there), (vec![Some(SlackOutcome::Refused)], vec![]), "{name}"),
        }
        assert_eq!(fixture.count_jobs().await, usize::from(is_same), "{name}");
    }
}

#[tokio::test]
async fn edits_and_files_are_told_where_the_message_is() {
    for fixture in all().await {
        let (id, name) = (fixture.connect().await, fixture.name);
        let files = json!({ "files": 1 });
        let mention = FakeSlack::message_with("Ev1", "U1", ROOT, None, "<@UBOT> Fix this.", &files);
        fixture.receive_slack(id, mention).await;
        fixture.run_slack(4).await;
        let picture = FakeSlack::message_with("Ev2", "U1", "1700000001.000100", Some(ROOT), "", &files);
        fixture.receive_slack(id, picture).await;
        let edited = json!({ "edited": true });
        for event in ["Ev3", "Ev4"] {
            let edit = FakeSlack::message_with(event, "U1", ROOT, Some(ROOT), "<@UBOT> Fix that.", &edited);
            fixture.receive_slack(id, edit).await;
        }
        // An edit in a thread without a job, which mentions nobody.
        let edit = FakeSlack::message_with("Ev5", "U1", "1700000031.000100", Some("1700000030.000100"), "x", &edited);
        fixture.receive_slack(id, edit).await;
        fixture.run_slack(9).await;
        let outcomes = fixture.outcomes(id).await;
        let expected = [
            SlackOutcome::JobCreated,
            SlackOutcome::Refused,
            SlackOutcome::TooLate,
            SlackOutcome::TooLate,
            SlackOutcome::TooLate,
        ];
        assert_eq!(outcomes, expected.map(Some), "{name}");
        let posts = fixture.slack.posts();
        let texts = |part: &str| posts.iter().filter(|post| post.text.contains(part) && post.thread == ROOT).count();
        assert_eq!((texts("I do not read the file"), texts("I do not read edits")), (2, 1), "{name}: {posts:?}");
        assert_eq!(posts.len(), 4, "{name}: the status too: {posts:?}");
    }
}
