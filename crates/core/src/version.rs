//! The versions of resources, and the conditions of requests on them.

use crate::refusal::{Refusal, ResourceKind};

/// The version of something that was just created; it comes after the base of the epoch if people choose the ID
/// ([`crate::epoch`]). Every change increases the version by one.
pub const FIRST_VERSION: u64 = 1;

/// The condition of a request on the version of the resource that it changes (`If-Match`, RFC 9110).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Precondition {
    /// No condition.
    #[default]
    None,
    /// Any of these versions. An empty list never matches.
    Version(Vec<u64>),
}

impl Precondition {
    /// Checks the condition.
    ///
    /// # Errors
    /// The current version is none of the required ones.
    pub fn check(&self, resource: ResourceKind, current: u64) -> Result<(), Refusal> {
        match self {
            Self::Version(versions) if !versions.contains(&current) => Err(Refusal::version_mismatch(resource)),
            _ => Ok(()),
        }
    }
}
