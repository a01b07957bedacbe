//! Tests of the stores: a conformance suite for each store, and generated plans that must have the same results in all.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "store/backup.rs"]
mod backup;
#[path = "store/conformance.rs"]
mod conformance;
#[path = "store/copy.rs"]
mod copy;
#[path = "store/differential.rs"]
mod differential;
#[path = "store/durability.rs"]
mod durability;
#[path = "store/given.rs"]
mod given;
#[path = "store/holds.rs"]
mod holds;
#[path = "store/io_errors.rs"]
mod io_errors;
#[path = "store/outbox.rs"]
mod outbox;
#[path = "store/postgres.rs"]
mod postgres;
#[path = "store/replication.rs"]
mod replication;
#[path = "store/users.rs"]
mod users;
