//! The HTTP interface: authentication, validation, wire types, and one file for each resource under `routes/`.
//!
//! A request passes, from the outside in: its id and the form of its answer ([`answer`]), the `Origin` rule
//! ([`origin`]), the key ([`auth`]), the extractors ([`extract`]), and a handler, which calls the engine or reads the
//! store. Handlers see ports alone.
//!
//! Invariants: no route but `/healthz`, `/readyz`, `/metrics`, `/openapi.json`, `/docs` and the pages, which have sessions
//! of their own, answers without a key; each error of the interface is a JSON object with `error`, `code` and `requestId`; a project that a
//! key may not see is, in every answer, one that does not exist.

mod answer;
mod app;
mod auth;
mod caller;
mod conditional;
mod document;
mod error;
mod extract;
mod metrics;
mod openapi;
mod origin;
mod router;
mod routes;
mod tail;
pub mod wire;

pub use app::{Services, Settings};
pub use document::document;
pub use error::{ErrorCode, error_body};
pub use router::{health_router, router};
