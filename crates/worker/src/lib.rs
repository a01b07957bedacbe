//! Carries out runs.
//!
//! A run is a sequence of steps ([`run`]): prepare the workspace, start or resume the agent's session, prompt it,
//! commit its changes, push, and ensure the pull request. [`Worker`] claims runs and keeps their leases alive.
//!
//! | module | task |
//! |---|---|
//! | [`worker`] | claims runs, limits how many run at once, drains |
//! | [`host`] | the resources of one machine |
//! | [`claim`] | the lease of a run, and what limits the run: redaction, deadlines |
//! | [`run`] | the order of the steps, and the steps on a real machine |
//! | [`turn`] | one turn of an agent |
//! | [`commit`] | makes commits of the agent's changes, in a sandbox |
//! | [`sandbox`] | programs of a job in a sandbox: limits, outbound proxies |
//! | [`submodules`] | fills the submodules of a tree, and decides which pointers are published |
//! | [`workspace`] | the folders of a job |
//! | [`cleanup`] | removes workspaces and blobs that are no longer needed |
//! | [`acp`] | the client side of the Agent Client Protocol |

pub mod acp;
mod claim;
mod cleanup;
mod commit;
mod error;
#[cfg(test)]
mod fixtures;
mod host;
mod lfs;
mod run;
mod sandbox;
#[cfg(test)]
mod simulation;
mod submodules;
mod turn;
mod worker;
mod workspace;

pub use cleanup::blobs::{BLOB_FOLDERS, SweepPositions};
pub use commit::lfs_objects::OBJECT;
pub use host::{Host, Resources};
pub use run::outcome::Patience;
pub use sandbox::containment::ContainmentCheck;
pub use turn::idle_agents::IdleAgentLimits;
pub use turn::prepare::{AgentPreparation, PreparationError};
pub use worker::{ActiveRuns, Limits, Worker};
pub use workspace::home_archive::left_out_key;
pub use workspace::prepared_home::{HomeSize, PREPARED_BYTES, PREPARED_HOMES};
