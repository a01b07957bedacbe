//! The programs of a job in a sandbox: their start, their limits, and their outbound connections.

pub(crate) mod containment;
pub(crate) mod disk_limit;
pub(crate) mod job_sandbox;
pub(crate) mod limits;
pub(crate) mod outbound;
pub(crate) mod output;
pub(crate) mod script;
