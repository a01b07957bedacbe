//! The pure heart of Journeyman.
//!
//! What a job is ([`job`]), what may be asked of it and what then happens ([`job::decide`]), and the ports
//! ([`ports`]) that the outside implements: a store, code hosts, sandboxes. There is no I/O here, no clock and no
//! randomness: time, identifiers and the answers of the world come in as parameters.

pub mod agent;
pub mod branch;
pub mod egress;
pub mod engine;
pub mod idempotency;
pub mod ids;
pub mod job;
pub mod json;
pub mod key;
pub mod message;
pub mod model;
pub mod ports;
pub mod project;
pub mod pull;
pub mod rate;
pub mod retry;
pub mod run;
pub mod time;
pub mod user;
