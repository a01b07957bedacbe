//! The router that everything comes together in.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use tokio_util::sync::CancellationToken;
use tower_http::CompressionLevel;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};

use crate::app::{App, Services, Settings};
use crate::origin::OurOrigins;
use crate::tail::Tails;
use crate::{answer, auth, document, origin, routes};

/// What a process that serves no clients answers: `/healthz`, `/readyz` and `/metrics`.
pub fn health_router(services: Services, settings: Settings, shutdown: CancellationToken) -> Router {
    let app = App::new(services, settings, shutdown);
    Router::new()
        .merge(routes::system::health())
        .fallback(answer::no_such_path)
        .layer(CatchPanicLayer::custom(answer::panicked))
        .layer(from_fn_with_state(app.clone(), answer::finish))
        .with_state(app)
}

/// All routes. When `shutdown` fires, long polls and event streams end and requests that still come are answered 503.
///
/// The address of the peer is read from [`axum::extract::ConnectInfo`]: serve the router with it, or keys with an IP
/// allowlist are refused.
pub fn router(services: Services, settings: Settings, shutdown: CancellationToken) -> Router {
    let origins = OurOrigins::new(&settings.public_url);
    let app = App::new(services, settings, shutdown);

    let (api, described) = routes::api().split_for_parts();
    let pages = pages(&app);
    let api = api.route_layer(from_fn_with_state(app.clone(), auth::of_the_interface));
    let git = routes::git::routes().route_layer(from_fn_with_state(app.clone(), auth::of_git));
    let pages = pages.route_layer(from_fn_with_state(app.clone(), auth::of_pages));
    // The document is made once, for a program that answers it often.
    let described = document::finish(described, &app.settings.version);
    Router::new()
        .merge(api)
        .merge(routes::system::routes(&described))
        .with_state(app.clone())
        .merge(pages)
        .layer(compression())
        .merge(git.with_state(app.clone()))
        .fallback(answer::no_such_path)
        .layer(CatchPanicLayer::custom(answer::panicked))
        .layer(from_fn_with_state(origins, origin::refuse_foreign))
        .layer(from_fn_with_state(app.clone(), answer::refuse_when_stopping))
        .layer(from_fn_with_state(app, answer::finish))
}

/// The size in bytes from which responses are compressed. A smaller one fits into one packet anyway.
const COMPRESSED_BYTES: u64 = 1024;

/// Returns the layer that compresses responses with gzip, Brotli, or Zstandard, if the client accepts it. Event streams
/// are not compressed, because a compressor would delay events. Responses to git are compressed already.
fn compression() -> CompressionLayer<impl Predicate> {
    let predicate = SizeAbove::new(COMPRESSED_BYTES)
        .and(NotForContentType::SSE)
        .and(NotForContentType::IMAGES)
        .and(NotForContentType::const_new("font/"));
    CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(predicate)
}

/// The pages for people.
fn pages(app: &App) -> Router {
    let Services { store, pulls, diffs, passwords, provider, clock, ids, machine, .. } = app.services.clone();
    let services = journeyman_dashboard::Services {
        store,
        cases: app.cases.clone(),
        tails: Arc::new(Tails(app.clone())),
        machine,
        pulls,
        diffs,
        passwords,
        provider,
        clock,
        ids,
    };
    let Settings { public_url, agents, version, places, create_per_hour, message_per_hour, .. } = app.settings.clone();
    let an_hour = |number: u32| if number == 0 { "no limit".to_owned() } else { format!("{number} an hour") };
    let mut facts = places;
    facts.extend([
        ("Jobs of a project".to_owned(), an_hour(create_per_hour)),
        ("Messages of a project".to_owned(), an_hour(message_per_hour)),
        ("Reached at".to_owned(), public_url.clone()),
    ]);
    let agents = agents.keys().cloned().collect();
    journeyman_dashboard::router(services, journeyman_dashboard::Settings { public_url, agents, version, facts })
}
