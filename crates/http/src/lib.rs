//! The HTTP interface: authentication, validation, wire types, and one file for each resource under `routes/`. The server
//! of the Model Context Protocol is under `mcp/`, and that of the Agent2Agent protocol under `a2a/`.
//!
//! A request passes through these layers, from the outside in:
//!
//! 1. [`answer`]: the request ID, the form of errors, the log, and the metrics; refuses requests during shutdown.
//! 2. [`origin`]: the `Origin` rule.
//! 3. [`auth`]: the API key.
//! 4. [`extract`]: the extractors.
//! 5. The handler, which calls the use cases or reads the store. Handlers depend only on ports.
//!
//! Invariants:
//!
//! - Every route requires a key, except `/v2/oidc/exchange`, whose token is its credential, `/healthz`, `/readyz`,
//!   `/metrics`, `/openapi.json`, `/docs`, `/.well-known/agent-card.json`, and the pages of the dashboard, which have
//!   sessions.
//! - Every error of the interface is a JSON object with `error`, `code`, and `requestId`. Only a health check that fails
//!   has `status` alone, if the client may not see details.
//! - If a key cannot see a project, every response is the same as if the project did not exist.

mod a2a;
mod answer;
mod app;
mod arrivals;
mod attempts;
mod auth;
mod body;
mod caller;
mod conditional;
mod document;
mod error;
mod extract;
mod limits;
mod mcp;
mod metrics;
mod openapi;
mod origin;
mod page;
mod readiness;
mod router;
mod routes;
mod table;
mod tail;
mod waiting;
pub mod wire;

pub use app::{Services, Settings};
pub use document::document;
pub use error::{ErrorCode, error_body};
pub use router::{health_router, router};
pub use waiting::waiting_router;
