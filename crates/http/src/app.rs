//! What handlers are given, and the router that all of it comes together in.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::middleware::from_fn_with_state;
use ipnet::IpNet;
use journeyman_core::engine::Engine;
use journeyman_core::ids::KeyId;
use journeyman_core::ports::{Diffs, Forges, GitServer, PullPages, Store};
use journeyman_core::time::{IdGen, Timestamp};
use journeyman_dashboard::PullsState;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;

use crate::metrics::Metrics;
use crate::origin::OurOrigins;
use crate::{answer, auth, origin, routes};

/// What the interface works on; all of it are ports.
#[derive(Clone)]
pub struct Services {
    /// Moves jobs.
    pub engine: Engine,
    /// Where everything is read.
    pub store: Arc<dyn Store>,
    /// Makes request ids, key ids and secrets.
    pub ids: Arc<dyn IdGen>,
    /// Makes repositories of the built-in code host.
    pub forges: Arc<dyn Forges>,
    /// Reads the diffs of jobs.
    pub diffs: Arc<dyn Diffs>,
    /// Serves repositories of the built-in code host to git.
    pub git: Arc<dyn GitServer>,
    /// The pull requests of the built-in code host.
    pub pulls: Arc<dyn PullPages>,
}

/// What an operator sets.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where clients reach the service, without a slash at the end: `https://journeyman.example.com`.
    pub public_url: String,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Jobs that a project may create in an hour, unless its own limits say otherwise; 0: no limit.
    pub create_per_hour: u32,
    /// Messages that a project may send in an hour, likewise.
    pub message_per_hour: u32,
    /// The ids of the agents that are configured; a project or job that names another is refused.
    pub agents: Vec<String>,
    /// The version of the program.
    pub version: String,
}

/// The state of every handler. Cheap to clone.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) services: Services,
    pub(crate) settings: Arc<Settings>,
    pub(crate) metrics: Metrics,
    /// Ends long polls and event streams, and refuses new work.
    pub(crate) shutdown: CancellationToken,
    /// When each key's last use was noted by this process.
    pub(crate) noted: Arc<Mutex<HashMap<KeyId, Timestamp>>>,
}

/// All routes. When `shutdown` fires, long polls and event streams end and requests that still come are answered 503.
///
/// The address of the peer is read from [`axum::extract::ConnectInfo`]: serve the router with it, or keys with an IP
/// allowlist are refused.
pub fn router(services: Services, settings: Settings, shutdown: CancellationToken) -> Router {
    let pages = journeyman_dashboard::router(PullsState { pages: Arc::clone(&services.pulls) });
    let origins = OurOrigins::new(&settings.public_url);
    let metrics = Metrics::new(&settings.version);
    let app = App { services, settings: Arc::new(settings), metrics, shutdown, noted: Arc::default() };

    let (api, document) = routes::api().split_for_parts();
    let api = api.route_layer(from_fn_with_state(app.clone(), auth::of_the_interface));
    let git = routes::git::routes().route_layer(from_fn_with_state(app.clone(), auth::of_git));
    let pages = pages.route_layer(from_fn_with_state(app.clone(), auth::of_pages));
    // The document is made once, for a program that answers it often.
    let document = crate::openapi::finish(document, &app.settings.version);
    Router::new()
        .merge(api)
        .merge(git)
        .merge(routes::system::routes(&document))
        .with_state(app.clone())
        .merge(pages)
        .fallback(answer::no_such_path)
        .layer(CatchPanicLayer::custom(answer::panicked))
        .layer(from_fn_with_state(origins, origin::refuse_foreign))
        .layer(from_fn_with_state(app.clone(), answer::refuse_when_stopping))
        .layer(from_fn_with_state(app, answer::finish))
}
