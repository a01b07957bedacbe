//! Tests of the HTTP interface with a temporary database, without sockets and agents.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod http {
    mod a2a;
    mod auth;
    mod code_hosts;
    mod feed;
    mod fixtures;
    mod inbox;
    mod jobs;
    mod limits;
    mod manage;
    mod mcp;
    mod misuse;
    mod pages;
    mod pulls;
    mod reports;
    mod slack;
    mod system;
    mod templates;
    mod trusts;
    mod users;
    mod webhooks;
}
