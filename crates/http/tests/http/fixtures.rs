//! A service over a temporary store, and a client that calls it without a socket.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Request, StatusCode};
use bytes::Bytes;
use futures::{FutureExt, StreamExt as _};
use http_body_util::BodyExt;
use journeyman_app::{Deliverer, Limit, Limiter, Limits, Parts, UseCases};
use journeyman_core::agent::Agents;
use journeyman_core::audit::AuditEntry;
use journeyman_core::code_host::PullState;
use journeyman_core::engine::Engine;
use journeyman_core::ids::{Sha, WorkerId};
use journeyman_core::job::Job;
use journeyman_core::job::command::{Outcome, Published, Report};
use journeyman_core::job::turn::{Ending, TurnArtifacts, TurnBegun};
use journeyman_core::key::{NewKey, Scope};
use journeyman_core::model::price::{Price, Tokens};
use journeyman_core::model::{Dialect, ProviderInfo};
use journeyman_core::ports::{
    ConnectionMeter, ConnectionTotals, Containing, CredentialTotals, DiffError, Diffs, DutyMeter, DutyTotals, GitBody,
    GitHttpRequest, GitHttpResponse, GitServer, GitServerError, JobStore, LfsServer, ModelMeter, ModelTotals,
    Passwords, PasswordsFailed, PollTotals, ProviderTotals, PullDetail, PullMerge, PullPages, PullPagesError,
    SandboxError,
};
use journeyman_core::project::Project;
use journeyman_core::pull::base_comparison::Conflicts;
use journeyman_core::pull::{LocalPull, NewMerge};
use journeyman_core::run::Usage;
use journeyman_core::time::{Clock, Timestamp};
use journeyman_core::user::PasswordHash;
use journeyman_core::worker::{Containment, FreeSpace, Guarantee};
use journeyman_http::{Services, Settings, router};
use journeyman_store::SqliteStore;
use journeyman_testkit::{
    FakeComparisons, FakeEndpoints, FakeForges, FakeHosts, FakeTokens, FaultyBlobs, MemoryBlobs, Seeds as _, StillTime,
    Tapped, World,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use uuid::Uuid;

/// A fake of diffs, git and pull requests.
struct FakeRepository;

/// The limits of the service of a test, which are small enough to reach.
fn limits() -> Limits {
    let (wait, git) = (Duration::ZERO, Limit { all: 8, each: 2 });
    let (streams, calls) = (Limit { all: 8, each: 3 }, Limit { all: 8, each: 3 });
    let pushes = Limit { all: 4, each: 1 };
    Limits { git, pushes, streams, calls, memory: Limit { all: 1024, each: 150 }, wait }
}

#[async_trait]
impl Diffs for FakeRepository {
    async fn diff(&self, _: &Project, job: &Job) -> Result<GitBody, DiffError> {
        if job.title == "no diff" {
            return Err(DiffError::Unavailable("the repository is unavailable".into()));
        }
        let first = futures::stream::iter([Ok(Bytes::from_static(b"--- a/x\n+++ b/x\n"))]);
        if job.title == "endless diff" {
            return Ok(Box::pin(first.chain(futures::stream::repeat_with(|| Ok(Bytes::from_static(&[b'x'; 1024]))))));
        }
        Ok(Box::pin(first))
    }

    async fn diff_of_commits(&self, _: &Project, _: &Job, _: &[Sha]) -> Result<GitBody, DiffError> {
        Ok(Box::pin(futures::stream::empty()))
    }

    async fn file(&self, _: &Project, _: &Job, _: &Sha, _: &str) -> Result<Option<Bytes>, DiffError> {
        Ok(None)
    }
}

#[async_trait]
impl GitServer for FakeRepository {
    fn needs_write(&self, path: &str, _: &str) -> bool {
        path != "/git-upload-pack"
    }

    async fn serve(&self, project: &Project, request: GitHttpRequest) -> Result<GitHttpResponse, GitServerError> {
        if request.path == "/nothing" {
            return Err(GitServerError::NotFound);
        }
        let text = format!("{} {}{} by {}", request.method, project.id, request.path, request.user);
        let body = futures::stream::once(async move { Ok(Bytes::from(text)) });
        Ok(GitHttpResponse { status: 200, headers: vec![("X-Git".into(), "1".into())], body: Box::pin(body) })
    }
}

#[async_trait]
impl LfsServer for FakeRepository {
    async fn serve(
        &self,
        project: &Project,
        request: GitHttpRequest,
        may_write: bool,
    ) -> Result<GitHttpResponse, GitServerError> {
        let text = format!("lfs {} {} {} {may_write}", request.method, project.id, request.path);
        let body = futures::stream::once(async move { Ok(Bytes::from(text)) });
        Ok(GitHttpResponse { status: 200, headers: Vec::new(), body: Box::pin(body) })
    }
}

/// A fake that accepts no password.
struct NoPasswords;

#[async_trait]
impl Passwords for NoPasswords {
    fn check_new(&self, _: &str, _: &str) -> Result<(), String> {
        Err("there are none".into())
    }

    async fn hash(&self, _: String) -> Result<PasswordHash, PasswordsFailed> {
        Err(PasswordsFailed("there are none".into()))
    }

    async fn verify(&self, _: String, _: Option<PasswordHash>) -> Result<bool, PasswordsFailed> {
        Ok(false)
    }
}

/// A fake of a machine, whose sandbox is not tested until [`Containing::containment`] is called.
#[derive(Default)]
pub(crate) struct FakeMachine {
    tries: AtomicU64,
    /// `true` if the container engine is unreachable.
    pub(crate) is_away: AtomicBool,
}

#[async_trait]
impl Containing for FakeMachine {
    async fn containment(&self) -> Containment {
        self.tries.store(1, Ordering::SeqCst);
        let note = |text: &str| text.to_owned();
        let guarantees = vec![
            Guarantee { name: "files", holds: true, note: note("none") },
            Guarantee { name: "memory", holds: false, note: note("no control groups") },
        ];
        Containment { sandbox: "fake", guarantees, given_up: vec!["memory".to_owned()] }
    }

    fn seen(&self) -> Option<Containment> {
        (self.tries.load(Ordering::SeqCst) == 1).then(|| self.containment().now_or_never())?
    }

    async fn available(&self) -> Result<(), SandboxError> {
        let text = "the container engine at /run/engine.sock does not answer: Connection refused";
        if self.is_away.load(Ordering::SeqCst) { Err(SandboxError::EngineUnreachable(text.into())) } else { Ok(()) }
    }

    fn free_space(&self) -> Option<FreeSpace> {
        Some(FreeSpace { free_bytes: 10, reserve_bytes: 20 })
    }
}

/// A fake of meters, with fixed counts.
struct FakeMeter;

impl ConnectionMeter for FakeMeter {
    fn connection_totals(&self) -> ConnectionTotals {
        let (refused, closed) = ([("address_limit", 3)].into(), [("idle_timeout", 4)].into());
        ConnectionTotals { limit: 100, authenticated: 1, unauthenticated: 2, accepted: 9, refused, closed }
    }
}

impl DutyMeter for FakeMeter {
    fn duties(&self) -> Vec<DutyTotals> {
        let (last_success, last_duration) = (Some(Timestamp::from_micros(7_000_000)), Duration::from_millis(1500));
        vec![DutyTotals { name: "retention", runs: 3, failures: 1, last_success, last_duration }]
    }

    fn polls(&self) -> Vec<PollTotals> {
        vec![PollTotals { host: "github.com".to_owned(), polls: 5, failures: 1, requests: 9, events: 2 }]
    }

    fn credentials(&self) -> Vec<CredentialTotals> {
        let first_expiry = Some(Timestamp::from_micros(8_000_000));
        let of_host = CredentialTotals { host: "github".to_owned(), of_project: false, first_expiry, problems: 0 };
        vec![of_host.clone(), CredentialTotals { of_project: true, first_expiry: None, problems: 2, ..of_host }]
    }
}

impl ModelMeter for FakeMeter {
    fn model_totals(&self) -> ModelTotals {
        let calls = [("ok", 2), ("model_cut", 1)].map(|(outcome, count)| (outcome.to_owned(), count)).into();
        let tokens = Tokens { input: 100, cached: 40, output: 10, ..Tokens::default() };
        [("anthropic".to_owned(), ProviderTotals { calls, tokens, cost_micros: 7 })].into()
    }
}

#[async_trait]
impl PullPages for FakeRepository {
    async fn pulls(&self, _: &Project) -> Result<Vec<LocalPull>, PullPagesError> {
        Ok(Vec::new())
    }

    async fn branches(&self, _: &Project) -> Result<Vec<String>, PullPagesError> {
        Ok(Vec::new())
    }

    async fn commits(&self, _: &Project, _: &str, _: u64) -> Result<Option<u64>, PullPagesError> {
        Ok(None)
    }

    async fn pull(&self, _: &Project, number: u64) -> Result<PullDetail, PullPagesError> {
        if !(1..=2).contains(&number) {
            return Err(PullPagesError::NotFound);
        }
        let pull = LocalPull {
            repository: "shop".into(),
            number,
            title: "Add a page".into(),
            body: "What and why".into(),
            state: PullState::Open,
            draft: false,
            head: "journeyman/x".into(),
            base: "main".into(),
            labels: vec![],
            created_at: Timestamp::from_micros(0),
            ended_at: None,
            ended_by: None,
            ended_between: None,
            merge_commit: None,
        };
        Ok(PullDetail {
            pull,
            commits: vec![],
            diff: String::new(),
            diff_cut: false,
            mergeable: true,
            conflicts: Conflicts::default(),
        })
    }

    async fn conflicts(&self, _: &Project, _: u64) -> Result<Conflicts, PullPagesError> {
        Ok(Conflicts::default())
    }

    async fn ahead(&self, _: &Project, base: Option<&str>, head: &str) -> Result<(String, u64), PullPagesError> {
        let commits = u64::from(head != "even");
        let known = Ok((base.unwrap_or("main").to_owned(), commits));
        if head == "missing" { Err(PullPagesError::NoBranch(head.to_owned())) } else { known }
    }

    async fn merge(&self, _: &Project, _: u64, _: &NewMerge) -> Result<PullMerge, PullPagesError> {
        Err(PullPagesError::NotFound)
    }

    async fn ends(&self, _: &Project, _: u64) -> Result<Option<(Sha, Sha)>, PullPagesError> {
        Err(PullPagesError::NotFound)
    }
}

/// A service with the project `shop`, and a key that allows all operations.
pub(crate) struct Service {
    pub(crate) router: Router,
    /// Paused time stands still while it writes.
    pub(crate) store: Arc<Tapped<SqliteStore, StillTime>>,
    pub(crate) engine: Engine,
    pub(crate) world: Arc<World>,
    pub(crate) machine: Arc<FakeMachine>,
    pub(crate) blobs: Arc<FaultyBlobs>,
    pub(crate) endpoints: Arc<FakeEndpoints>,
    pub(crate) comparisons: FakeComparisons,
    pub(crate) cases: UseCases,
    pub(crate) tokens: Arc<FakeTokens>,
    pub(crate) deliverer: Deliverer,
    pub(crate) key: String,
    pub(crate) shutdown: CancellationToken,
}

/// A claimed job, and the token of its lease.
pub(crate) type Claimed = (journeyman_core::ids::JobId, journeyman_core::job::Token);

/// A response with its complete body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

/// The statuses of error codes, as the document describes them.
static STATUSES: LazyLock<Value> =
    LazyLock::new(|| journeyman_http::document("1")["components"]["schemas"]["ErrorCode"]["x-statuses"].clone());

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| unreachable!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Returns the code of an error. Checks the form of the error's body.
    pub(crate) fn code(&self) -> String {
        let body = self.json();
        let mut fields: Vec<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
        fields.sort_unstable();
        assert_eq!(fields, ["code", "error", "requestId"], "{self:?}");
        assert_eq!(body["requestId"], self.header("x-request-id"), "{self:?}");
        assert!(body["error"].as_str().is_some_and(|text| !text.is_empty()), "{self:?}");
        let code = body["code"].as_str().unwrap();
        let is_described = STATUSES[code].as_array().unwrap().contains(&json!(self.status.as_u16()));
        assert!(is_described, "the status of the code is not in http/src/error/code.rs: {self:?}");
        code.to_owned()
    }
}

pub(crate) async fn service() -> Service {
    let (world, store) = (World::new(), Arc::new(SqliteStore::temporary(World::new()).unwrap()));
    let store = Arc::new(StillTime::over(store));
    let engine = Engine::new(store.clone(), world.clone(), world.clone());
    let (repository, machine) = (Arc::new(FakeRepository), Arc::new(FakeMachine::default()));
    let agents = Arc::new(agents());
    let (endpoints, comparisons) = (Arc::new(FakeEndpoints::default()), FakeComparisons::default());
    let tokens = Arc::new(FakeTokens::default());
    let cases = UseCases::new(Parts {
        store: store.clone(),
        engine: engine.clone(),
        forges: Arc::new(FakeForges),
        pulls: Arc::new(FakeForges),
        code_hosts: Arc::new(FakeHosts(store.clone())),
        hooks: Arc::new(FakeForges),
        comparisons: Arc::new(comparisons.clone()),
        webhooks: endpoints.clone(),
        tokens: tokens.clone(),
        slack: Arc::new(journeyman_testkit::FakeSlack::default()),
        public_url: "http://localhost:8080".to_owned(),
        ids: world.clone(),
        agents: agents.clone(),
        create_per_hour: 100,
        message_per_hour: 100,
    });
    let deliverer = cases.deliverer(world.clone());
    let blobs = Arc::new(FaultyBlobs::new(Arc::new(MemoryBlobs::new(world.clone()))));
    let services = Services {
        cases: cases.clone(),
        engine: engine.clone(),
        store: store.clone(),
        ids: world.clone(),
        blobs: blobs.clone(),
        diffs: repository.clone(),
        git: repository.clone(),
        lfs: repository.clone(),
        pulls: repository,
        passwords: Arc::new(NoPasswords),
        provider: None,
        seal: Arc::new(journeyman_store::Sealer::new(journeyman_store::MasterKey::new([7; 32]), world.clone())),
        clock: world.clone(),
        machine: Some(machine.clone()),
        installed: None,
        models: Some(Arc::new(FakeMeter)),
        connections: Some(Arc::new(FakeMeter)),
        duties: Some(Arc::new(FakeMeter)),
        limiter: Limiter::new(limits()),
    };
    let settings = Settings {
        public_url: "http://localhost:8080".into(),
        trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()],
        create_per_hour: 100,
        message_per_hour: 100,
        agents,
        version: "1.2.3".into(),
        second_factor: journeyman_core::user::second_factor::RequiredOf::Nobody,
        providers: vec![provider()],
        facts: Vec::new(),
    };
    let shutdown = CancellationToken::new();
    let router = router(services, settings, shutdown.clone());
    let mut service = Service {
        router,
        store,
        engine,
        world,
        machine,
        blobs,
        endpoints,
        comparisons,
        cases,
        tokens,
        deliverer,
        key: String::new(),
        shutdown,
    };
    service.key = service.make_key(|_| {}).await;
    let made = service.post("/v2/projects", r#"{"id":"shop","repository":"local:shop"}"#).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    service
}

/// Returns an agent that asks before it edits files or runs commands, and one that never asks.
fn agents() -> Agents {
    let spec = |text: &str| serde_json::from_str(text).unwrap();
    let journeyman = spec(r#"{"command": ["journeyman"], "asks": ["edit", "execute"]}"#);
    [("journeyman".to_owned(), journeyman), ("other".to_owned(), spec(r#"{"command": ["other"]}"#))].into()
}

impl Service {
    /// Creates a key, and returns its secret. The key allows all operations unless `choose` changes that.
    pub(crate) async fn make_key(&self, choose: impl FnOnce(&mut NewKey)) -> String {
        let mut new = NewKey {
            name: "ci".into(),
            scopes: vec![Scope::Write],
            projects: None,
            expires_at: None,
            allowed_ips: None,
        };
        choose(&mut new);
        let (key, secret) = new.make(("cli", None), self.world.now(), &*self.world).unwrap();
        let line = AuditEntry {
            at: self.world.now(),
            actor: "test".into(),
            action: "key.created".into(),
            subject: "x".into(),
            address: None,
        };
        self.store.create_key(key, line).await.unwrap();
        secret
    }

    /// Sends a request from 192.0.2.1 with the service's key and a JSON content type, after `change` has changed it.
    pub(crate) async fn call(
        &self,
        method: &str,
        path: &str,
        body: impl Into<Body>,
        change: impl FnOnce(&mut Request<Body>),
    ) -> Answer {
        let response = self.begin(method, path, body, change).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Answer { status: parts.status, headers: parts.headers, text }
    }

    /// Sends a request as [`Service::call`] does, and returns the response before its body is read.
    pub(crate) async fn begin(
        &self,
        method: &str,
        path: &str,
        body: impl Into<Body>,
        change: impl FnOnce(&mut Request<Body>),
    ) -> axum::response::Response {
        let request =
            Request::builder().method(method).uri(path).header("authorization", format!("Bearer {}", self.key));
        let mut request = request.header("content-type", "application/json").body(body.into()).unwrap();
        let peer: std::net::SocketAddr = "192.0.2.1:4711".parse().unwrap();
        request.extensions_mut().insert(ConnectInfo(peer));
        change(&mut request);
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, "", |_| {}).await
    }

    pub(crate) async fn post(&self, path: impl AsRef<str>, body: &str) -> Answer {
        self.call("POST", path.as_ref(), body.to_owned(), |_| {}).await
    }

    /// Creates a job in `shop`, and returns its path.
    pub(crate) async fn job(&self, prompt: &str) -> String {
        let body = serde_json::json!({ "prompt": prompt }).to_string();
        let made = self.post("/v2/agent/shop/job", &body).await;
        assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
        format!("/v2/agent/shop/job/{}", made.json()["id"].as_str().unwrap())
    }

    /// Carries out all waiting messages as a worker does, without any commits.
    pub(crate) async fn work(&self) {
        self.work_with(None).await;
    }

    /// Carries out all waiting messages, with this final text of the agent.
    pub(crate) async fn work_with(&self, answer: Option<String>) {
        while let Some(claimed) = self.claim().await {
            self.finish(claimed, answer.clone()).await;
        }
    }

    /// Carries out a claimed message, with this final text of the agent.
    pub(crate) async fn finish(&self, (id, token): Claimed, answer: Option<String>) {
        let sha: journeyman_core::ids::Sha = "a".repeat(40).parse().unwrap();
        let begun = TurnBegun {
            branch: "journeyman/x".into(),
            generation: 1,
            base: sha.clone(),
            head: sha.clone(),
            pushed: None,
            default_branch: None,
            repository: None,
        };
        let ended = Report::TurnEnded {
            head: sha,
            commits: vec![],
            artifacts: TurnArtifacts { answer, ..TurnArtifacts::default() },
            ending: Ending::Done,
        };
        let outcome = Outcome::Published { pushed: None, pull: Published::Nothing };
        for report in [Report::TurnBegun(begun), ended, Report::Finished { outcome, usage: Usage::default() }] {
            self.engine.report(id, token, report).await.unwrap();
        }
    }

    /// Claims the next run as a worker does.
    pub(crate) async fn claim(&self) -> Option<Claimed> {
        let worker = WorkerId::from_uuid(Uuid::nil());
        let claimed = self.engine.claim(worker, Duration::from_secs(30)).await.unwrap()?;
        Some((claimed.job.id, claimed.lease.token))
    }

    /// Returns the number of entries in the log of the job at a path.
    pub(crate) async fn log_length(&self, path: &str) -> usize {
        let id = path.rsplit('/').next().unwrap().parse().unwrap();
        self.store.log(id, 0, 10_000).await.unwrap().len()
    }
}

fn provider() -> ProviderInfo {
    let price = Price {
        input: 3_000_000,
        output: 15_000_000,
        cached: 300_000,
        cache_written: 3_750_000,
        cache_written_long: 6_000_000,
    };
    ProviderInfo {
        prefix: "anthropic".into(),
        dialect: Dialect::Anthropic,
        is_ready: true,
        key_variable: Some("ANTHROPIC_API_KEY".into()),
        context_tokens: Some(200_000),
        prices: vec![("anthropic/claude-*".into(), price)],
        prices_date: Some("2026-11-20".into()),
    }
}
