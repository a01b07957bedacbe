//! The core of Journeyman, without I/O.
//!
//! Defines jobs ([`job`]), the events that follow from each command on a job ([`job::decide`]), and the ports
//! ([`ports`]) that other crates implement, such as the store, the code hosts and the sandboxes. The core reads no
//! clock and generates no random numbers: time, identifiers and the results of external calls are parameters.

pub mod agent;
pub mod audit;
pub mod branch;
pub mod checkout;
pub mod checks;
pub mod code_host;
pub mod commit;
pub mod conversation;
pub mod decision;
pub mod diff_stat;
pub mod egress;
pub mod engine;
pub mod epoch;
pub mod feed;
pub mod finding;
pub mod git_maintenance;
pub mod hook;
pub mod hosted_storage;
pub mod idempotency;
pub mod ids;
pub mod import;
pub mod inbox;
pub mod job;
pub mod json;
pub mod key;
pub mod left_out;
pub mod lfs;
pub mod markdown;
pub mod message;
pub mod model;
pub mod open_pull;
pub mod outbox;
pub mod pattern;
pub mod placeholders;
pub mod poll;
pub mod ports;
pub mod position;
pub mod process_stat;
pub mod project;
pub mod prompt;
pub mod pull;
pub mod rate;
pub mod refusal;
pub mod resource;
pub mod retry;
pub mod run;
pub mod secret;
pub mod slack;
pub mod submodule;
pub mod suggestion;
pub mod template;
pub mod time;
pub mod trace;
pub mod trust;
pub mod usage;
pub mod user;
pub mod version;
pub mod webhook;
pub mod worker;
