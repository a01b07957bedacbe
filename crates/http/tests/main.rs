//! The interface over a store in memory: no sockets, no agent.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod http {
    mod auth;
    mod given;
    mod jobs;
    mod manage;
    mod misuse;
    mod pages;
    mod system;
}
