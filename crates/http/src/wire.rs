//! The types of requests and responses. Names are in camelCase. A response has all of its fields; those without a
//! value are `null`.
//!
//! The types are separate from those of the core, so that an internal change cannot change the interface.

pub(crate) mod agent;
pub(crate) mod audit;
pub(crate) mod checks;
pub mod code_host;
pub(crate) mod details;
pub mod event;
pub(crate) mod feed;
pub(crate) mod inbox;
pub mod job;
pub mod key;
pub mod message;
pub(crate) mod model;
pub mod project;
pub(crate) mod pull;
pub mod run;
pub mod slack;
pub mod system;
pub(crate) mod template;
pub mod trust;
pub(crate) mod usage;
pub mod user;
pub(crate) mod webhook;
