//! Tests of the stores: a conformance suite for each store, and generated plans that must have the same results in all.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod store {
    mod backup;
    mod checks;
    mod comments;
    mod comparisons;
    mod conformance;
    mod copy;
    mod differential;
    mod durability;
    mod epochs;
    mod feed;
    mod fixtures;
    mod holds;
    mod imports;
    mod inbox;
    mod io_errors;
    mod outbox;
    mod polls;
    mod postgres;
    mod pulls;
    mod replication;
    mod reports;
    mod retired_secrets;
    mod sealed;
    mod slack;
    mod templates;
    mod trusts;
    mod users;
    mod versions;
    mod webhooks;
    mod workers;
}
