//! Carries out runs. One run is a straight line: prepare the workspace, start or resume the agent's session, prompt,
//! collect, commit, push, ensure the pull request. [`Worker`] claims runs and keeps their leases alive.

pub mod acp;
mod agent;
mod answer;
mod archive;
mod branch;
mod bundle;
mod clerk;
mod collect;
mod diff;
mod discard;
mod disk;
mod disk_limit;
mod doors;
mod executor;
mod failure;
mod hands;
mod lease;
mod limits;
mod mirror;
mod models;
mod outage;
mod phase;
mod publish;
mod recorded;
mod redaction;
mod release;
mod removal;
mod repair;
mod room;
mod run;
mod setup;
#[cfg(test)]
mod simulation;
mod space;
mod spare;
mod survey;
mod tidy;
mod transcript;
mod tree_size;
mod walls;
mod warm;
mod ways;
mod worker;
mod workspace;

pub use outage::Patience;
pub use tidy::{BLOB_FOLDERS, Places};
pub use walls::Walls;
pub use warm::Warm;
pub use worker::{Host, Limits, Worker};
