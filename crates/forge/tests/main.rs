//! Tests of the code hosts against stand-ins with real git, and against what GitHub publishes.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod github {
    mod described;
    mod hooks;
    pub(crate) mod requests;
    mod schema;
    mod wrong;
}
mod hosts {
    pub(crate) mod app;
    mod check;
    mod conformance;
    mod conversations;
    mod faults;
    pub(crate) mod given;
    mod logs;
    mod merges;
    mod pipelines;
    mod polls;
    mod replies;
    mod reports;
    mod reviews;
    mod suggestions;
    mod trust;
}
