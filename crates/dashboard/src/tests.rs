//! Tests of the pages through the router, with a temporary store and fake pull requests.

mod audit;
mod code_hosts;
mod comments;
mod docs;
mod errors;
mod events;
mod frame;
mod fresh;
mod home;
mod inbox;
mod job;
mod lists;
mod passkeys;
mod pulls;
mod remote_pulls;
mod review;
mod roles;
mod routes;
mod second_factor;
mod secrets;
mod settings;
mod sign_in;
mod slack;
mod system;
mod templates;
mod trusts;
mod usage;
mod webhooks;

use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use journeyman_app::{Limiter, Limits, Parts, UseCases};
use journeyman_core::agent::{AgentSpec, Agents};
use journeyman_core::audit::AuditEntry;
use journeyman_core::engine::Engine;
use journeyman_core::ids::{JobId, Sha, UserId};
use journeyman_core::job::Job;
use journeyman_core::ports::{
    DiffError, Diffs, GitBody, HostAdmin, KeyStore, Passwords, PasswordsFailed, PullPages, PullStore,
};
use journeyman_core::project::{KeepUpToDate, Project};
use journeyman_core::pull::NewPull;
use journeyman_core::pull::compared::next_comparison;
use journeyman_core::time::{Clock, Timestamp};
use journeyman_core::user::second_factor::RequiredOf;
use journeyman_core::user::{PasswordHash, Role, Session, TokenHash, User};
use journeyman_store::{MasterKey, Sealer, SqliteStore};
use journeyman_testkit::{
    FakeComparisons, FakeEndpoints, FakeForges, FakeHosts, FakeTokens, Seeds as _, StillTime, Tapped, World,
};
use tower::ServiceExt as _;
use uuid::Uuid;

use crate::{LogTail, LogTails, Pages, Services, Settings, Tail, router};

/// The time at which each test begins.
const START: Timestamp = Timestamp::from_micros(1_795_224_330_123_456);

/// A fake of [`Passwords`] whose hash is the password itself.
struct PlainPasswords;

#[async_trait]
impl Passwords for PlainPasswords {
    fn check_new(&self, password: &str, _: &str) -> Result<(), String> {
        if password.len() < 12 { Err("a password has 12 characters or more".to_owned()) } else { Ok(()) }
    }

    async fn hash(&self, password: String) -> Result<PasswordHash, PasswordsFailed> {
        Ok(PasswordHash(password))
    }

    async fn verify(&self, password: String, hash: Option<PasswordHash>) -> Result<bool, PasswordsFailed> {
        Ok(hash == Some(PasswordHash(password)))
    }
}

/// Logs of jobs without new entries, which end after a while.
struct EmptyTails;

#[async_trait]
impl LogTails for EmptyTails {
    fn tail(&self, _: JobId, _: u64) -> Box<dyn LogTail> {
        Box::new(EmptyTail { was_quiet: false })
    }

    async fn stopped(&self) {
        std::future::pending().await
    }
}

struct EmptyTail {
    was_quiet: bool,
}

#[async_trait]
impl LogTail for EmptyTail {
    async fn next(&mut self) -> Tail {
        if std::mem::replace(&mut self.was_quiet, true) { Tail::Over } else { Tail::Quiet }
    }
}

struct FakeDiffs;

fn body(text: String) -> GitBody {
    Box::pin(futures::stream::iter([Ok(text.into())]))
}

#[async_trait]
impl Diffs for FakeDiffs {
    async fn diff(&self, _: &Project, _: &Job) -> Result<GitBody, DiffError> {
        Ok(body(pulls::DIFF.to_owned()))
    }

    async fn diff_of_commits(&self, _: &Project, _: &Job, commits: &[Sha]) -> Result<GitBody, DiffError> {
        let name: String = commits.iter().filter_map(|commit| commit.as_str().chars().next()).collect();
        let first = pulls::DIFF.replace("x.txt", &format!("{name}.txt"));
        Ok(body(format!("{first}{}", pulls::SPACES)))
    }

    async fn file(&self, _: &Project, _: &Job, commit: &Sha, path: &str) -> Result<Option<Bytes>, DiffError> {
        let text: String = (1..=500).map(|line| format!("<{line} of {commit}>\n")).collect();
        Ok((path == "x.txt").then(|| text.into()))
    }
}

/// A temporary database; paused time stands still while it writes.
type TestStore = Tapped<SqliteStore, StillTime>;

struct Fixture {
    router: Router,
    store: Arc<TestStore>,
    engine: Engine,
    cases: UseCases,
    world: Arc<World>,
    endpoints: Arc<FakeEndpoints>,
    comparisons: FakeComparisons,
}

/// Returns the session token of the user with this role.
fn token(role: Role) -> String {
    format!("session of {}", role.name())
}

fn audit_entry() -> AuditEntry {
    let (actor, action, subject) = ("cli".to_owned(), "made".to_owned(), "test".to_owned());
    AuditEntry { at: Timestamp::default(), actor, action, subject, address: None }
}

pub(crate) fn project() -> Project {
    Project::new("shop".parse().unwrap(), "local:shop", Timestamp::from_micros(0))
}

fn user(role: Role, number: u128, now: Timestamp) -> User {
    User {
        id: UserId::from_uuid(Uuid::from_u128(number)),
        name: role.name().to_owned(),
        role,
        password: Some(PasswordHash("a long password".to_owned())),
        identity: None,
        second_factor: None,
        passkeys: Default::default(),
        created_at: now,
        signed_in_at: None,
        disabled_at: None,
        version: 1,
    }
}

/// Creates a fixture with the project `shop` and a signed-in user of each role.
async fn fixture(pages: Arc<dyn PullPages>) -> Fixture {
    seeded(empty_fixture(pages)).await
}

/// Adds the project `shop` and a signed-in user of each role to an empty fixture.
async fn seeded(fixture: Fixture) -> Fixture {
    let now = fixture.world.now();
    fixture.store.create_project(project(), [].into()).await.unwrap();
    for head in 1..=7 {
        let (title, body, head) = (format!("Pull request {head}"), String::new(), format!("branch-{head}"));
        let new = NewPull { title, body, head, ..NewPull::default() };
        fixture.store.open_pull("shop".into(), "main".into(), new, now).await.unwrap().unwrap();
    }
    for (role, number) in Role::ALL.into_iter().zip(1001..) {
        let user = user(role, number, now);
        fixture.store.create_user(user.clone(), audit_entry()).await.unwrap();
        let session = Session {
            hash: TokenHash::of(&token(role)),
            user: user.id,
            created_at: now,
            seen_at: now,
            proven_at: Some(now),
            address: None,
            browser: None,
        };
        fixture.store.start_session(session, user.password, audit_entry()).await.unwrap();
    }
    fixture
}

/// Creates a fixture without users and projects.
fn empty_fixture(pulls: Arc<dyn PullPages>) -> Fixture {
    fixture_with(pulls, |store, _| Arc::new(FakeHosts(store)))
}

/// Creates a fixture without users and projects, with these code hosts.
fn fixture_with(
    pulls: Arc<dyn PullPages>,
    code_hosts: impl FnOnce(Arc<TestStore>, Arc<World>) -> Arc<dyn HostAdmin>,
) -> Fixture {
    fixture_of(pulls, code_hosts, |_, _| {})
}

/// Creates a fixture without users and projects, with these code hosts, and with changed services and settings.
fn fixture_of(
    pulls: Arc<dyn PullPages>,
    code_hosts: impl FnOnce(Arc<TestStore>, Arc<World>) -> Arc<dyn HostAdmin>,
    change: impl FnOnce(&mut Services, &mut Settings),
) -> Fixture {
    let (world, store) = (World::at(START), Arc::new(SqliteStore::temporary(World::new()).unwrap()));
    let store = Arc::new(StillTime::over(store));
    let (endpoints, comparisons) = (Arc::new(FakeEndpoints::default()), FakeComparisons::default());
    let engine = Engine::new(store.clone(), world.clone(), world.clone());
    let agent: AgentSpec = serde_json::from_str(r#"{"command": ["journeyman"]}"#).unwrap();
    let agents = Arc::new(Agents::from([("journeyman".to_owned(), agent)]));
    let cases = UseCases::new(Parts {
        store: store.clone(),
        engine: engine.clone(),
        forges: Arc::new(FakeForges),
        pulls: pulls.clone(),
        code_hosts: code_hosts(store.clone(), world.clone()),
        hooks: Arc::new(inbox::Github),
        comparisons: Arc::new(comparisons.clone()),
        webhooks: endpoints.clone(),
        tokens: Arc::new(FakeTokens::default()),
        slack: Arc::new(journeyman_testkit::FakeSlack::default()),
        public_url: "http://localhost:8080".to_owned(),
        ids: world.clone(),
        agents: agents.clone(),
        create_per_hour: 0,
        message_per_hour: 0,
    });
    let mut services = Services {
        store: store.clone(),
        cases: cases.clone(),
        tails: Arc::new(EmptyTails),
        machine: None,
        installed: None,
        pulls,
        diffs: Arc::new(FakeDiffs),
        passwords: Arc::new(PlainPasswords),
        provider: None,
        seal: Arc::new(Sealer::new(MasterKey::new([7; 32]), world.clone())),
        clock: world.clone(),
        ids: world.clone(),
        limiter: Limiter::new(Limits::default()),
    };
    let mut settings = Settings {
        public_url: "http://localhost:8080".to_owned(),
        agents,
        providers: Vec::new(),
        version: "1.2.3".to_owned(),
        second_factor: RequiredOf::Nobody,
        facts: vec![("Database".to_owned(), "/srv/database".to_owned())],
    };
    change(&mut services, &mut settings);
    let document = || serde_json::from_str(include_str!("../../../docs/openapi.json")).unwrap();
    let Pages { router, missing } = router(services, settings, document);
    Fixture { router: router.fallback_service(missing), store, engine, cases, world, endpoints, comparisons }
}

/// A response as a browser receives it.
struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Reply {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no header {name}")).to_str().unwrap()
    }

    /// Returns the names and values of the cookies that the response sets.
    fn cookies(&self) -> Vec<String> {
        let all = self.headers.get_all("set-cookie").iter().map(|value| value.to_str().unwrap());
        all.filter_map(|value| value.split(';').next()).map(str::to_owned).collect()
    }

    /// Returns the token in the session cookie that the response sets.
    fn token(&self) -> &str {
        let cookie = self.header("set-cookie");
        cookie.strip_prefix("journeyman=").and_then(|rest| rest.split(';').next()).unwrap()
    }
}

impl Fixture {
    /// Compares all pull requests with their bases.
    async fn compare(&self) {
        self.world.advance(next_comparison(KeepUpToDate::Off));
        self.cases.plan_comparisons().await.unwrap();
        self.cases.carry_out_due_comparisons().await.unwrap();
    }

    /// Sends a request as a browser does from one of our pages, with the session of the role's user.
    async fn send(&self, role: Option<Role>, method: Method, path: &str, form: &str) -> Reply {
        self.send_with(method, path, form, |request| {
            let headers = request.headers_mut();
            headers.insert("sec-fetch-site", "same-origin".parse().unwrap());
            if let Some(role) = role {
                headers.insert("cookie", format!("journeyman={}", token(role)).parse().unwrap());
            }
        })
        .await
    }

    /// Sends a form as Turbo does.
    async fn send_with_turbo(&self, role: Role, path: &str, form: &str) -> Reply {
        self.send_with(Method::POST, path, form, |request| {
            let headers = request.headers_mut();
            headers.insert("accept", "text/vnd.turbo-stream.html, text/html, application/xhtml+xml".parse().unwrap());
            headers.insert("sec-fetch-site", "same-origin".parse().unwrap());
            headers.insert("cookie", format!("journeyman={}", token(role)).parse().unwrap());
        })
        .await
    }

    /// Follows the redirect in a response, with the cookies that it sets, as a browser does.
    async fn follow(&self, role: Role, reply: &Reply) -> Reply {
        assert_eq!(reply.status, StatusCode::SEE_OTHER, "{}", reply.body);
        let mut cookies = vec![format!("journeyman={}", token(role))];
        cookies.extend(reply.cookies());
        self.send_with(Method::GET, reply.header("location"), "", |request| {
            request.headers_mut().insert("cookie", cookies.join("; ").parse().unwrap());
        })
        .await
    }

    async fn send_with(&self, method: Method, path: &str, form: &str, with: impl FnOnce(&mut Request<Body>)) -> Reply {
        let mut request = Request::builder().method(method).uri(path);
        request = request.header("content-type", "application/x-www-form-urlencoded");
        let mut request = request.body(Body::from(form.to_owned())).unwrap();
        with(&mut request);
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.into_body().collect().await.unwrap().to_bytes();
        Reply { status, headers, body: String::from_utf8(body.to_vec()).unwrap() }
    }

    /// Returns the number of audit entries.
    async fn audited(&self) -> usize {
        self.store.audit(None, 1000).await.unwrap().len()
    }
}
