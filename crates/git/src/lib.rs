//! The only code that starts git on the host, and the programs that belong to it, such as `ssh-keygen`.
//!
//! Git reads its configuration from many files and variables, and several of them run programs. Therefore commands
//! inherit nothing: no configuration of the system or the user, no hooks, no replaced objects, no prompts, no transport
//! that runs a command. A credential is never in argv, an environment, a URL or a file with a name.
//!
//! A command reaches a server only through a [`Route`], which connects to the checked address of the remote's host.

mod command;
mod connection;
mod failure;
mod lock;
mod maintenance;
mod merge;
mod repeat;
mod route;
mod shell;
mod small_blobs;
mod sync;

pub use command::{Git, GitCommand, Output, Pieces, Piped, Runner, UNSYNCED_REFS, pairs, write_program};
pub use connection::Service;
pub use failure::{Failure, GitError};
pub use lock::FileLock;
pub use maintenance::{MaintenanceError, RepositoryMaintenance};
pub use merge::{KnownConflicts, Merged};
pub use repeat::Repeated;
pub use route::Route;
pub use sync::{Folders, sync_tree};
