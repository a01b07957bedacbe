//! The routers, which combine the routes, the layers, and the pages of the dashboard.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use journeyman_dashboard::Pages;
use tokio_util::sync::CancellationToken;
use tower_http::CompressionLevel;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};

use crate::app::{App, Services, Settings};
use crate::document::Document;
use crate::origin::OurOrigins;
use crate::tail::Tails;
use crate::{a2a, answer, auth, limits, mcp, origin, routes};

/// Returns the router of a process that serves no clients: `/healthz`, `/readyz`, and `/metrics`.
pub fn health_router(services: Services, settings: Settings, shutdown: CancellationToken) -> Router {
    let app = App::new(services, settings, shutdown);
    Router::new()
        .merge(routes::system::health())
        .fallback(answer::no_such_path)
        .layer(CatchPanicLayer::custom(answer::panicked))
        .layer(from_fn_with_state(app.clone(), answer::finish))
        .with_state(app)
}

/// Returns the router with all routes. After `shutdown` is canceled, long polls and event streams end, and new requests
/// are refused with 503.
///
/// The server must provide the peer's address as [`axum::extract::ConnectInfo`]; otherwise, keys with an IP allowlist
/// are refused.
pub fn router(services: Services, settings: Settings, shutdown: CancellationToken) -> Router {
    let origins = OurOrigins::new(&settings.public_url);
    let app = App::new(services, settings, shutdown);

    let (api, described) = routes::api().split_for_parts();
    let (open, described_open) = routes::open().split_for_parts();
    let document = Arc::new(Document::new(described.merge_from(described_open), app.settings.version.clone()));
    let Pages { router: pages, missing } = pages(&app, Arc::clone(&document));
    let api = api.route_layer(from_fn_with_state(app.clone(), auth::of_the_interface));
    let calls = || from_fn_with_state(app.clone(), limits::calls);
    let mcp = mcp::routes(&app).route_layer(calls()).route_layer(from_fn_with_state(app.clone(), auth::of_protocols));
    let a2a = a2a::routes().route_layer(calls()).route_layer(from_fn_with_state(app.clone(), auth::of_protocols));
    let git = routes::git::routes().route_layer(from_fn_with_state(app.clone(), auth::of_git));
    let pages = pages.route_layer(from_fn_with_state(app.clone(), auth::of_pages));
    let missing = missing.layer(from_fn_with_state(app.clone(), auth::of_pages));
    Router::new()
        .merge(api)
        .merge(open)
        .merge(routes::system::routes(document))
        .merge(routes::hooks::routes())
        .merge(a2a)
        .merge(a2a::card_routes())
        .with_state(app.clone())
        .merge(pages)
        .merge(mcp)
        .layer(compression())
        .merge(git.with_state(app.clone()))
        .fallback_service(missing)
        .layer(CatchPanicLayer::custom(answer::panicked))
        .layer(from_fn_with_state(origins, origin::refuse_foreign))
        .layer(from_fn_with_state(app.clone(), answer::refuse_when_stopping))
        .layer(from_fn_with_state(app, answer::finish))
}

/// The size in bytes from which responses are compressed. A smaller response fits into one packet anyway.
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

/// Returns the pages of the dashboard, and the documentation of the interface.
fn pages(app: &App, document: Arc<Document>) -> Pages {
    let Services { store, pulls, diffs, passwords, provider, seal, clock, ids, machine, installed, limiter, .. } =
        app.services.clone();
    let services = journeyman_dashboard::Services {
        store,
        cases: app.cases.clone(),
        tails: Arc::new(Tails(app.clone())),
        machine,
        installed,
        pulls,
        diffs,
        passwords,
        provider,
        seal,
        clock,
        ids,
        limiter,
    };
    let Settings {
        public_url,
        agents,
        providers,
        version,
        second_factor,
        mut facts,
        create_per_hour,
        message_per_hour,
        ..
    } = app.settings.clone();
    let per_hour = |number: u32| if number == 0 { "no limit".to_owned() } else { format!("{number} per hour") };
    facts.extend([
        ("New jobs per project".to_owned(), per_hour(create_per_hour)),
        ("Messages per project".to_owned(), per_hour(message_per_hour)),
        ("Public URL".to_owned(), public_url.clone()),
    ]);
    let settings = journeyman_dashboard::Settings { public_url, agents, providers, version, second_factor, facts };
    journeyman_dashboard::router(services, settings, move || document.value().clone())
}
