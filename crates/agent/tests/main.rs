//! Tests of the agent over ACP.
#![expect(clippy::unwrap_used, reason = "test")]

mod models;
mod scripted;
mod support;
