//! The versions of projects, keys and users.

/// The version of a project, key or user that was just created. Every change increases the version by one.
pub const FIRST_VERSION: u64 = 1;
