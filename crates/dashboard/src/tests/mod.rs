//! The pages as a browser gets them: a store in memory, pull requests that are made up, and an interface that notes what
//! it was asked.

mod door;
mod job;
mod pulls;
mod roles;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use journeyman_core::ids::{JobId, UserId};
use journeyman_core::job::Job;
use journeyman_core::ports::{
    AuditEntry, DiffError, Diffs, Passwords, PasswordsFailed, ProjectStore, PullPages, Store, UserStore,
};
use journeyman_core::project::{Project, Settings as ProjectSettings};
use journeyman_core::time::{Clock, IdGen, Timestamp};
use journeyman_core::user::{PasswordHash, Role, Session, TokenHash, User};
use journeyman_store::MemoryStore;
use serde_json::{Value, json};
use tower::ServiceExt as _;
use uuid::Uuid;

use crate::{Answer as Told, Call, Interface, LogTail, Services, Settings, Tail, Viewer, router};

/// A clock set by hand, and ids that count.
#[derive(Default)]
struct World {
    micros: AtomicI64,
    count: AtomicU64,
}

impl World {
    fn pass(&self, time: Duration) {
        self.micros.fetch_add(i64::try_from(time.as_micros()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for World {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_795_224_330_123_456 + self.micros.load(Ordering::SeqCst))
    }
}

impl IdGen for World {
    fn uuid(&self, _: Timestamp) -> Uuid {
        Uuid::from_u128(u128::from(self.count.fetch_add(1, Ordering::SeqCst)) + 1000)
    }

    fn fill(&self, bytes: &mut [u8]) {
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        for (place, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::try_from((number + place as u64) % 251).unwrap();
        }
    }
}

/// Passwords are their own hashes.
struct Plain;

#[async_trait]
impl Passwords for Plain {
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

/// Answers all alike, and notes what it was asked and by whom.
struct Asked {
    answer: Mutex<(StatusCode, Value)>,
    calls: Mutex<Vec<String>>,
}

#[async_trait]
impl Interface for Asked {
    async fn call(&self, viewer: &Viewer, call: Call) -> Told {
        let body = call.body.map(|body| format!(" {body}")).unwrap_or_default();
        self.calls.lock().unwrap().push(format!("{} {} {}{body}", viewer.user.name, call.method, call.path));
        let (status, body) = self.answer.lock().unwrap().clone();
        Told { status, body }
    }

    fn forget(&self) {}

    async fn stopped(&self) {
        std::future::pending().await
    }

    fn tail(&self, _: JobId, _: u64) -> Box<dyn LogTail> {
        Box::new(Nothing)
    }
}

struct Nothing;

#[async_trait]
impl LogTail for Nothing {
    async fn next(&mut self) -> Tail {
        Tail::Over
    }
}

struct OneLine;

#[async_trait]
impl Diffs for OneLine {
    async fn diff(&self, _: &Project, _: &Job) -> Result<Bytes, DiffError> {
        Ok(Bytes::from_static(pulls::DIFF.as_bytes()))
    }
}

struct House {
    router: Router,
    store: Arc<MemoryStore>,
    world: Arc<World>,
    asked: Arc<Asked>,
}

/// The token in the cookie of the user with that role.
fn token(role: Role) -> String {
    format!("session of {}", role.name())
}

fn line() -> AuditEntry {
    let (actor, action, subject) = ("cli".to_owned(), "made".to_owned(), "test".to_owned());
    AuditEntry { at: Timestamp::default(), actor, action, subject, address: None }
}

pub(crate) fn project() -> Project {
    Project {
        id: "shop".parse().unwrap(),
        repository: "local:shop".into(),
        reference: None,
        agent: "journeyman".into(),
        model: "test/scripted".into(),
        created_at: Timestamp::from_micros(0),
        settings: ProjectSettings::default(),
        secret_names: Vec::new(),
    }
}

fn user(role: Role, number: u128, now: Timestamp) -> User {
    User {
        id: UserId::from_uuid(Uuid::from_u128(number)),
        name: role.name().to_owned(),
        role,
        password: Some(PasswordHash("a long password".to_owned())),
        identity: None,
        created_at: now,
        signed_in_at: None,
        disabled_at: None,
    }
}

/// With the project `shop`, and a user of each role who has signed in.
async fn house(pages: Arc<dyn PullPages>) -> House {
    let house = empty_house(pages);
    let now = house.world.now();
    house.store.create_project(project(), [].into()).await.unwrap();
    for (role, number) in Role::ALL.into_iter().zip(1..) {
        let user = user(role, number, now);
        house.store.create_user(user.clone(), line()).await.unwrap();
        let session = Session {
            hash: TokenHash::of(&token(role)),
            user: user.id,
            created_at: now,
            seen_at: now,
            address: None,
            browser: None,
        };
        house.store.start_session(session, user.password, line()).await.unwrap();
    }
    house
}

/// Where nobody has been yet.
fn empty_house(pulls: Arc<dyn PullPages>) -> House {
    let (world, store) = (Arc::new(World::default()), Arc::new(MemoryStore::default()));
    let asked = Arc::new(Asked { answer: Mutex::new((StatusCode::OK, json!({}))), calls: Mutex::default() });
    let services = Services {
        store: store.clone() as Arc<dyn Store>,
        interface: asked.clone(),
        pulls,
        diffs: Arc::new(OneLine),
        passwords: Arc::new(Plain),
        provider: None,
        clock: world.clone(),
        ids: world.clone(),
    };
    let settings = Settings {
        public_url: "http://localhost:8080".to_owned(),
        agents: vec!["journeyman".to_owned()],
        version: "1.2.3".to_owned(),
        facts: vec![("Database".to_owned(), "/srv/database".to_owned())],
    };
    House { router: router(services, settings), store, world, asked }
}

/// What a browser got.
struct Got {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Got {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no header {name}")).to_str().unwrap()
    }

    /// The token in the cookie that it sets.
    fn token(&self) -> &str {
        let cookie = self.header("set-cookie");
        cookie.strip_prefix("journeyman=").and_then(|rest| rest.split(';').next()).unwrap()
    }
}

impl House {
    /// As a browser with a session sends it, from one of our pages.
    async fn send(&self, role: Option<Role>, method: Method, path: &str, form: &str) -> Got {
        self.ask(method, path, form, |request| {
            let headers = request.headers_mut();
            headers.insert("sec-fetch-site", "same-origin".parse().unwrap());
            if let Some(role) = role {
                headers.insert("cookie", format!("journeyman={}", token(role)).parse().unwrap());
            }
        })
        .await
    }

    async fn ask(&self, method: Method, path: &str, form: &str, with: impl FnOnce(&mut Request<Body>)) -> Got {
        let mut request = Request::builder().method(method).uri(path);
        request = request.header("content-type", "application/x-www-form-urlencoded");
        let mut request = request.body(Body::from(form.to_owned())).unwrap();
        with(&mut request);
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.into_body().collect().await.unwrap().to_bytes();
        Got { status, headers, body: String::from_utf8(body.to_vec()).unwrap() }
    }

    fn answers(&self, status: StatusCode, body: Value) {
        *self.asked.answer.lock().unwrap() = (status, body);
    }

    fn calls(&self) -> Vec<String> {
        self.asked.calls.lock().unwrap().clone()
    }
}
