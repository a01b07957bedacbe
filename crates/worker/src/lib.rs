//! Carries out runs. One run is a straight line: prepare the workspace, start or resume the agent's session, prompt,
//! collect, commit, push, ensure the pull request. [`Worker`] claims runs and keeps their leases alive.

pub mod acp;
mod agent;
mod archive;
mod branch;
mod bundle;
mod collect;
mod diff;
mod doors;
mod executor;
mod failure;
mod hands;
mod lease;
mod mirror;
mod publish;
mod release;
mod removal;
mod run;
#[cfg(test)]
mod simulation;
mod spare;
mod tidy;
mod transcript;
mod warm;
mod worker;
mod workspace;

pub use tidy::Places;
pub use warm::Warm;
pub use worker::{Host, Limits, Worker};
