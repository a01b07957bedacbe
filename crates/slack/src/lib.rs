//! Slack: the signatures of requests, the events, the requests to its interface (<https://docs.slack.dev/apis/web-api/>),
//! and connections of Socket Mode (<https://docs.slack.dev/apis/events-api/using-socket-mode/>).
//!
//! The URL of the interface is a choice of the operator. Tokens are sent only there, in a header, and never appear in an
//! error.

mod client;
mod events;
mod sign;
mod socket;

pub use client::{Client, DEFAULT_URL};
