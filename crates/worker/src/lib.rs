//! Carries out runs. One run is a straight line: prepare the workspace, start or resume the agent's session, prompt,
//! collect, commit, push, ensure the pull request. [`Worker`] claims runs and keeps their leases alive.

pub mod acp;
mod agent;
mod archive;
mod bundle;
mod collect;
mod diff;
mod failure;
mod lease;
mod mirror;
mod publish;
mod release;
mod run;
mod tidy;
mod transcript;
mod worker;
mod workspace;

pub use tidy::Places;
pub use worker::{Host, Limits, Worker};
