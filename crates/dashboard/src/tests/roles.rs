//! Tests of the permissions of each role, for each page and each form.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::http::{Method, StatusCode};
use journeyman_core::code_host::PullState;
use journeyman_core::engine::Admission;
use journeyman_core::ids::{JobId, KeyId, UserId};
use journeyman_core::key::{NewKey, Scope};
use journeyman_core::ports::{JobFilter, JobLists, JobStore, KeyStore, UserStore};
use journeyman_core::project::Project;
use journeyman_core::user::{Identity, Role, Session, TokenHash, User};
use journeyman_testkit::Seeds as _;
use uuid::Uuid;

use super::pulls::{Fake, detail};
use super::{Fixture, START, audit_entry, fixture, job, project};

/// The path of each page, and its status for an administrator, a member and a viewer.
const PAGES: &[(&str, [u16; 3])] = &[
    ("/", [200, 200, 200]),
    ("/?whose=everybody", [200, 200, 200]),
    ("/jobs", [200, 200, 200]),
    ("/projects/empty/jobs", [200, 200, 200]),
    ("/projects", [200, 200, 200]),
    ("/projects/new", [200, 403, 403]),
    ("/projects/shop", [303, 303, 303]),
    ("/projects/nowhere/jobs", [404, 404, 404]),
    ("/projects/shop/jobs", [200, 200, 200]),
    ("/projects/shop/jobs/new", [200, 200, 403]),
    ("/projects/shop/jobs/JOB", [200, 200, 200]),
    ("/projects/shop/jobs/job_nowhere", [404, 404, 404]),
    ("/projects/shop/jobs/JOB/changes", [200, 200, 200]),
    ("/projects/shop/jobs/JOB/changes?commit=aaaaaaaa", [404, 404, 404]),
    ("/projects/shop/jobs/JOB/changes?message=1", [404, 404, 404]),
    ("/projects/shop/jobs/JOB/changes/lines?path=x.txt&from=1&to=9&shift=0&tip=x", [409, 409, 409]),
    ("/projects/shop/jobs/JOB/runs", [200, 200, 200]),
    ("/projects/shop/jobs/JOB/events", [200, 200, 200]),
    ("/projects/shop/jobs/JOB/record", [200, 200, 200]),
    ("/projects/shop/pulls", [200, 200, 200]),
    ("/projects/shop/pulls/new", [200, 200, 403]),
    ("/projects/shop/inbox", [200, 200, 200]),
    ("/system/inbox", [200, 403, 403]),
    ("/projects/shop/pulls/7", [200, 200, 200]),
    ("/projects/shop/pulls/7/commits", [200, 200, 200]),
    ("/projects/shop/pulls/7/files", [200, 200, 200]),
    ("/projects/shop/pulls/7/files?commit=ffffffff", [404, 404, 404]),
    ("/projects/shop/pulls/7/files/lines?path=x.txt&from=1&to=9&shift=0&tip=x", [404, 404, 404]),
    ("/projects/shop/pulls/7/live?after=0", [404, 404, 404]),
    ("/projects/shop/settings/repository", [200, 200, 200]),
    ("/projects/shop/settings/agent", [200, 200, 200]),
    ("/projects/shop/settings/environment", [200, 200, 200]),
    ("/projects/shop/settings/sandbox", [200, 200, 200]),
    ("/projects/shop/settings/pull-requests", [200, 200, 200]),
    ("/projects/shop/settings/comments", [200, 200, 200]),
    ("/projects/shop/settings/limits", [200, 200, 200]),
    ("/projects/shop/settings/templates", [200, 200, 200]),
    ("/projects/shop/settings/templates/new", [200, 403, 403]),
    ("/projects/shop/settings/templates/tpl_0193456789ab7def8123456789abcdef/edit", [404, 403, 403]),
    ("/projects/shop/settings/templates/none/edit", [404, 403, 403]),
    ("/projects/shop/jobs/new?template=none", [404, 404, 403]),
    ("/projects/shop/settings/use", [200, 200, 200]),
    ("/projects/shop/settings/nothing", [404, 404, 404]),
    ("/keys", [200, 200, 403]),
    ("/keys/new", [200, 200, 403]),
    ("/keys/exchanged", [200, 403, 403]),
    ("/system", [200, 200, 200]),
    ("/usage", [200, 200, 200]),
    ("/usage?days=7&project=shop", [200, 200, 200]),
    ("/system/code-hosts", [200, 403, 403]),
    ("/system/code-hosts/new", [200, 403, 403]),
    ("/system/code-hosts/new?kind=gitea", [200, 403, 403]),
    ("/system/code-hosts/new?kind=sourcehut", [404, 403, 403]),
    ("/system/code-hosts/gitlab/edit", [422, 403, 403]),
    ("/system/code-hosts/none/edit", [404, 403, 403]),
    ("/system/code-hosts/github/app", [200, 403, 403]),
    ("/system/code-hosts/github/callback?code=c&state=s", [422, 403, 403]),
    ("/system/trusts", [200, 403, 403]),
    ("/system/trusts/new", [200, 403, 403]),
    ("/system/trusts/new?preset=gitlab", [200, 403, 403]),
    ("/system/trusts/new?preset=none", [404, 403, 403]),
    ("/system/trusts/trust_0193456789ab7def8123456789abcdef/edit", [404, 403, 403]),
    ("/system/trusts/none/edit", [404, 403, 403]),
    ("/system/slack", [200, 403, 403]),
    ("/system/slack/new", [200, 403, 403]),
    ("/system/slack/new?mode=events", [200, 403, 403]),
    ("/system/slack/new?mode=none", [404, 403, 403]),
    ("/system/slack/slw_0193456789ab7def8123456789abcdef", [404, 403, 403]),
    ("/system/slack/none", [404, 403, 403]),
    ("/users", [200, 403, 403]),
    ("/audit", [200, 403, 403]),
    ("/audit?who=cli&what=key.&project=shop&from=2026-11-01", [200, 403, 403]),
    ("/account", [200, 200, 200]),
    ("/search", [200, 200, 200]),
    ("/search?q=Fix", [200, 200, 200]),
    ("/keyboard", [200, 200, 200]),
    ("/secrets/none", [410, 410, 410]),
    ("/confirm/done", [200, 200, 200]),
    ("/account/second-factor", [200, 200, 200]),
    ("/account/passkeys", [200, 200, 200]),
    ("/confirm/provider", [404, 404, 404]),
];

/// The path and the content of each form, and its status for an administrator, a member and a viewer.
const FORMS: &[(&str, &str, [u16; 3])] = &[
    ("/projects", "id=a&where=hosted", [303, 403, 403]),
    ("/projects/empty/delete", "id=empty", [303, 403, 403]),
    ("/projects/shop/settings/agent", "agent=journeyman&model=m", [303, 403, 403]),
    ("/projects/shop/settings/repository", "repository=local:shop", [303, 403, 403]),
    ("/projects/shop/settings/templates", "name=a&prompt=x", [303, 403, 403]),
    ("/projects/shop/settings/templates", "name=a", [422, 403, 403]),
    ("/projects/shop/settings/templates/tpl_0193456789ab7def8123456789abcdef/edit", "name=a", [404, 403, 403]),
    ("/projects/shop/settings/templates/none/edit", "name=a", [404, 403, 403]),
    ("/projects/shop/settings/templates/tpl_0193456789ab7def8123456789abcdef/remove", "", [404, 403, 403]),
    ("/projects/shop/settings/templates/none/remove", "", [404, 403, 403]),
    ("/projects/shop/jobs", "prompt=x", [303, 303, 403]),
    // The project has branches, so its page answers.
    ("/projects/shop/import", "url=https://git.example/a.git", [303, 403, 403]),
    ("/jobs/archive", "job=shop%2Fnone", [404, 404, 403]),
    ("/jobs/archive", "", [422, 422, 403]),
    ("/jobs/unarchive", "job=shop%2Fnone", [404, 404, 403]),
    ("/jobs/unarchive", "", [422, 422, 403]),
    ("/projects/shop/jobs/JOB/messages", "prompt=x", [303, 303, 403]),
    ("/projects/shop/jobs/JOB/changes/comments", "path=x.txt&side=new&line=2&body=x", [303, 303, 403]),
    ("/projects/shop/jobs/JOB/messages/MESSAGE/withdraw", "", [303, 303, 403]),
    ("/projects/shop/jobs/JOB/again", "message=x", [303, 303, 403]),
    ("/projects/shop/jobs/JOB/update", "", [422, 422, 403]),
    ("/projects/shop/jobs/JOB/retry", "", [303, 303, 403]),
    ("/projects/shop/jobs/JOB/cancel", "", [303, 303, 403]),
    ("/projects/shop/jobs/JOB/archive", "", [303, 303, 403]),
    ("/projects/shop/jobs/JOB/unarchive", "", [303, 303, 403]),
    ("/projects/shop/pulls/7/update", "", [404, 404, 403]),
    ("/projects/shop/pulls/7/comments/1/resolve", "resolved=yes", [404, 404, 403]),
    ("/projects/shop/pulls/7/comments/none/resolve", "resolved=yes", [404, 404, 404]),
    ("/projects/shop/pulls/7/merge", "", [303, 303, 403]),
    ("/projects/shop/pulls/7/close", "", [303, 303, 403]),
    ("/projects/shop/pulls/7/comments", "body=x", [303, 303, 403]),
    ("/projects/shop/pulls/7/lines", "path=x.txt&side=new&line=2&body=x", [303, 303, 403]),
    ("/projects/shop/pulls/7/review", "body=x", [303, 303, 403]),
    ("/projects/shop/pulls/7/drafts/1/remove", "", [303, 303, 403]),
    ("/keys", "name=x&days=30&project=shop", [303, 303, 403]),
    ("/keys/KEY/rotate", "keep=24", [303, 303, 403]),
    ("/keys/KEY/revoke", "", [303, 303, 403]),
    ("/system/code-hosts", "id=a&kind=gitea&url=https://a.example&token=t", [303, 403, 403]),
    ("/system/code-hosts/gitlab/edit", "url=https://a.example", [422, 403, 403]),
    ("/system/code-hosts/gitlab/check", "", [200, 403, 403]),
    ("/system/code-hosts/gitlab/remove", "", [409, 403, 403]),
    ("/system/code-hosts/none/remove", "", [404, 403, 403]),
    ("/system/trusts", "name=ci&issuer=https://a.example&claims=sub%3Dx&project=shop&scope=jobs", [303, 403, 403]),
    ("/system/trusts", "name=ci&issuer=https://a.example&claims=x&project=shop", [422, 403, 403]),
    ("/system/trusts/trust_0193456789ab7def8123456789abcdef/edit", "name=ci", [404, 403, 403]),
    ("/system/trusts/none/edit", "name=ci", [404, 403, 403]),
    ("/system/trusts/trust_0193456789ab7def8123456789abcdef/remove", "", [404, 403, 403]),
    ("/system/trusts/none/remove", "", [404, 403, 403]),
    ("/system/slack", "mode=events&bot-token=xoxb-12345&signing-secret=0123456789", [303, 403, 403]),
    ("/system/slack", "mode=socket&bot-token=xoxb-12345", [422, 403, 403]),
    ("/system/slack/slw_0193456789ab7def8123456789abcdef/channels", "channel=C1&project=shop", [404, 403, 403]),
    ("/system/slack/slw_0193456789ab7def8123456789abcdef/people", "account=U1&remove=on", [404, 403, 403]),
    ("/system/slack/slw_0193456789ab7def8123456789abcdef/edit", "name=x", [404, 403, 403]),
    ("/system/slack/slw_0193456789ab7def8123456789abcdef/check", "", [404, 403, 403]),
    ("/system/slack/slw_0193456789ab7def8123456789abcdef/remove", "", [404, 403, 403]),
    ("/system/slack/none/check", "", [404, 403, 403]),
    ("/account/slack", "", [303, 303, 403]),
    ("/account/theme", "theme=dark&next=/keys", [303, 303, 303]),
    ("/account/theme", "theme=pink", [422, 422, 422]),
    ("/account/provider", "", [404, 404, 404]),
    ("/confirm", "next=/keys", [303, 303, 303]),
    ("/account/second-factor", "code=1", [422, 422, 422]),
    ("/account/passkeys", "passkey=x", [422, 422, 422]),
    ("/account/passkeys/none/rename", "name=x", [422, 422, 422]),
    ("/account/passkeys/none/remove", "", [422, 422, 422]),
    ("/account/second-factor/codes", "", [422, 422, 422]),
    ("/account/second-factor/remove", "", [422, 422, 422]),
    ("/users/VIEWER/second-factor/remove", "", [303, 403, 403]),
    ("/users/none/second-factor/remove", "", [404, 403, 403]),
    ("/account/provider/disconnect", "", [409, 409, 409]),
    ("/secrets/none/stored", "", [303, 303, 303]),
    ("/account/letters", "letters=on", [303, 303, 303]),
    ("/users", "name=bob&role=member", [303, 403, 403]),
    ("/users/VIEWER/role", "role=viewer", [303, 403, 403]),
    ("/users/VIEWER/link", "", [303, 403, 403]),
    ("/users/VIEWER/disconnect", "", [303, 403, 403]),
    ("/users/none/disconnect", "", [404, 403, 403]),
    ("/users/VIEWER/disable", "", [303, 403, 403]),
    ("/users/VIEWER/enable", "", [303, 403, 403]),
];

/// Creates a fixture with a queued job and a second project. Returns the job's ID.
async fn with_job() -> (Fixture, JobId) {
    let fixture = fixture(Arc::new(Fake::with(detail(PullState::Open)))).await;
    let empty = Project::new("empty".parse().unwrap(), "local:empty", START);
    fixture.store.create_project(empty, [].into()).await.unwrap();
    let id = job::create_job(&fixture, "Fix the typo").await;
    (fixture, id)
}

#[tokio::test]
async fn pages_are_shown_according_to_the_role() {
    let (fixture, id) = with_job().await;
    for (path, expected) in PAGES {
        let path = path.replace("JOB", &id.to_string());
        for (role, expected) in Role::ALL.into_iter().zip(expected) {
            let page = fixture.send(Some(role), Method::GET, &path, "").await;
            assert_eq!(page.status.as_u16(), *expected, "{path} for {}: {}", role.name(), page.body);
            if page.status == StatusCode::OK {
                assert!(page.body.contains("<h1"), "{path}: a page has a heading");
            }
        }
        let page = fixture.send(None, Method::GET, &path, "").await;
        assert_eq!(page.status, StatusCode::SEE_OTHER, "{path} without a session");
    }
}

/// The forms with `data-turbo="false"`.
const WITHOUT_TURBO: &[&str] = &["/account/theme", "/account/provider"];

#[tokio::test]
async fn forms_are_accepted_according_to_the_role() {
    for (path, form, expected) in FORMS {
        for (role, expected) in Role::ALL.into_iter().zip(expected) {
            let (fixture, id) = with_job().await;
            let viewer = fixture.store.user_by_name("viewer".into()).await.unwrap().unwrap();
            let prompt = job::prompt("More");
            fixture.engine.add_message(&project().id, id, prompt, Admission::default()).await.unwrap();
            let message = fixture.store.messages(id).await.unwrap().pop().unwrap();
            let key = key(&fixture, role).await;
            let path = path.replace("JOB", &id.to_string()).replace("VIEWER", &viewer.id.to_string());
            let path = path.replace("MESSAGE", &message.id.to_string()).replace("KEY", &key.to_string());
            let before = state(&fixture).await;
            let is_by_script = role == Role::Administrator && !WITHOUT_TURBO.contains(&path.as_str());
            let answer = match is_by_script {
                true => fixture.send_with_turbo(role, &path, form).await,
                false => fixture.send(Some(role), Method::POST, &path, form).await,
            };
            assert_eq!(answer.status.as_u16(), *expected, "{path} by {}: {}", role.name(), answer.body);
            if is_by_script && answer.status == StatusCode::OK {
                // Turbo ignores a page that answers a form.
                assert!(answer.header("content-type").starts_with("text/vnd.turbo-stream.html"), "{path}");
            }
            if *expected == 403 {
                assert_eq!(state(&fixture).await, before, "{path} by {}", role.name());
            }
        }
    }
}

/// Creates a key of the role's user.
async fn key(fixture: &Fixture, role: Role) -> KeyId {
    let user = fixture.store.user_by_name(role.name().to_owned()).await.unwrap().unwrap().id;
    let new =
        NewKey { name: "ci".into(), scopes: vec![Scope::Read], projects: None, expires_at: None, allowed_ips: None };
    let (key, _) = new.make((&user.to_string(), Some(user)), START, &*fixture.world).unwrap();
    fixture.store.create_key(key.clone(), audit_entry()).await.unwrap();
    key.id
}

/// Returns the number of audit entries, and the jobs with their messages.
async fn state(fixture: &Fixture) -> (usize, String) {
    let mut text = String::new();
    for job in fixture.store.jobs(JobFilter::newest(project().id, 100)).await.unwrap() {
        let messages = fixture.store.messages(job.id).await.unwrap();
        write!(text, "{job:?} {messages:?}").unwrap();
    }
    (fixture.audited().await, text)
}

#[tokio::test]
async fn a_refused_form_shows_the_error_and_keeps_its_input() {
    let (fixture, id) = with_job().await;
    fixture.engine.archive(&project().id, id).await.unwrap();
    let message = format!("/projects/shop/jobs/{id}/messages");
    for (path, form, input, error) in [
        ("/projects", "id=shop&where=hosted", "value=\"shop\"", "A project with this ID already exists"),
        ("/projects", "id=a&where=remote&repository=ftp://x.example/a", "ftp://x.example/a", "repository"),
        ("/projects/shop/jobs", "prompt=what+I+typed&branch=a..b", "what I typed", "is not a valid name for a branch"),
        ("/projects/shop/jobs", "prompt=x&pull-request=no+pull", "value=\"no pull\"", "neither the number nor the URL"),
        ("/projects/shop/jobs", "prompt=x&draft=on&branch=a..b", "name=\"draft\" checked", "branch"),
        (
            "/projects/shop/settings/environment",
            "secret-name=A&secret-use=model",
            "value=\"model\" checked",
            "A needs a",
        ),
        ("/projects/shop/settings/agent", "version=0&model=typed-model", "typed-model", "changed the project since"),
        (&message, "prompt=what+I+typed", "what I typed", "This job is archived"),
        ("/keys", "name=my+key&days=soon", "my key", "is not a number of days"),
        ("/keys", "name=my+key&days=30&scope=all", "my key", "is not one of read, jobs and write"),
        ("/keys", "name=&days=30&scope=jobs", "value=\"jobs\" checked", "must have 1 to 100 characters"),
        ("/projects/shop/settings/agent", "agent=nobody&model=typed-model", "typed-model", "nobody"),
    ] {
        let answer = fixture.send(Some(Role::Administrator), Method::POST, path, form).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{path}: {}", answer.body);
        assert!(answer.body.contains(error), "{path}: {}", answer.body);
        assert!(answer.body.contains(input), "{path}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_form_about_a_user_who_was_changed_meanwhile_changes_nothing() {
    let (fixture, _) = with_job().await;
    let id = fixture.store.user_by_name("member".into()).await.unwrap().unwrap().id;
    let send = async |action: &str, form: &str| {
        fixture.send(Some(Role::Administrator), Method::POST, &format!("/users/{id}/{action}"), form).await
    };
    assert_eq!(send("role", "role=viewer&version=1").await.status, StatusCode::SEE_OTHER);
    for (action, form) in [("role", "role=administrator&version=1"), ("disable", "version=1"), ("enable", "version=x")]
    {
        let refused = send(action, form).await;
        assert_eq!(refused.status, StatusCode::CONFLICT, "{action}: {}", refused.body);
        assert!(refused.body.contains("has changed since you read it"), "{action}: {}", refused.body);
    }
    let user = fixture.store.user(id).await.unwrap().unwrap();
    assert_eq!((user.role, user.disabled_at, user.version), (Role::Viewer, None, 2));
}

#[tokio::test]
async fn a_key_has_the_scope_that_was_chosen() {
    let (fixture, _) = with_job().await;
    for (choice, expected) in
        [("&scope=read", Scope::Read), ("&scope=jobs", Scope::Jobs), ("&scope=write", Scope::Write), ("", Scope::Write)]
    {
        let form = format!("name=ci&days=30&where=all{choice}");
        let made = fixture.send(Some(Role::Administrator), Method::POST, "/keys", &form).await;
        let page = fixture.follow(Role::Administrator, &made).await;
        assert!(page.body.contains("jmn_"), "{choice}: {}", page.body);
        assert!(fixture.store.keys().await.unwrap().iter().any(|key| key.scopes == [expected]), "{choice}");
    }
}

#[tokio::test]
async fn a_rotated_key_shows_its_new_secret_and_how_long_the_old_one_works() {
    let (fixture, _) = with_job().await;
    let created = fixture.send(Some(Role::Administrator), Method::POST, "/keys", "name=ci&days=30&where=all").await;
    let created = fixture.follow(Role::Administrator, &created).await;
    assert!(created.body.contains("jmn_"), "{}", created.body);
    for (form, overlap) in [("keep=0", None), ("", None), ("keep=24", Some(24))] {
        let before = fixture.store.keys().await.unwrap().remove(0);
        let path = format!("/keys/{}/rotate", before.id);
        let rotated = fixture.send(Some(Role::Administrator), Method::POST, &path, form).await;
        let page = fixture.follow(Role::Administrator, &rotated).await;
        let after = fixture.store.keys().await.unwrap().remove(0);
        assert!(page.body.contains(&after.prefix) && after.hash != before.hash, "{form}: {}", page.body);
        assert_eq!(page.body.contains("The old key works until"), overlap.is_some(), "{form}: {}", page.body);
        assert_eq!(after.old_secret.map(|old| old.hash), overlap.map(|_| before.hash), "{form}");
    }
    let key = fixture.store.keys().await.unwrap().remove(0);
    for (form, text) in [("keep=long", "is not a number of hours"), ("keep=1000", "must be from 0 to 604800")] {
        let path = format!("/keys/{}/rotate", key.id);
        let refused = fixture.send(Some(Role::Administrator), Method::POST, &path, form).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{form}: {}", refused.body);
        assert!(refused.body.contains(text), "{form}: {}", refused.body);
    }
    assert_eq!(fixture.store.keys().await.unwrap().remove(0), key);
}

#[tokio::test]
async fn keys_of_tokens_have_a_list_of_their_own_in_pages() {
    let (fixture, _) = with_job().await;
    for number in 0..51 {
        let new = NewKey {
            name: format!("oidc:ci:{number}."),
            scopes: vec![Scope::Jobs],
            projects: Some(vec![project().id]),
            expires_at: Some(START + std::time::Duration::from_secs(86_400)),
            allowed_ips: None,
        };
        let (key, _) = new.make((&format!("trust_{}", "0".repeat(32)), None), START, &*fixture.world).unwrap();
        fixture.store.create_key(key, audit_entry()).await.unwrap();
    }
    let ordinary = fixture.page(Role::Administrator, "/keys").await;
    assert!(ordinary.contains("href=\"/keys/exchanged\"") && !ordinary.contains("oidc:ci:"), "{ordinary}");
    assert!(!fixture.page(Role::Member, "/keys").await.contains("/keys/exchanged"));
    let first = fixture.page(Role::Administrator, "/keys/exchanged").await;
    assert_eq!(
        (first.matches("oidc:ci:").count() > 0, first.matches("<tr role=\"row\"").count()),
        (true, 51),
        "{first}"
    );
    let next = first.split("href=\"/keys/exchanged?after=").nth(1).unwrap().split('"').next().unwrap();
    let second = fixture.page(Role::Administrator, &format!("/keys/exchanged?after={next}")).await;
    assert_eq!(second.matches("<tr role=\"row\"").count(), 2, "the head and the last key: {second}");
    assert!(!second.contains("href=\"/keys/exchanged?after="), "{second}");
}

#[tokio::test]
async fn a_member_creates_keys_only_for_named_projects() {
    let (fixture, _) = with_job().await;
    let form = "name=ci&scope=write&days=30&project=shop&where=all";
    let made = fixture.send(Some(Role::Member), Method::POST, "/keys", form).await;
    let page = fixture.follow(Role::Member, &made).await;
    assert!(page.body.contains("jmn_") && page.body.contains("/v2/agent/shop/job"), "{}", page.body);
    let member = fixture.store.user_by_name("member".into()).await.unwrap().unwrap().id;
    let key = fixture.store.keys().await.unwrap().remove(0);
    assert_eq!(key.projects, Some(vec![project().id]));
    assert_eq!((key.creator, key.owner), (Some(member.to_string()), Some(member)));
    assert_eq!(key.expires_at, Some("2026-12-21T01:25:30.123456Z".parse().unwrap()));

    let refused = fixture.send(Some(Role::Member), Method::POST, "/keys", "name=ci&days=30").await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.body);
    assert_eq!(fixture.store.keys().await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_last_administrator_cannot_be_disabled_or_demoted() {
    let (fixture, _) = with_job().await;
    let own = fixture.store.user_by_name("administrator".into()).await.unwrap().unwrap().id;
    for (path, form) in [("disable", ""), ("role", "role=viewer")] {
        let answer = fixture.send(Some(Role::Administrator), Method::POST, &format!("/users/{own}/{path}"), form).await;
        assert_eq!(answer.status, StatusCode::CONFLICT, "{path}");
        assert!(
            answer.body.contains("This is the last administrator; make another user an administrator first."),
            "{}",
            answer.body
        );
    }
}

fn identity(subject: &str) -> Identity {
    Identity { issuer: "https://id.example.com".to_owned(), subject: subject.to_owned() }
}

#[tokio::test]
async fn an_administrator_disconnects_a_user_from_the_provider() {
    let (fixture, _) = with_job().await;
    let admin = Some(Role::Administrator);
    let viewer = fixture.store.user_by_name("viewer".into()).await.unwrap().unwrap();
    let path = format!("/users/{}/disconnect", viewer.id);
    assert!(
        !fixture.send(admin, Method::GET, "/users", "").await.body.contains(&path),
        "there is nothing to disconnect"
    );
    fixture.store.connect_identity(viewer.id, identity("7"), audit_entry()).await.unwrap();
    assert!(fixture.send(admin, Method::GET, "/users", "").await.body.contains(&path));
    let stale = fixture.send(admin, Method::POST, &path, "version=1").await;
    assert_eq!(stale.status, StatusCode::CONFLICT, "{}", stale.body);
    let sent = fixture.send(admin, Method::POST, &path, "version=2").await;
    let page = fixture.follow(Role::Administrator, &sent).await.body;
    assert!(page.contains("The user is disconnected from the provider.") && !page.contains(&path), "{page}");
    let signed_out = fixture.send(Some(Role::Viewer), Method::GET, "/account", "").await;
    assert_eq!(signed_out.header("location"), "/login?next=%2Faccount", "the session has ended");
}

#[tokio::test]
async fn a_user_without_a_password_stays_connected() {
    let (fixture, _) = with_job().await;
    let id = UserId::from_uuid(Uuid::from_u128(7));
    let user = User {
        id,
        name: "eve".to_owned(),
        password: None,
        identity: Some(identity("7")),
        ..super::user(Role::Viewer, 7, START)
    };
    fixture.store.create_user(user, audit_entry()).await.unwrap();
    let path = format!("/users/{id}/disconnect");
    let refused = fixture.send(Some(Role::Administrator), Method::POST, &path, "").await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    assert!(refused.body.contains("The user has no password, and could not sign in without the provider"));
    assert!(fixture.store.user(id).await.unwrap().unwrap().identity.is_some());
}

#[tokio::test]
async fn a_user_who_disconnects_stays_signed_in_only_here() {
    let (fixture, _) = with_job().await;
    let member = fixture.store.user_by_name("member".into()).await.unwrap().unwrap();
    fixture.store.connect_identity(member.id, identity("7"), audit_entry()).await.unwrap();
    let hash = TokenHash::of("a session elsewhere");
    let elsewhere = Session {
        hash,
        user: member.id,
        created_at: START,
        seen_at: START,
        proven_at: Some(START),
        address: None,
        browser: None,
    };
    fixture.store.start_session(elsewhere, member.password, audit_entry()).await.unwrap();
    let sent = fixture.send(Some(Role::Member), Method::POST, "/account/provider/disconnect", "").await;
    let page = fixture.follow(Role::Member, &sent).await;
    assert!(page.body.contains("All your other sessions have ended."), "{}", page.body);
    assert!(fixture.store.session(hash).await.unwrap().is_none());
}
