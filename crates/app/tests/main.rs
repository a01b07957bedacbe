//! Tests of the use cases, on each store.

#![expect(clippy::unwrap_used, reason = "tests")]

mod app {
    mod changes;
    mod given;
    mod outbox;
    mod pulls;
    mod repeats;
}
