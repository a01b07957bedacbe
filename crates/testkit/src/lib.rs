//! What the tests of several crates need. Only a dev-dependency: it panics where a test would.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod postgres;

pub use postgres::Postgres;
