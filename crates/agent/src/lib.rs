//! The built-in coding agent of Journeyman.
//!
//! The crate provides an agent like any other: it speaks the Agent Client Protocol (ACP) v1 over two byte streams,
//! works in the directory that the client names, and stores its sessions as files. The service starts it as
//! `journeyman agent` and does not depend on its internals.
//!
//! Invariants:
//!
//! - The dispatch loop of the connection never waits for long work: turns run in separate tasks, so the agent handles
//!   `session/cancel` at any time.
//! - A session runs one turn at a time. A cancelled turn leaves no process running.
//! - After every step of the model, the session file holds a conversation that can be continued.
//! - A failing tool produces an answer for the model; it never ends the turn.
//! - No text that leaves the crate contains the model's key.
//!
//! One interface has two implementations: a language model, and `test/scripted`, which carries out the
//! directives in a prompt. Like the test cards of a payment API, the second makes it possible to try the whole service
//! without a model.

mod brain;
mod execute;
mod llm;
mod model;
mod options;
mod replay;
mod report;
mod scripted;
mod serve;
mod server;
mod session;
mod store;
mod text;
mod tools;
mod turn;
mod workspace;

pub use model::ModelError;
pub use options::Options;
pub use serve::{ServeError, serve};
