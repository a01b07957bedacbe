//! Tests of the agent over ACP.
#![expect(clippy::unwrap_used, reason = "test")]

mod scripted;
mod support;
