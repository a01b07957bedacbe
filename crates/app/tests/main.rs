//! Tests of the use cases, on each store.

#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "app/changes.rs"]
mod changes;
#[path = "app/given.rs"]
mod given;
#[path = "app/outbox.rs"]
mod outbox;
#[path = "app/repeats.rs"]
mod repeats;
