//! Given a job, when something is asked of it, then this follows: every row of the contract's table of states, and what
//! workers report.

#![expect(clippy::panic, reason = "tests")]

#[path = "core/given.rs"]
mod given;
#[path = "core/states.rs"]
mod states;
#[path = "core/work.rs"]
mod work;
