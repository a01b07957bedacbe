//! The dashboard: pages rendered on the server. Everything except live updates works without scripts.
//!
//! A request passes these layers, from the outside in: the response headers ([`headers`]), the check against forged
//! requests ([`forgery`]), the pages for errors ([`error_page`]), the session ([`session`]), the proof of who the
//! viewer is ([`fresh`]), and a page under `pages/`, which has one file and one template.
//! Pages make changes through the use cases of `journeyman-app`, so that these are checked, limited and logged like
//! requests with a key.
//!
//! The documentation for developers is in [`portal`]: its pages need no session.
//!
//! Invariant: text from outside (titles, prompts, agent output, branches, diffs, names) reaches a page only through
//! askama's escaping. No template uses the filter `safe`. The only types that are inserted as markup are
//! [`icons::Icon`] and [`moment::Moment`], which contain no such text, [`markdown::Markup`], which is sanitized, and
//! [`fragment::Fragment`], which another template has rendered.

mod assets;
mod chart;
mod choices;
mod codes;
mod conversation;
mod cookies;
mod diff;
mod digests;
mod error_page;
mod failure;
mod fields;
mod forgery;
mod fragment;
mod frame;
mod fresh;
mod headers;
mod highlight;
mod icons;
mod in_project;
mod log_tail;
mod markdown;
mod moment;
mod pages;
mod parameter;
mod passkeys;
mod portal;
mod preferences;
mod session;
mod shell;
mod size;
mod streams;
#[cfg(test)]
mod tests;
mod throttle;
mod toast;
mod viewer;
mod visible;
mod words;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use journeyman_app::{Class, Exceeded, Holder, Limiter, Permit, UseCases};
use journeyman_core::agent::Agents;
use journeyman_core::ids::UserId;
use journeyman_core::model::ProviderInfo;
use journeyman_core::ports::{Containing, Diffs, InstalledAgents, Passwords, PullPages, Seal, SignInProvider, Store};
use journeyman_core::time::{Clock, IdGen};
use journeyman_core::user::second_factor::RequiredOf;

pub use self::log_tail::{LogTail, LogTails, Tail};
pub use self::viewer::{ClientAddress, Viewer};
use crate::assets::Assets;
use crate::digests::Digests;
use crate::highlight::Highlighter;
use crate::portal::Portal;
use crate::streams::Streams;
use crate::throttle::Throttle;

/// The ports on which the pages depend.
#[derive(Clone)]
pub struct Services {
    /// The store, which pages read from.
    pub store: Arc<dyn Store>,
    /// The use cases, which make all changes.
    pub cases: UseCases,
    /// The logs of jobs.
    pub tails: Arc<dyn LogTails>,
    /// The sandbox of this machine, if it runs jobs.
    pub machine: Option<Arc<dyn Containing>>,
    /// The agents that are installed on this machine, if it runs jobs.
    pub installed: Option<Arc<dyn InstalledAgents>>,
    /// The repositories and pull requests of the built-in code host.
    pub pulls: Arc<dyn PullPages>,
    /// The diffs of jobs.
    pub diffs: Arc<dyn Diffs>,
    /// The hashing, verification and policy of passwords.
    pub passwords: Arc<dyn Passwords>,
    /// The identity provider, if one is configured.
    pub provider: Option<Arc<dyn SignInProvider>>,
    /// Encrypts what is stored in cookies.
    pub seal: Arc<dyn Seal>,
    /// The clock for the current time.
    pub clock: Arc<dyn Clock>,
    /// The generator of tokens and IDs.
    pub ids: Arc<dyn IdGen>,
    /// Limits the requests of a user for which git runs.
    pub limiter: Limiter,
}

/// The operator's settings that pages need.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The URL at which clients reach the service, without a trailing slash.
    pub public_url: String,
    /// The configured agents.
    pub agents: Arc<Agents>,
    /// The configured providers of models.
    pub providers: Vec<ProviderInfo>,
    /// The version of the program.
    pub version: String,
    /// The users who must have a second factor.
    pub second_factor: RequiredOf,
    /// Names and values for the system page: storage locations, and settings for all projects.
    pub facts: Vec<(String, String)>,
}

impl Settings {
    /// Returns true if browsers use https.
    fn is_secure(&self) -> bool {
        self.public_url.starts_with("https://")
    }
}

/// The state that all handlers share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Parts>);

pub(crate) struct Parts {
    pub(crate) services: Services,
    pub(crate) settings: Settings,
    pub(crate) assets: Assets,
    pub(crate) highlighter: Highlighter,
    /// The documentation, which is built for its first reader.
    pub(crate) portal: LazyLock<Portal, Box<dyn FnOnce() -> Portal + Send>>,
    pub(crate) throttle: Throttle,
    pub(crate) streams: Streams,
    pub(crate) digests: Digests,
    /// True once the store has had an administrator, so that pages need not ask again.
    pub(crate) claimed: AtomicBool,
}

impl std::ops::Deref for Shared {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Shared {
    /// Waits for the permission to run git for a page of a user.
    ///
    /// # Errors
    /// Too many other pages need git at the same time.
    pub(crate) async fn may_run_git(&self, user: UserId) -> Result<Permit, Exceeded> {
        self.services.limiter.wait_for(Class::Git, Holder::User(user)).await
    }
}

/// The routers of the dashboard.
pub struct Pages {
    /// All pages, and their assets under `/assets/`. It has no fallback, so it can be merged into a router that has.
    pub router: Router,
    /// The fallback for paths that no route matches. Browsers get a page. Other clients get the status 404 without a
    /// body.
    pub missing: Router,
}

/// Builds the routers. `document` returns the OpenAPI document, which the documentation at `/docs` describes; it is
/// called for the first reader.
///
/// The caller's layer must add the [`ClientAddress`] to each request and refuse requests with a foreign `Origin`.
pub fn router(
    services: Services,
    settings: Settings,
    document: impl FnOnce() -> serde_json::Value + Send + 'static,
) -> Pages {
    let public_url = settings.public_url.clone();
    let shared = Shared(Arc::new(Parts {
        services,
        settings,
        assets: Assets::bundled(),
        highlighter: Highlighter::new(),
        portal: LazyLock::new(Box::new(move || Portal::new(document(), &public_url))),
        throttle: Throttle::default(),
        streams: Streams::default(),
        digests: Digests::default(),
        claimed: AtomicBool::new(false),
    }));
    let inside = pages::routes().route_layer(from_fn_with_state(shared.clone(), fresh::required));
    let inside = inside.route_layer(from_fn_with_state(shared.clone(), session::required));
    let router = Router::new()
        .merge(inside)
        .merge(pages::open_routes())
        .merge(portal::routes())
        .route_layer(from_fn(forgery::refuse))
        .route_layer(from_fn_with_state(shared.clone(), error_page::replace_bare))
        .merge(assets::routes())
        .route_layer(map_response(headers::strict))
        .with_state(shared.clone());
    let missing = Router::new()
        .fallback(|| async { StatusCode::NOT_FOUND })
        .layer(from_fn_with_state(shared, error_page::replace_bare));
    Pages { router, missing }
}
