//! Tests of the pages of Slack workspaces, and of the code for an account.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use journeyman_core::code_host::PullState;
use journeyman_core::inbox::InboxState;
use journeyman_core::ports::{SlackStore as _, UserStore as _};
use journeyman_core::slack::{
    NewSlackEvent, NewSlackPost, SLACK_LEASE, SlackContent, SlackDecision, SlackEvent, SlackMode, SlackNext,
    SlackOutcome, SlackPostContent, SlackPostState, SlackPosted, SlackSecret, SlackWorkspace,
};
use journeyman_core::time::Clock as _;
use journeyman_core::user::Role;
use journeyman_testkit::all_stored;

use super::pulls::{Fake, detail};
use super::{Fixture, fixture};

/// Returns a fixture with a connected workspace, and the path of its page.
async fn connected() -> (Fixture, String) {
    let fixture = fixture(Arc::new(Fake::with(detail(PullState::Open)))).await;
    let form = "mode=events&bot-token=xoxb-12345&signing-secret=0123456789";
    let made = fixture.send(Some(Role::Administrator), Method::POST, "/system/slack", form).await;
    assert_eq!(made.status, StatusCode::SEE_OTHER, "{}", made.body);
    let id = all_stored::<SlackWorkspace>(&*fixture.store, None).await.remove(0).id;
    (fixture, format!("/system/slack/{id}"))
}

#[tokio::test]
async fn a_workspace_is_connected_with_channels_and_people_and_shows_no_secret() {
    let (fixture, path) = connected().await;
    let get = async |path: &str| fixture.send(Some(Role::Administrator), Method::GET, path, "").await.body;
    let post = async |path: &str, form: &str| fixture.send(Some(Role::Administrator), Method::POST, path, form).await;
    let user = fixture.store.user_by_name("member".into()).await.unwrap().unwrap().id;
    for (below, form) in [
        ("channels", "channel=C1&project=shop".to_owned()),
        ("people", format!("account=U1&user={user}")),
        ("edit", "name=Our+Slack&mode=socket&app-token=xapp-12345&version=3".to_owned()),
    ] {
        let saved = post(&format!("{path}/{below}"), &form).await;
        assert_eq!(saved.status, StatusCode::SEE_OTHER, "{below}: {}", saved.body);
    }
    let page = get(&path).await;
    for part in ["Our Slack", "<code>C1</code> creates jobs in shop", "<code>U1</code> is <bdi>member</bdi>"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("xoxb-12345") && !page.contains("xapp-12345") && !page.contains("0123456789"), "{page}");
    let stored = all_stored::<SlackWorkspace>(&*fixture.store, None).await.remove(0);
    assert_eq!(stored.settings.mode, SlackMode::Socket);
    assert_eq!(fixture.store.slack_secrets(stored.id).await.unwrap()[&SlackSecret::AppToken].0, "xapp-12345");
    assert!(get("/system/slack").await.contains("none received"));
    let checked = post(&format!("{path}/check"), "").await;
    assert!(checked.body.contains("Slack accepts the token for the workspace Acme"), "{}", checked.body);
    for (below, form) in [("channels", "channel=C1&remove=on"), ("people", "account=U1&remove=on")] {
        assert_eq!(post(&format!("{path}/{below}"), form).await.status, StatusCode::SEE_OTHER);
    }
    let settings = all_stored::<SlackWorkspace>(&*fixture.store, None).await.remove(0).settings;
    assert!(settings.channels.is_empty() && settings.users.is_empty());
    assert_eq!(post(&format!("{path}/remove"), "version=1").await.status, StatusCode::CONFLICT);
    assert_eq!(post(&format!("{path}/remove"), "").await.status, StatusCode::SEE_OTHER);
    assert!(all_stored::<SlackWorkspace>(&*fixture.store, None).await.is_empty());
}

#[tokio::test]
async fn a_refused_form_says_why_and_shows_no_secret() {
    let (fixture, path) = connected().await;
    for (path, form, named) in [
        ("/system/slack", "mode=socket&bot-token=xoxb-12345", "App token: is missing"),
        ("/system/slack", "mode=events&bot-token=xapp-5ecret&signing-secret=0123456789", "Bot token: must be"),
        ("/system/slack", "mode=events&bot-token=xoxb-revoked&signing-secret=0123456789", "token_revoked"),
        ("/system/slack", "mode=events&bot-token=xoxb-12345&signing-secret=0123456789", "already"),
        (&format!("{path}/channels"), "channel=general&project=shop", "is not an ID of Slack"),
        (&format!("{path}/channels"), "channel=C1", "Choose a project"),
        (&format!("{path}/edit"), "name=x&mode=events&version=7", "Nothing was changed"),
    ] {
        let refused = fixture.send(Some(Role::Administrator), Method::POST, path, form).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{form}: {}", refused.body);
        assert!(refused.body.contains(named), "{named}: {}", refused.body);
        for secret in ["5ecret", "xoxb-12345", "xoxb-revoked", "0123456789"] {
            assert!(!refused.body.contains(&format!("\"{secret}")), "{form}: {}", refused.body);
        }
    }
}

#[tokio::test]
async fn a_refused_form_keeps_its_input() {
    let (fixture, path) = connected().await;
    let user = fixture.store.user_by_name("member".into()).await.unwrap().unwrap().id;
    for (below, form, kept) in [
        ("channels", "channel=general&project=shop".to_owned(), vec!["value=\"general\"", "<option selected>shop"]),
        ("people", format!("account=ada&user={user}"), vec!["value=\"ada\"", "selected>member"]),
        (
            "edit",
            "name=New+name&mode=socket&version=7".to_owned(),
            vec!["value=\"New name\"", "value=\"socket\" checked", "name=\"version\" value=\"7\""],
        ),
    ] {
        let refused = fixture.send_with_turbo(Role::Administrator, &format!("{path}/{below}"), &form).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{form}: {}", refused.body);
        for part in kept {
            assert!(refused.body.contains(part), "{form}: {part}: {}", refused.body);
        }
    }
}

#[tokio::test]
async fn with_a_script_the_findings_of_a_test_are_shown_on_the_open_page() {
    let (fixture, path) = connected().await;
    let checked = fixture.send_with_turbo(Role::Administrator, &format!("{path}/check"), "").await;
    assert_eq!(checked.status, StatusCode::OK, "{}", checked.body);
    assert!(checked.body.starts_with("<turbo-stream action=\"replace\" target=\"checked\">"), "{}", checked.body);
    assert!(checked.body.contains("Slack accepts the token for the workspace Acme"), "{}", checked.body);
    let page = fixture.send(Some(Role::Administrator), Method::GET, &path, "").await.body;
    assert!(page.contains("<div id=\"checked\" hidden></div>"), "{page}");
}

#[tokio::test]
async fn the_error_of_a_post_is_shown_while_it_is_sent_again() {
    let (fixture, path) = connected().await;
    let (store, now) = (&fixture.store, fixture.world.now());
    let workspace = all_stored::<SlackWorkspace>(&**store, None).await.remove(0).id;
    let event = SlackEvent {
        event_id: "Ev1".to_owned(),
        team: "T1".to_owned(),
        installations: Vec::new(),
        author_team: None,
        channel: "C1".to_owned(),
        thread: "1.0".to_owned(),
        ts: "1.0".to_owned(),
        content: SlackContent::Deleted,
    };
    store.receive_slack(NewSlackEvent { workspace, event, at: now }).await.unwrap();
    let event = store.claim_slack_events(now, SLACK_LEASE, 1).await.unwrap().remove(0);
    let content = SlackPostContent::Text("Hello".to_owned());
    let post = NewSlackPost { thread: event.thread.clone(), purpose: "reply".to_owned(), content };
    let next = SlackNext::Ends(InboxState::Done, SlackOutcome::Answered, None);
    let decision = SlackDecision { next, job: None, thread: None, posts: vec![post], at: now };
    assert!(store.decide_slack_event(event.number, event.attempts, decision).await.unwrap());
    for (state, badge) in [(SlackPostState::Open, "sent again"), (SlackPostState::Failed, "failed")] {
        let post = store.claim_slack_posts(now, SLACK_LEASE, 1).await.unwrap().remove(0);
        let posted = SlackPosted {
            number: post.number,
            claim: post.claims,
            ts: None,
            shown: None,
            state,
            detail: Some("Slack refused chat.postMessage (token_revoked): install the app again".to_owned()),
            failures: 1,
            due_at: Some(now),
            free_at: now,
        };
        assert!(store.finish_slack_post(posted).await.unwrap());
        for path in [path.as_str(), "/system/slack"] {
            let page = fixture.send(Some(Role::Administrator), Method::GET, path, "").await.body;
            assert!(page.contains("token_revoked") && page.contains(&format!(">{badge}</span>")), "{path}: {page}");
        }
    }
    let checked = fixture.send(Some(Role::Administrator), Method::POST, &format!("{path}/check"), "").await.body;
    let arrived = "The last one arrived <time datetime=\"2026-11-21T01:25:30.123Z\" title=\"2026-11-21 01:25 UTC\"";
    assert!(checked.contains(arrived), "{checked}");
}

#[tokio::test]
async fn a_channel_and_a_person_that_are_disconnected_can_be_connected_again() {
    let (fixture, path) = connected().await;
    let post = async |path: &str, form: &str| fixture.send(Some(Role::Administrator), Method::POST, path, form).await;
    let user = fixture.store.user_by_name("member".into()).await.unwrap().unwrap().id;
    for (folder, name, field, value) in
        [("channels", "channel=C9", "project", "shop".to_owned()), ("people", "account=U9", "user", user.to_string())]
    {
        let path = format!("{path}/{folder}");
        let sent = post(&path, &format!("{name}&{field}={value}")).await;
        let toast = fixture.follow(Role::Administrator, &sent).await.body;
        assert!(toast.contains("Saved.</p>") && !toast.contains(">Undo</button>"), "{toast}");
        let sent = post(&path, &format!("{name}&remove=on")).await;
        let toast = fixture.follow(Role::Administrator, &sent).await.body;
        let undo = format!("<input type=\"hidden\" name=\"{field}\" value=\"{value}\"><button");
        assert!(toast.contains(&format!("<form method=\"post\" action=\"{path}\"><input")), "{toast}");
        assert!(toast.contains(&undo), "{toast}");
    }
}

#[tokio::test]
async fn a_code_for_an_account_is_shown_once() {
    let (fixture, _) = connected().await;
    let account = fixture.send(Some(Role::Member), Method::GET, "/account", "").await;
    assert!(account.body.contains("Link your Slack account") && account.body.contains("not connected"));
    let made = fixture.send(Some(Role::Member), Method::POST, "/account/slack", "").await;
    let page = fixture.follow(Role::Member, &made).await;
    assert_eq!(page.status, StatusCode::OK);
    let shown = page.body.split_once("<code id=\"slack-code\">link ").unwrap().1;
    let code = shown.split_once('<').unwrap().0;
    assert!(code.len() > 20, "{code}");
    let again = fixture.send(Some(Role::Member), Method::GET, "/account", "").await;
    assert!(!again.body.contains(code));
    let viewer = fixture.send(Some(Role::Viewer), Method::GET, "/account", "").await;
    assert!(!viewer.body.contains("Link your Slack account"));
}
