//! The built-in coding agent of Journeyman.
//!
//! It is an agent like any other: it speaks the Agent Client Protocol (ACP) v1 over two byte streams, works in the
//! directory that the client names, and keeps its sessions as files. The service starts it as `journeyman agent` and
//! knows nothing of its inside.
//!
//! Invariants:
//!
//! - Nothing long is awaited in the dispatch loop of the connection: turns run beside it, so `session/cancel` is always heard.
//! - One turn at a time in a session. A turn that was cancelled leaves no process behind.
//! - After every step of the model the session file describes a conversation that can be continued.
//! - A failing tool is an answer to the model, never the end of a turn.
//! - No text that leaves the crate contains the model's key.
//!
//! Two brains are behind one interface: a language model, and `test/scripted`, which does what directives in the prompt
//! say. The second is there as test cards are in a payment API: to try the whole service without a model.

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
