//! The dashboard: pages rendered on the server, which work without scripts but for live updates.
//!
//! A request passes, from the outside in: the headers of every answer ([`headers`]), the rule against forged requests
//! ([`forgery`]), the session ([`session`]), and a page under `pages/`, one file and one template each. What a page
//! changes goes through the routes of the HTTP interface ([`Interface`]), so that it is checked, limited and noted as a
//! key's request would be; users, sessions and comments are the dashboard's own.
//!
//! Invariant: text from outside (titles, prompts, what agents say, branches, diffs, names) reaches a page through
//! askama's escaping alone. No template says `safe`; the types that are markup by themselves are [`icons::Icon`] and
//! [`moment::Moment`], which hold no such text, [`markdown::Markup`], which is sanitised, and [`fragment::Fragment`], which
//! another template has rendered.

mod assets;
mod conversation;
mod diff;
mod failure;
mod fields;
mod forgery;
mod fragment;
mod frame;
mod headers;
mod highlight;
mod icons;
mod interface;
mod markdown;
mod moment;
mod pages;
mod session;
mod shell;
mod streams;
#[cfg(test)]
mod tests;
mod throttle;
mod viewer;
mod visible;
mod words;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use journeyman_core::ports::{Diffs, Passwords, PullPages, SignInProvider, Store};
use journeyman_core::time::{Clock, IdGen};

pub use self::interface::{Answer, Call, Interface, LogTail, Tail};
pub use self::viewer::{ClientAddress, Viewer};
use crate::assets::Assets;
use crate::highlight::Highlighter;
use crate::streams::Streams;
use crate::throttle::Throttle;

/// What the pages work on.
#[derive(Clone)]
pub struct Services {
    /// Where everything is read, and users and sessions are written.
    pub store: Arc<dyn Store>,
    /// Does what is asked of projects, jobs and keys.
    pub interface: Arc<dyn Interface>,
    /// The pull requests of the built-in code host.
    pub pulls: Arc<dyn PullPages>,
    /// Reads the diffs of jobs.
    pub diffs: Arc<dyn Diffs>,
    /// Hashes passwords.
    pub passwords: Arc<dyn Passwords>,
    /// Who else says who somebody is.
    pub provider: Option<Arc<dyn SignInProvider>>,
    /// The present.
    pub clock: Arc<dyn Clock>,
    /// Makes tokens and ids.
    pub ids: Arc<dyn IdGen>,
}

/// What an operator sets.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where clients reach the service, without a slash at the end.
    pub public_url: String,
    /// The ids of the agents that are configured.
    pub agents: Vec<String>,
    /// The version of the program.
    pub version: String,
    /// Where things are kept, and what holds for all projects: names and values for the page about the system.
    pub facts: Vec<(String, String)>,
}

impl Settings {
    /// Whether browsers come by https.
    fn is_secure(&self) -> bool {
        self.public_url.starts_with("https://")
    }
}

/// What every handler is given. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Parts>);

pub(crate) struct Parts {
    pub(crate) services: Services,
    pub(crate) settings: Settings,
    pub(crate) assets: Assets,
    pub(crate) highlighter: Highlighter,
    pub(crate) throttle: Throttle,
    pub(crate) streams: Streams,
    /// Whether an administrator was seen.
    pub(crate) claimed: AtomicBool,
}

impl std::ops::Deref for Shared {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// All pages, and what they need under `/assets/`.
///
/// The outer layer puts the [`ClientAddress`] into each request, and refuses requests with a foreign `Origin`. It sets no
/// fallback, so it can be merged into a router that has one.
pub fn router(services: Services, settings: Settings) -> Router {
    let shared = Shared(Arc::new(Parts {
        services,
        settings,
        assets: Assets::bundled(),
        highlighter: Highlighter::new(),
        throttle: Throttle::default(),
        streams: Streams::default(),
        claimed: AtomicBool::new(false),
    }));
    let inside = pages::routes().route_layer(from_fn_with_state(shared.clone(), session::required));
    Router::new()
        .merge(inside)
        .merge(pages::open_routes())
        .route_layer(from_fn(forgery::refuse))
        .merge(assets::routes())
        .route_layer(map_response(headers::strict))
        .with_state(shared)
}
