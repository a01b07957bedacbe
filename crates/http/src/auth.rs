//! Authentication of requests by API key.
//!
//! The interface accepts a key only as `Authorization: Bearer`. Git clients may also send it as the password of HTTP
//! Basic, with any user name. The pages of the dashboard do not accept keys; they have sessions.

mod address;
mod credential;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{MatchedPath, Path, RawQuery, Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use journeyman_core::ids::ProjectId;
use journeyman_core::key::{ApiKey, KeyHash, Refused, Scope, hash};
use journeyman_core::lfs::SERVER;
use journeyman_core::message::Origin;
use journeyman_core::ports::ClientConnection;
use journeyman_core::trace::TraceParent;
use journeyman_dashboard::ClientAddress;

use self::credential::Schemes;
use crate::app::App;
use crate::caller::{Actor, Caller};
use crate::error::{ApiError, ErrorCode};
use crate::limits;

/// Authenticates the requests to the interface under `/v2`.
pub(crate) async fn of_the_interface(State(app): State<App>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let needs = needs(request.method(), route);
    admit(&app, request, next, Schemes::Bearer, needs).await
}

/// Authenticates the requests of clients of the Model Context Protocol and of A2A. The use cases check whether a
/// key may do more than read.
pub(crate) async fn of_protocols(State(app): State<App>, request: Request, next: Next) -> Response {
    admit(&app, request, next, Schemes::Bearer, Scope::Read).await
}

/// Authenticates the requests of git clients to the built-in code host.
pub(crate) async fn of_git(
    State(app): State<App>,
    Path((_, path)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    request: Request,
    next: Next,
) -> Response {
    // The LFS server knows from the body what a request needs.
    let is_lfs = format!("/{path}").starts_with(SERVER);
    let writes = !is_lfs && app.services.git.needs_write(&format!("/{path}"), query.as_deref().unwrap_or_default());
    let needs = if writes { Scope::Write } else { Scope::Read };
    admit(&app, request, next, Schemes::BasicToo, needs).await
}

/// Adds the client's address to requests for pages of the dashboard, which authenticates its users itself.
pub(crate) async fn of_pages(State(app): State<App>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let from = address::of(&parts, &app.settings.trusted_proxies);
    parts.extensions.insert(ClientAddress(from));
    let only_reads = parts.method.is_safe();
    let response = next.run(Request::from_parts(parts, body)).await;
    limits::counted(&app, limits::sender(from), only_reads, response)
}

/// Returns the address of the client of a request, as far as it is known.
pub(crate) fn client_address(app: &App, parts: &Parts) -> Option<std::net::IpAddr> {
    address::of(parts, &app.settings.trusted_proxies)
}

/// Returns whether a request for which no key is needed comes from this machine itself. Then it may see details of the
/// machine.
pub(crate) fn is_local(parts: &Parts) -> bool {
    address::is_local(parts)
}

/// Returns whether a request for which no key is needed has the key of an administrator. Looks a key up only if the
/// request has one.
pub(crate) async fn has_key_of_administrator(app: &App, parts: &Parts) -> bool {
    let caller = caller(app, parts, Schemes::Bearer, Scope::Read).await;
    let may = caller.is_ok_and(|caller| caller.needs_administrator_to_read().is_ok());
    if may {
        mark_connection(parts, true);
    }
    may
}

/// Passes a request on with its [`Caller`], or returns the reason why it is refused.
async fn admit(app: &App, request: Request, next: Next, schemes: Schemes, needs: Scope) -> Response {
    let (mut parts, body) = request.into_parts();
    match caller(app, &parts, schemes, needs).await {
        Ok(caller) => {
            mark_connection(&parts, true);
            let (holder, only_reads) = (limits::holder(&caller), parts.method.is_safe());
            parts.extensions.insert(caller);
            let response = next.run(Request::from_parts(parts, body)).await;
            limits::counted(app, holder, only_reads, response)
        }
        Err(error) => {
            let response = error.into_response();
            if response.status() == StatusCode::UNAUTHORIZED {
                mark_connection(&parts, false);
            }
            response
        }
    }
}

/// Returns whether a caller may push to the repositories that it sees.
pub(crate) fn may_push(app: &App, caller: &Caller) -> bool {
    let Actor::Key(key) = &caller.actor else { return false };
    key.check(app.services.engine.now(), caller.address, Scope::Write).is_ok()
}

/// Reports to the server whether the request on this connection was authenticated. Does nothing for a request without a
/// connection, as in tests.
pub(crate) fn mark_connection(parts: &Parts, authenticated: bool) {
    if let Some(connection) = parts.extensions.get::<Arc<dyn ClientConnection>>() {
        connection.set_authenticated(authenticated);
    }
}

/// Returns the scope that a request requires. A few requests that only read require more, which their extractors check.
fn needs(method: &Method, route: &str) -> Scope {
    let of_job = route.strip_prefix("/v2/agent/{projectId}/job/{id}");
    let ends_job = match of_job {
        Some("") => *method == Method::DELETE,
        Some(action) => matches!(action, "/archive" | "/unarchive"),
        None => false,
    };
    if matches!(*method, Method::GET | Method::HEAD) {
        Scope::Read
    } else if route.starts_with("/v2/agent/") && !ends_job {
        Scope::Jobs
    } else {
        Scope::Write
    }
}

async fn caller(app: &App, parts: &Parts, schemes: Schemes, needs: Scope) -> Result<Caller, ApiError> {
    let refuse = |code, text: String| ApiError::unauthorized(schemes.challenge(), code, text);
    let secret =
        credential::read(&parts.headers, schemes).map_err(|error| refuse(ErrorCode::NoKey, error.to_string()))?;
    let hash = hash(&secret).map_err(|error| refuse(ErrorCode::MalformedKey, error.to_string()))?;
    let from = address::of(parts, &app.settings.trusted_proxies);
    let key = check(app, hash, from, needs).await.map_err(|error| match error {
        CheckError::Store(error) => ApiError::from(error),
        CheckError::Refused(refused) => {
            let text = refused.to_string();
            match refused {
                Refused::Unknown => refuse(ErrorCode::UnknownKey, text),
                Refused::Expired => refuse(ErrorCode::ExpiredKey, text),
                Refused::Address => ApiError::forbidden(ErrorCode::AddressNotAllowed, text),
                Refused::Scope(_) => ApiError::forbidden(ErrorCode::ScopeMissing, text),
            }
        }
    })?;
    note_use(app, &key);
    let traceparent = parts.extensions.get::<TraceParent>().cloned();
    Ok(Caller { actor: Actor::Key(key), address: from, origin: Origin::Api, traceparent })
}

enum CheckError {
    Store(journeyman_core::ports::StoreError),
    Refused(Refused),
}

async fn check(
    app: &App,
    hash: KeyHash,
    from: Option<std::net::IpAddr>,
    needs: Scope,
) -> Result<Arc<ApiKey>, CheckError> {
    let now = app.services.engine.now();
    let key = app.cases.known_key(hash).await.map_err(CheckError::Store)?;
    let key = key.filter(|key| key.has_secret(hash, now)).ok_or(CheckError::Refused(Refused::Unknown))?;
    key.check(now, from, needs).map_err(CheckError::Refused)?;
    // Later checks of this request are about the secret that it has, which may be the one before a rotation.
    Ok(if key.hash == hash { key } else { Arc::new(ApiKey { hash, ..(*key).clone() }) })
}

/// Returns whether the caller's key may still read, and may see the project if one is given. Event streams check this while they are quiet, because
/// the key may have been revoked or have expired since they began.
pub(crate) async fn still_valid(app: &App, caller: &Caller, project: Option<&ProjectId>) -> bool {
    let now = app.services.engine.now();
    let Actor::Key(key) = &caller.actor else { return false };
    let hash = key.hash;
    let Ok(Some(key)) = app.cases.known_key(hash).await else { return false };
    // The address was checked when the response began, and a connection keeps its address.
    let here = ApiKey { allowed_ips: None, ..(*key).clone() };
    here.has_secret(hash, now)
        && here.check(now, None, Scope::Read).is_ok()
        && project.is_none_or(|project| here.sees(project))
}

/// Stores the time of a key's use in the background, at most once a minute per key.
fn note_use(app: &App, key: &ApiKey) {
    const MINUTE: Duration = Duration::from_secs(60);
    let now = app.services.engine.now();
    if key.last_used_at.is_some_and(|last| now.since(last) < MINUTE) {
        return;
    }
    {
        let mut noted = app.noted.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if noted.get(&key.id).is_some_and(|last| now.since(*last) < MINUTE) {
            return;
        }
        noted.retain(|_, last| now.since(*last) < MINUTE);
        noted.insert(key.id, now);
    }
    let (store, id) = (app.services.store.clone(), key.id);
    tokio::spawn(async move {
        if let Err(error) = store.key_used(id, now).await {
            tracing::warn!(%error, key = %id, "the last use of a key could not be stored");
        }
    });
}
