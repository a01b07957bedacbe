//! What goes over the wire: camelCase, every field always there, `null` where empty.
//!
//! The types are our own, apart from the core's, so that a change inside cannot change what clients see.

pub(crate) mod details;
pub mod event;
pub mod job;
pub mod key;
pub mod message;
pub mod project;
pub(crate) mod pull;
pub mod run;
pub mod system;
