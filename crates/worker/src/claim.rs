//! The claim of a run: its assignment and its lease, the redaction of its reports, and the deadlines of its steps.

pub(crate) mod assignment;
pub(crate) mod deadline;
pub(crate) mod lease;
pub(crate) mod redaction;
