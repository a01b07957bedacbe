//! Tests of the code hosts against stand-ins with real git, and against what the hosts publish.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod described {
    pub(crate) mod description;
    mod exceptions;
    pub(crate) mod recorded;
    mod requests;
    mod schema;
    mod wrong;
}
mod github {
    mod hooks;
    pub(crate) mod packages;
    mod requests;
}
mod hosts {
    pub(crate) mod app;
    mod check;
    mod conformance;
    mod conversations;
    mod faults;
    pub(crate) mod fixtures;
    mod github;
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
