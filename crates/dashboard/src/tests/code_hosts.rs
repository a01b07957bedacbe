//! Tests of the pages of code hosts.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use journeyman_core::code_host::{Access, CodeHost, CodeHostId, HostName};
use journeyman_core::hook::{EventRepository, HookContent, HookEvent};
use journeyman_core::inbox::{Content, Decision, InboxState, NewEvent, Next, Outcome};
use journeyman_core::ports::{CodeHostStore as _, InboxStore as _, KeyStore as _, ProjectStore as _, UserStore as _};
use journeyman_core::secret::SecretValue;
use journeyman_core::time::Clock as _;
use journeyman_core::user::{Role, Session, TokenHash};
use journeyman_forge::CodeHosts;
use journeyman_git::{Git, Runner};
use journeyman_testkit::code_host::{CodeHostServer, Product};
use journeyman_testkit::{FakeForges, FakeHosts, Seeds as _, all_stored};

use super::{Fixture, Reply, audit_entry, empty_fixture, fixture, fixture_with, seeded, token};

const ADMIN: Option<Role> = Some(Role::Administrator);

impl Fixture {
    async fn see(&self, path: &str) -> Reply {
        self.send(ADMIN, Method::GET, path, "").await
    }

    async fn post(&self, path: &str, form: &str) -> Reply {
        self.send(ADMIN, Method::POST, path, form).await
    }
}

fn id(text: &str) -> CodeHostId {
    text.parse().unwrap()
}

async fn with_fakes() -> Fixture {
    fixture(Arc::new(FakeForges)).await
}

#[tokio::test]
async fn a_code_host_is_added_edited_tested_and_removed() {
    let fixture = with_fakes().await;
    let form = "id=git&kind=gitea&url=https%3A%2F%2Fgit.example&token=s3cret-token&generate=on";
    let added = fixture.post("/system/code-hosts", form).await;
    let added = fixture.follow(Role::Administrator, &added).await;
    assert_eq!(added.status, StatusCode::OK, "{}", added.body);
    let secret = fixture.store.code_host_secrets(id("git")).await.unwrap().webhook.unwrap().0;
    assert!(added.body.contains(&secret) && added.body.contains("http://localhost:8080/hooks/git"), "{}", added.body);
    let list = fixture.see("/system/code-hosts").await.body;
    assert!(list.contains("https://git.example") && list.contains("none received"), "{list}");
    assert!(!list.contains("s3cret-token") && !list.contains(&secret), "secrets are not shown again");

    let edit = fixture.see("/system/code-hosts/git/edit").await.body;
    assert!(edit.contains("set; leave empty to keep it") && !edit.contains("s3cret-token"), "{edit}");
    let form = "version=1&url=https%3A%2F%2Fgit.example&username=bot&no-webhook-secret=on&trusted-bots=7%0D%0A8";
    let saved = fixture.post("/system/code-hosts/git/edit", form).await;
    assert_eq!((saved.status, saved.header("location")), (StatusCode::SEE_OTHER, "/system/code-hosts?done=saved"));
    let stored = all_stored::<CodeHost>(&*fixture.store, None).await.remove(0);
    assert_eq!(stored.access, Some(Access::Token { username: Some("bot".to_owned()) }));
    assert_eq!(stored.trusted_bots.len(), 2);
    let late = fixture.post("/system/code-hosts/git/edit", form).await;
    assert_eq!(late.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(late.body.contains("Someone has changed"), "{}", late.body);
    assert!(late.body.contains("name=\"version\" value=\"1\""), "sent again, it is refused again: {}", late.body);

    let checked = fixture.post("/system/code-hosts/git/check", "").await;
    assert!(checked.body.contains("It answers.") && checked.body.contains("No secret is set"), "{}", checked.body);
    assert_eq!(fixture.post("/system/code-hosts/git/remove", "version=1").await.status, StatusCode::CONFLICT);
    assert_eq!(fixture.post("/system/code-hosts/git/remove", "version=2").await.status, StatusCode::SEE_OTHER);
    assert!(all_stored::<CodeHost>(&*fixture.store, None).await.is_empty());
}

/// Asserts that a response shows the findings of a test on the open page.
fn assert_shows_findings(reply: &Reply, text: &str) {
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.body);
    assert_eq!(reply.header("content-type"), "text/vnd.turbo-stream.html; charset=utf-8");
    let begin = "<turbo-stream action=\"replace\" target=\"checked\"><template><section class=\"panel\" id=\"checked\"";
    assert!(reply.body.starts_with(begin) && reply.body.contains(text), "{text}: {}", reply.body);
    assert!(reply.body.contains("<turbo-stream action=\"remove\" targets=\"[data-until-test]\">"), "{}", reply.body);
}

#[tokio::test]
async fn with_a_script_the_findings_of_a_test_are_shown_on_the_open_page() {
    let fixture = with_fakes().await;
    let form = "id=git&kind=gitea&url=https%3A%2F%2Fgit.example&token=s3cret-token";
    assert_eq!(fixture.post("/system/code-hosts", form).await.status, StatusCode::SEE_OTHER);
    let settings = "/projects/shop/settings/repository";
    let repository = "repository=https://a.example/b.git&test=";
    for (path, form, page, text) in [
        ("/system/code-hosts/git/check", "", "/system/code-hosts", "It answers."),
        ("/projects", &format!("id=a&where=remote&{repository}"), "/projects/new", "can be read."),
        (settings, &format!("version=1&{repository}"), settings, "can be read."),
    ] {
        assert_shows_findings(&fixture.send_with_turbo(Role::Administrator, path, form).await, text);
        let page = fixture.see(page).await.body;
        assert!(page.contains("<div id=\"checked\" hidden></div>"), "{path}: {page}");
    }
    let form = format!("id=a&where=remote&repository={}&test=", FakeForges::NO_PULLS);
    let failed = fixture.send_with_turbo(Role::Administrator, "/projects", &form).await;
    assert_eq!(failed.status, StatusCode::UNPROCESSABLE_ENTITY, "the form is shown again with the error");
    assert!(failed.body.contains("role=\"alert\" data-until-test"), "{}", failed.body);
    let missing = fixture.send_with_turbo(Role::Administrator, "/system/code-hosts/none/check", "").await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    assert!(missing.body.starts_with("<turbo-stream action=\"append\" target=\"toasts\">"), "{}", missing.body);
}

#[tokio::test]
async fn a_refused_form_keeps_its_check_boxes() {
    let fixture = with_fakes().await;
    for generate in [true, false] {
        let form = format!("id=git&kind=gitea&url=nonsense{}", if generate { "&generate=on" } else { "" });
        let refused = fixture.post("/system/code-hosts", &form).await.body;
        assert_eq!(refused.contains("name=\"generate\" checked"), generate, "{refused}");
    }
}

#[tokio::test]
async fn a_refused_form_keeps_its_input_and_names_the_field() {
    let fixture = with_fakes().await;
    for (form, named) in [
        ("id=git&kind=github&url=nonsense", "must be an https or http URL"),
        ("id=Git&kind=github&url=https://a.example", "the id of a code host"),
        ("id=git&kind=github&url=https://a.example&app-id=x&private-key=k", "is not a number"),
        ("id=git&kind=github&url=https://a.example&app-id=7", "is missing"),
        ("id=gitlab&kind=gitlab&url=https://a.example", "already exists"),
    ] {
        let refused = fixture.post("/system/code-hosts", form).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{form}: {}", refused.body);
        let lower = refused.body.to_lowercase();
        assert!(lower.contains(&named.to_lowercase()), "{named}: {}", refused.body);
        assert!(form.contains("nonsense") == refused.body.contains("nonsense"), "{form}: the input stays");
    }
}

#[tokio::test]
async fn a_repository_without_a_project_is_offered_with_a_prefilled_form() {
    let fixture = with_fakes().await;
    fixture.post("/system/code-hosts", "id=github&kind=github&url=https%3A%2F%2Fgithub.com").await;
    let event = NewEvent {
        host: HostName("github.com".to_owned()),
        code_host: Some(id("github")),
        project: None,
        delivery: "1".to_owned(),
        event: "issues".to_owned(),
        content: Content::Raw(Vec::new()),
        at: fixture.world.now(),
    };
    fixture.store.receive(event).await.unwrap();
    let claimed = fixture.store.claim_events(fixture.world.now(), Duration::from_secs(9), 1).await.unwrap().remove(0);
    let repository = EventRepository { id: "5".to_owned(), path: "acme/Web.Site".to_owned() };
    let read = HookEvent { repository: Some(repository), sender: None, content: HookContent::Ping };
    let next = Next::Ends { state: InboxState::Ignored, outcome: Outcome::NoProject, detail: None };
    let decision = Decision { project: None, job: None, event: Some(Box::new(read)), subject: None, next };
    fixture.store.decide_event(claimed.number, claimed.attempts, decision).await.unwrap();

    let list = fixture.see("/system/code-hosts").await.body;
    assert!(list.contains("acme/Web.Site"), "{list}");
    let form = "/projects/new?where=remote&id=web-site&repository=https%3A%2F%2Fgithub.com%2Facme%2FWeb.Site.git";
    assert!(list.replace("&amp;", "&").replace("&#38;", "&").contains(form), "{list}");
    let page = fixture.see(form).await.body;
    assert!(page.contains("value=\"web-site\"") && page.contains("https://github.com/acme/Web.Site.git"), "{page}");
}

#[tokio::test]
async fn a_repository_is_tested_without_saving() {
    let fixture = with_fakes().await;
    let repository = FakeForges::NO_PULLS;
    let form = format!("id=closed&where=remote&repository={repository}&agent=journeyman&model=m");
    let tested = fixture.post("/projects", &format!("{form}&test=")).await;
    assert_eq!(tested.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(tested.body.contains(">acme/closed can be read."), "{}", tested.body);
    assert!(tested.body.contains("No secret is set"), "webhooks are reported: {}", tested.body);
    assert!(tested.body.contains("name=\"untested\""), "{}", tested.body);
    let passed = fixture.post("/projects", "id=a&where=remote&repository=https://a.example/b.git&test=").await;
    assert_eq!(passed.status, StatusCode::OK, "{}", passed.body);
    assert_eq!(fixture.store.projects().await.unwrap().len(), 1, "nothing was stored");
    let settings = "/projects/shop/settings/repository";
    let passed = fixture.post(settings, "version=1&repository=https://a.example/b.git&test=").await;
    assert_eq!(passed.status, StatusCode::OK, "{}", passed.body);
    assert!(passed.body.contains("can be read."), "{}", passed.body);
    assert_eq!(fixture.store.projects().await.unwrap()[0].repository, "local:shop");
}

/// Creates a fixture with the code hosts of the service, and a stand-in for GitHub.
async fn with_github() -> (Fixture, CodeHostServer) {
    let server = CodeHostServer::start(Product::Github).await;
    let fixture = fixture_with(Arc::new(FakeForges), |store, world| {
        let folder = tempfile::tempdir().unwrap().keep();
        let path = "/usr/local/bin:/usr/bin:/bin".into();
        let runner = Runner { program: "git".into(), path, environment: Vec::new(), askpass: None };
        Arc::new(CodeHosts::new(journeyman_forge::Parts {
            git: Git::new(runner),
            hooks: folder.join("hooks"),
            repositories: folder,
            public_url: "http://localhost:8080".to_owned(),
            pulls: store.clone(),
            comparisons: store.clone(),
            users: store.clone(),
            secrets: store.clone(),
            hosts: store,
            configured: Vec::new(),
            outbound: journeyman_forge::Outbound::default(),
            objects: Arc::new(journeyman_testkit::FakeHostedObjects::default()),
            clock: world,
        }))
    });
    (seeded(fixture).await, server)
}

/// Returns the address to which a page posts the manifest, and the encoded state in it.
fn action(page: &str) -> (String, String) {
    let action = page.split("action=\"").find(|rest| rest.contains("/settings/apps/new?state=")).unwrap();
    let action = action.split('"').next().unwrap().to_owned();
    let state = action.split_once("?state=").unwrap().1.to_owned();
    (action, state)
}

#[tokio::test]
async fn a_github_app_is_created_from_a_manifest() {
    let (fixture, server) = with_github().await;
    let page = fixture.see(&format!("/system/code-hosts/github/app?id=ghe&organization=acme&url={}", server.url)).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.body);
    let policy = page.header("content-security-policy");
    assert!(policy.contains(&format!("form-action 'self' {};", server.url)), "{policy}");
    let (address, state) = action(&page.body);
    assert!(address.starts_with(&format!("{}/organizations/acme/settings/apps/new?", server.url)), "{address}");
    let manifest = page.body.replace("&quot;", "\"").replace("&#34;", "\"");
    assert!(manifest.contains("\"redirect_url\":\"http://localhost:8080/system/code-hosts/github/callback\""));
    assert!(!manifest.contains("hook_attributes"), "GitHub refuses addresses that it cannot reach: {manifest}");

    server.state().manifest_codes.insert("good".to_owned(), Some("hook-secret".to_owned()));
    let back = format!("/system/code-hosts/github/callback?code=good&state={state}");
    let stored = fixture.see(&back).await;
    assert_eq!((stored.status, stored.header("location")), (StatusCode::SEE_OTHER, "/system/code-hosts?done=app"));
    let host = all_stored::<CodeHost>(&*fixture.store, None).await.remove(0);
    assert!(matches!(&host.access, Some(Access::App { slug, .. }) if slug == "journeyman-test"), "{host:?}");
    let secrets = fixture.store.code_host_secrets(id("ghe")).await.unwrap();
    assert_eq!(secrets.webhook, Some(SecretValue("hook-secret".to_owned())));
    assert!(secrets.private_key.unwrap().0.contains("PRIVATE KEY"));
    let list = fixture.see("/system/code-hosts?done=app").await.body;
    assert!(list.contains("/github-apps/journeyman-test/installations/new"), "{list}");
    assert!(!list.contains("PRIVATE KEY") && !list.contains("hook-secret"), "{list}");

    let again = fixture.see(&back).await;
    assert_eq!(again.status, StatusCode::CONFLICT, "{}", again.body);
    let entry = fixture.store.audit(None, 1).await.unwrap().remove(0).entry;
    assert_eq!((entry.action.as_str(), entry.subject.as_str()), ("code_host.created", "ghe"));
}

#[tokio::test]
async fn a_code_of_another_session_is_refused_and_not_used() {
    let (fixture, server) = with_github().await;
    server.state().manifest_codes.insert("good".to_owned(), None);
    let page = fixture.see(&format!("/system/code-hosts/github/app?url={}", server.url)).await;
    let (_, state) = action(&page.body);
    let user = fixture.store.user_by_name("administrator".to_owned()).await.unwrap().unwrap();
    let now = fixture.world.now();
    let hash = TokenHash::of("another session");
    let session = Session {
        hash,
        user: user.id,
        created_at: now,
        seen_at: now,
        proven_at: Some(now),
        address: None,
        browser: None,
    };
    fixture.store.start_session(session, user.password, audit_entry()).await.unwrap();
    let back = format!("/system/code-hosts/github/callback?code=good&state={state}");
    let send = async |token: &str| {
        let cookie = format!("journeyman={token}").parse().unwrap();
        fixture.send_with(Method::GET, &back, "", |request| drop(request.headers_mut().insert("cookie", cookie))).await
    };
    let refused = send("another session").await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.body);
    assert!(refused.body.contains("not made for your session"), "{}", refused.body);
    fixture.world.advance(Duration::from_secs(3601));
    assert_eq!(send(&token(Role::Administrator)).await.status, StatusCode::UNPROCESSABLE_ENTITY, "it is too old");
    assert!(all_stored::<CodeHost>(&*fixture.store, None).await.is_empty());
    assert_eq!(server.requests().len(), 0, "GitHub was not asked");
}

#[tokio::test]
async fn a_code_that_github_refuses_stores_nothing() {
    let (fixture, server) = with_github().await;
    let page = fixture.see(&format!("/system/code-hosts/github/app?url={}", server.url)).await;
    let (_, state) = action(&page.body);
    let refused = fixture.see(&format!("/system/code-hosts/github/callback?code=bad&state={state}")).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.body);
    assert!(refused.body.contains("valid once, for an hour"), "{}", refused.body);
    assert!(all_stored::<CodeHost>(&*fixture.store, None).await.is_empty());
}

#[tokio::test]
async fn only_the_page_with_the_manifest_may_post_to_github() {
    let fixture = with_fakes().await;
    let policy = |page: &Reply| page.header("content-security-policy").to_owned();
    assert!(
        policy(&fixture.see("/system/code-hosts/github/app").await).contains("form-action 'self' https://github.com;")
    );
    assert!(policy(&fixture.see("/system/code-hosts").await).contains("form-action 'self';"));
    // With Turbo, the policy of a page would stay in effect on the next one.
    assert!(!fixture.see("/system/code-hosts/github/app").await.body.contains("turbo.js"));
    for query in ["url=ftp://a.example", "url=https://a;b.example", "organization=a%2Fb", "id=A"] {
        let refused = fixture.see(&format!("/system/code-hosts/github/app?{query}")).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{query}: {}", refused.body);
        assert!(policy(&refused).contains("form-action 'self';"), "{query}");
        assert!(!refused.body.contains("name=\"manifest\""), "{query}");
    }
}

#[tokio::test]
async fn a_credential_that_ends_soon_is_a_warning_for_administrators() {
    let fixture = empty_fixture(Arc::new(FakeForges));
    let late = FakeHosts::EXPIRES_AT - Duration::from_secs(3 * 24 * 3600);
    fixture.world.advance(late.since(fixture.world.now()));
    // Sessions begin after the jump of the clock, which ends earlier ones.
    let fixture = seeded(fixture).await;
    let form = "id=expiring&kind=gitea&url=https%3A%2F%2Fgit.example&token=s3cret-token";
    assert_eq!(fixture.post("/system/code-hosts", form).await.status, StatusCode::SEE_OTHER);
    fixture.cases.watch_credentials().await.unwrap();
    for (path, role, is_shown) in [
        ("/system/code-hosts", Role::Administrator, true),
        ("/", Role::Administrator, true),
        ("/", Role::Member, false),
        ("/projects/shop/jobs", Role::Administrator, false),
    ] {
        let page = fixture.send(Some(role), Method::GET, path, "").await;
        assert_eq!(page.status, StatusCode::OK, "{path}");
        let text = "The credential of the code host expiring needs attention.";
        assert_eq!(page.body.contains(text), is_shown, "{path} {role:?}: {}", page.body);
        assert_eq!(page.body.contains("Create a new token within 3 days"), is_shown, "{path} {role:?}");
        assert_eq!(page.body.contains("has not accepted the permissions"), is_shown, "{path} {role:?}");
    }
}
