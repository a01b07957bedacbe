//! Tests that every route of the dashboard is in a table of permissions, and that each kind of client gets what the
//! table says. A new route without a row fails.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use journeyman_core::code_host::PullState;
use journeyman_core::engine::{Admission, NewJob};
use journeyman_core::ids::{JobId, UserId};
use journeyman_core::ports::{
    JobFilter, JobLists, JobStore, KeyStore, ProjectStore, ResourceStore as _, UserStore, WebhookStore as _,
};
use journeyman_core::project::Project;
use journeyman_core::template::Template;
use journeyman_core::user::{Role, Session, TokenHash};
use journeyman_testkit::{Seeds as _, all_stored};
use tower::ServiceExt as _;

use super::pulls::{Fake, detail};
use super::{Fixture, START, audit_entry, fixture, job, token, user};
use crate::{pages, portal};

/// The routes that need no session.
const OPEN: &[&str] = &[
    "GET /assets/{name}",
    "GET /docs",
    "GET /docs/openapi.json",
    "GET /docs/{*path}",
    "GET /login",
    "POST /login",
    "GET /login/code",
    "POST /login/code",
    "GET /login/passkey",
    "POST /login/passkey",
    "GET /login/provider",
    "GET /login/returned",
    "POST /logout",
    "GET /setup",
    "POST /setup",
];

/// The routes for every signed-in user.
const VIEWER: &[&str] = &[
    "GET /",
    "GET /account",
    "POST /confirm",
    "GET /confirm/done",
    "GET /confirm/provider",
    "POST /account/letters",
    "POST /account/password",
    "POST /account/provider",
    "POST /account/provider/disconnect",
    "GET /account/passkeys",
    "POST /account/passkeys",
    "POST /account/passkeys/{passkey}/remove",
    "POST /account/passkeys/{passkey}/rename",
    "GET /account/second-factor",
    "POST /account/second-factor",
    "POST /account/second-factor/codes",
    "POST /account/second-factor/remove",
    "POST /account/sessions/{session}/end",
    "POST /account/theme",
    "GET /home/live",
    "GET /jobs",
    "GET /jobs/live",
    "GET /keyboard",
    "GET /projects",
    "GET /projects/{project}",
    "GET /projects/{project}/inbox",
    "GET /projects/{project}/jobs",
    "GET /projects/{project}/jobs/live",
    "GET /projects/{project}/jobs/{job}",
    "GET /projects/{project}/jobs/{job}/changes",
    "GET /projects/{project}/jobs/{job}/changes/lines",
    "GET /projects/{project}/jobs/{job}/events",
    "GET /projects/{project}/jobs/{job}/live",
    "GET /projects/{project}/jobs/{job}/record",
    "GET /projects/{project}/jobs/{job}/runs",
    "GET /projects/{project}/pulls",
    "GET /projects/{project}/pulls/{number}",
    "GET /projects/{project}/pulls/{number}/commits",
    "GET /projects/{project}/pulls/{number}/files",
    "GET /projects/{project}/pulls/{number}/files/lines",
    "GET /projects/{project}/pulls/{number}/live",
    "GET /projects/{project}/settings",
    "GET /projects/{project}/settings/templates",
    "GET /projects/{project}/settings/{section}",
    "GET /search",
    "GET /search/results",
    "GET /secrets/{ticket}",
    "POST /secrets/{ticket}/stored",
    "GET /system",
    "GET /system/live",
    "GET /usage",
    "GET /usage.csv",
];

/// The routes for members and administrators.
const MEMBER: &[&str] = &[
    "POST /account/slack",
    "POST /jobs/archive",
    "POST /jobs/unarchive",
    "GET /keys",
    "POST /keys",
    "GET /keys/new",
    "POST /keys/{key}/revoke",
    "POST /keys/{key}/rotate",
    "POST /projects/{project}/jobs",
    "GET /projects/{project}/jobs/new",
    "POST /projects/{project}/jobs/{job}/again",
    "POST /projects/{project}/jobs/{job}/archive",
    "POST /projects/{project}/jobs/{job}/cancel",
    "POST /projects/{project}/jobs/{job}/changes/comments",
    "POST /projects/{project}/jobs/{job}/messages",
    "POST /projects/{project}/jobs/{job}/messages/{message}/withdraw",
    "POST /projects/{project}/jobs/{job}/retry",
    "POST /projects/{project}/jobs/{job}/unarchive",
    "POST /projects/{project}/jobs/{job}/update",
    "POST /projects/{project}/pulls",
    "GET /projects/{project}/pulls/new",
    "POST /projects/{project}/pulls/{number}/close",
    "POST /projects/{project}/pulls/{number}/comments",
    "POST /projects/{project}/pulls/{number}/comments/{comment}/resolve",
    "POST /projects/{project}/pulls/{number}/drafts/{comment}/remove",
    "POST /projects/{project}/pulls/{number}/lines",
    "POST /projects/{project}/pulls/{number}/merge",
    "POST /projects/{project}/pulls/{number}/review",
    "POST /projects/{project}/pulls/{number}/update",
];

/// The routes for administrators.
const ADMINISTRATOR: &[&str] = &[
    "GET /audit",
    "GET /audit/export",
    "GET /keys/exchanged",
    "POST /projects",
    "GET /projects/new",
    "POST /projects/{project}/delete",
    "POST /projects/{project}/import",
    "POST /projects/{project}/settings/templates",
    "GET /projects/{project}/settings/templates/new",
    "GET /projects/{project}/settings/templates/{template}/edit",
    "POST /projects/{project}/settings/templates/{template}/edit",
    "POST /projects/{project}/settings/templates/{template}/remove",
    "POST /projects/{project}/settings/{section}",
    "GET /projects/{project}/webhooks",
    "POST /projects/{project}/webhooks",
    "GET /projects/{project}/webhooks/new",
    "GET /projects/{project}/webhooks/{webhook}",
    "POST /projects/{project}/webhooks/{webhook}/disable",
    "GET /projects/{project}/webhooks/{webhook}/edit",
    "POST /projects/{project}/webhooks/{webhook}/edit",
    "POST /projects/{project}/webhooks/{webhook}/enable",
    "POST /projects/{project}/webhooks/{webhook}/redeliver/{delivery}",
    "POST /projects/{project}/webhooks/{webhook}/remove",
    "POST /projects/{project}/webhooks/{webhook}/replay",
    "POST /projects/{project}/webhooks/{webhook}/rotate",
    "POST /projects/{project}/webhooks/{webhook}/test",
    "GET /system/code-hosts",
    "POST /system/code-hosts",
    "GET /system/code-hosts/github/app",
    "GET /system/code-hosts/github/callback",
    "GET /system/code-hosts/new",
    "POST /system/code-hosts/{host}/check",
    "GET /system/code-hosts/{host}/edit",
    "POST /system/code-hosts/{host}/edit",
    "POST /system/code-hosts/{host}/remove",
    "GET /system/inbox",
    "GET /system/slack",
    "POST /system/slack",
    "GET /system/slack/new",
    "GET /system/slack/{workspace}",
    "POST /system/slack/{workspace}/channels",
    "POST /system/slack/{workspace}/check",
    "POST /system/slack/{workspace}/edit",
    "POST /system/slack/{workspace}/people",
    "POST /system/slack/{workspace}/remove",
    "GET /system/trusts",
    "POST /system/trusts",
    "GET /system/trusts/new",
    "GET /system/trusts/{trust}/edit",
    "POST /system/trusts/{trust}/edit",
    "POST /system/trusts/{trust}/remove",
    "GET /users",
    "POST /users",
    "POST /users/{user}/disable",
    "POST /users/{user}/disconnect",
    "POST /users/{user}/enable",
    "POST /users/{user}/link",
    "POST /users/{user}/role",
    "POST /users/{user}/second-factor/remove",
];

/// Returns all routes of the router, as method and path.
///
/// The paths are in the debug output of axum's routers, which have no other list of them. A request with the method
/// `TRACE`, which no page has, gets the methods of a path.
pub(super) async fn routes(fixture: &Fixture) -> BTreeSet<String> {
    let assets = format!("{:?}", crate::assets::routes::routes());
    let all = format!("{:?}{:?}{:?}{assets}", pages::routes(), pages::open_routes(), portal::routes());
    let paths: BTreeSet<&str> =
        all.split('"').skip(1).step_by(2).filter(|text| text.starts_with('/') && !text.contains("__private")).collect();
    let mut found = BTreeSet::new();
    for path in paths {
        let request = Request::builder().method(Method::TRACE).uri(example(path, &Ids::default()));
        let request = request.header("sec-fetch-site", "same-origin");
        let request = request.header("cookie", format!("journeyman={}", token(Role::Administrator)));
        let reply = fixture.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(reply.status(), StatusCode::METHOD_NOT_ALLOWED, "{path}");
        let methods = reply.headers()["allow"].to_str().unwrap().to_owned();
        found.extend(methods.split(',').filter(|method| *method != "HEAD").map(|method| format!("{method} {path}")));
    }
    found
}

/// The IDs of the objects in the example of a path.
#[derive(Default)]
struct Ids {
    job: String,
    message: String,
    template: String,
    webhook: String,
    key: String,
    user: String,
}

/// Returns an example of a path: the parameters of the route are replaced.
fn example(path: &str, ids: &Ids) -> String {
    let mut example = path.to_owned();
    for (parameter, value) in [
        ("{project}", "shop"),
        ("{job}", &ids.job),
        ("{message}", &ids.message),
        ("{template}", &ids.template),
        ("{webhook}", &ids.webhook),
        ("{key}", &ids.key),
        ("{user}", &ids.user),
        ("{delivery}", "1"),
        ("{number}", "7"),
        ("{comment}", "1"),
        ("{section}", "agent"),
        ("{session}", "none"),
        ("{ticket}", "none"),
        ("{host}", "none"),
        ("{workspace}", "slw_0193456789ab7def8123456789abcdef"),
        ("{trust}", "trust_0193456789ab7def8123456789abcdef"),
        ("{name}", "none.css"),
        ("{passkey}", "none"),
        ("{*path}", "none"),
    ] {
        example = example.replace(parameter, if value.is_empty() { "none" } else { value });
    }
    assert!(!example.contains('{'), "{path}: a parameter without an example");
    example
}

/// Sends a request from one of our pages. Returns the status and the target of a redirect, without the body, because
/// streams do not end.
async fn send(fixture: &Fixture, token: Option<&str>, route: &str, ids: &Ids, site: &str) -> (u16, String) {
    let (method, path) = route.split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(example(path, ids)).header("sec-fetch-site", site);
    if let Some(token) = token {
        request = request.header("cookie", format!("journeyman={token}"));
    }
    let request = request.header("content-type", "application/x-www-form-urlencoded");
    let request = request.body(Body::from(format!("job=shop/{}", ids.job))).unwrap();
    let reply = fixture.router.clone().oneshot(request).await.unwrap();
    let target = reply.headers().get("location").map(|target| target.to_str().unwrap().to_owned());
    (reply.status().as_u16(), target.unwrap_or_default())
}

/// Returns everything that a route could change.
async fn state(fixture: &Fixture) -> String {
    let store = &fixture.store;
    let mut all = format!("{:?}{:?}{:?}", fixture.audited().await, store.keys().await, store.users().await);
    for id in ["shop", "empty"] {
        let id: journeyman_core::ids::ProjectId = id.parse().unwrap();
        let project = store.project(id.clone()).await;
        let templates: Result<Vec<Template>, _> = store.resources(Some(id.clone())).await;
        let webhooks = store.webhooks_after(id.clone(), None, 9).await;
        write!(all, "{project:?}{templates:?}{webhooks:?}").unwrap();
        for job in store.jobs(JobFilter::newest(id, 100)).await.unwrap() {
            write!(all, "{job:?}{:?}", store.messages(job.id).await).unwrap();
        }
    }
    all
}

/// Creates a job with a message, a template and a webhook in a project. Returns their IDs.
async fn objects(fixture: &Fixture, id: &str) -> Ids {
    let project = fixture.store.project(id.parse().unwrap()).await.unwrap().unwrap();
    let job: JobId = {
        let new = NewJob::new(job::prompt("Fix the typo"));
        fixture.engine.create_job(&project, new, Admission::default()).await.unwrap().record.id
    };
    let message = fixture.store.messages(job).await.unwrap().pop().unwrap();
    let admin = Some(Role::Administrator);
    let template = format!("/projects/{id}/settings/templates");
    let webhook = format!("/projects/{id}/webhooks");
    for (path, form) in [
        (&template, "name=Bug&prompt=Fix+a+bug"),
        (&webhook, "url=https%3A%2F%2Fhooks.example%2Fa&format=standard&event=job.created&description=CI"),
    ] {
        assert_eq!(fixture.send(admin, Method::POST, path, form).await.status, StatusCode::SEE_OTHER, "{path}");
    }
    Ids {
        job: job.to_string(),
        message: message.id.to_string(),
        template: all_stored::<Template>(&*fixture.store, Some(project.id.clone())).await.remove(0).id.to_string(),
        webhook: fixture.store.webhooks_after(project.id, None, 1).await.unwrap().remove(0).id.to_string(),
        ..Ids::default()
    }
}

/// Creates a fixture with the projects `shop` and `empty`, which both have objects. Returns the IDs of these.
async fn projects() -> (Fixture, Ids, Ids) {
    let fixture = fixture(Arc::new(Fake::with(detail(PullState::Open)))).await;
    fixture
        .store
        .create_project(Project::new("empty".parse().unwrap(), "local:empty", START), [].into())
        .await
        .unwrap();
    let (mut own, other) = (objects(&fixture, "shop").await, objects(&fixture, "empty").await);
    own.user = fixture.store.user_by_name("viewer".into()).await.unwrap().unwrap().id.to_string();
    let made = fixture.send(Some(Role::Administrator), Method::POST, "/keys", "name=ci&days=30&where=all").await;
    assert_eq!(made.status, StatusCode::SEE_OTHER);
    own.key = fixture.store.keys().await.unwrap().remove(0).id.to_string();
    (fixture, own, other)
}

/// Creates a user with a session, whose token it returns.
async fn signed_in(fixture: &Fixture, name: &str, role: Role, number: u128) -> (UserId, String) {
    let user = journeyman_core::user::User { name: name.to_owned(), ..user(role, number, START) };
    let hash = TokenHash::of(name);
    fixture.store.create_user(user.clone(), audit_entry()).await.unwrap();
    let session = Session {
        hash,
        user: user.id,
        created_at: START,
        seen_at: START,
        proven_at: Some(START),
        address: None,
        browser: None,
    };
    fixture.store.start_session(session, user.password, audit_entry()).await.unwrap();
    (user.id, name.to_owned())
}

fn with_session() -> impl Iterator<Item = &'static &'static str> {
    VIEWER.iter().chain(MEMBER).chain(ADMINISTRATOR)
}

#[tokio::test]
async fn every_route_has_a_row() {
    let (fixture, ..) = projects().await;
    let table: BTreeSet<String> = OPEN.iter().chain(with_session()).map(|route| (*route).to_owned()).collect();
    assert_eq!(table.len(), OPEN.len() + with_session().count(), "a route has one row");
    assert_eq!(routes(&fixture).await, table);
}

#[tokio::test]
async fn no_route_lets_anyone_in_without_a_session_that_holds() {
    let (fixture, own, _) = projects().await;
    let (id, disabled) = signed_in(&fixture, "disabled", Role::Administrator, 2001).await;
    fixture.store.set_disabled(id, true, audit_entry()).await.unwrap();
    let (_, ended) = signed_in(&fixture, "ended", Role::Administrator, 2002).await;
    assert_eq!(send(&fixture, Some(&ended), "POST /logout", &own, "same-origin").await.0, 303);
    let unknown = "0".repeat(64);
    let before = state(&fixture).await;
    for route in with_session() {
        for token in [None, Some(&unknown), Some(&disabled), Some(&ended)] {
            let (status, target) = send(&fixture, token.map(String::as_str), route, &own, "same-origin").await;
            assert!(status == 303 && target.starts_with("/login"), "{route} with {token:?}: {status} {target}");
        }
        assert_eq!(state(&fixture).await, before, "{route}");
    }
}

#[tokio::test]
async fn no_route_takes_a_form_of_another_site() {
    let (fixture, own, _) = projects().await;
    let before = state(&fixture).await;
    for route in OPEN.iter().chain(with_session()).filter(|route| route.starts_with("POST")) {
        for site in ["cross-site", "same-site", "none"] {
            let (status, _) = send(&fixture, Some(&token(Role::Administrator)), route, &own, site).await;
            assert_eq!(status, 403, "{route} from {site}");
        }
        assert_eq!(state(&fixture).await, before, "{route}");
    }
}

#[tokio::test]
async fn each_route_is_open_to_the_roles_of_its_row() {
    for (rows, roles) in [
        (VIEWER, &[Role::Viewer, Role::Member, Role::Administrator][..]),
        (MEMBER, &[Role::Member, Role::Administrator]),
        (ADMINISTRATOR, &[Role::Administrator]),
    ] {
        let (fixture, own, _) = projects().await;
        let before = state(&fixture).await;
        for route in rows {
            for role in Role::ALL.into_iter().filter(|role| !roles.contains(role)) {
                let (status, _) = send(&fixture, Some(&token(role)), route, &own, "same-origin").await;
                assert_eq!(status, 403, "{route} by {}", role.name());
            }
            assert_eq!(state(&fixture).await, before, "{route}");
        }
        for route in rows {
            for role in roles {
                let (status, target) = send(&fixture, Some(&token(*role)), route, &own, "same-origin").await;
                let is_let_in = status != 403 && status < 500 && !target.starts_with("/login");
                assert!(is_let_in, "{route} by {}: {status} {target}", role.name());
            }
        }
    }
}

#[tokio::test]
async fn no_route_of_a_project_reaches_objects_of_another() {
    let (fixture, own, other) = projects().await;
    let before = state(&fixture).await;
    let has_object = |route: &str| ["{job}", "{template}", "{webhook}"].iter().any(|object| route.contains(object));
    let routes: Vec<&&str> = with_session().filter(|route| has_object(route)).collect();
    assert!(routes.len() > 25, "{routes:?}");
    for route in &routes {
        let (status, _) = send(&fixture, Some(&token(Role::Administrator)), route, &other, "same-origin").await;
        assert_eq!(status, 404, "{route}");
        assert_eq!(state(&fixture).await, before, "{route}");
    }
    let mixed = Ids { job: own.job.clone(), message: other.message.clone(), ..Ids::default() };
    let withdraw = "POST /projects/{project}/jobs/{job}/messages/{message}/withdraw";
    let (status, _) = send(&fixture, Some(&token(Role::Administrator)), withdraw, &mixed, "same-origin").await;
    assert_eq!((status, state(&fixture).await == before), (404, true), "a message of another job");
    // The control: the same routes with the objects of the project.
    for route in routes.iter().filter(|route| route.starts_with("GET") && !route.ends_with("/lines")) {
        let route = route.replace("/live", "/live?from=0&after=0");
        let (status, _) = send(&fixture, Some(&token(Role::Administrator)), &route, &own, "same-origin").await;
        assert_eq!(status, 200, "{route}");
    }
}
