//! The whole way from a message to a pull request: the engine, the worker and the built-in code host in this process,
//! with real git and the real program as the agent.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "whole/given.rs"]
mod given;
#[path = "whole/way.rs"]
mod way;
