//! What the tests of several crates need. Only a dev-dependency: it panics where a test would.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod failing_disk;
mod models;
pub mod oidc;
mod postgres;
mod sandbox;
mod tapped;

pub use failing_disk::FailingDisk;
pub use models::{Asked, Fault, ModelServer, Reply, TOKENS};
pub use postgres::Postgres;
pub use sandbox::FakeSandbox;
pub use tapped::{Call, Tap, Tapped};
