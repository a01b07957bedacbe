//! Tests of the use cases, on each database.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod app {
    mod changes;
    mod checks;
    mod code_hosts;
    mod comparisons;
    mod existing_pull;
    mod fixtures;
    mod inbox {
        mod changes;
        mod comments;
        mod conversations;
        mod faults;
        pub(crate) mod fixtures;
        mod host_reviews;
        mod issues;
        mod orders;
        mod people;
        mod polled;
        mod pull_jobs;
        mod pulls;
        mod replies;
        mod reviews;
        mod threads;
    }
    mod keys;
    mod outbox;
    mod pull_updates;
    mod pulls;
    mod repeats;
    mod slack;
    mod slack_socket;
    mod webhooks;
}
