//! The error of a code host.

use std::time::Duration;

use crate::run::Reason;

/// An error from a code host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForgeError {
    /// The remote does not support pull requests. The reason explains why.
    #[error("{}", .0.text)]
    NoPulls(Reason),
    /// The code host refused the credential, or the service has none.
    #[error("the code host refused the credential: {0}")]
    Credential(String),
    /// The repository, pull request or user does not exist, or the credential may not see it.
    #[error("the code host did not find it: {0}")]
    NotFound(String),
    /// The credential does not permit the request.
    #[error("the code host denied the request: {0}")]
    Denied(String),
    /// The code host refused the request, and would refuse another attempt too.
    #[error("the code host refused the request: {0}")]
    Refused(String),
    /// The code host accepts no more requests for some time.
    #[error("the code host accepts no more requests for {} s (rate limit)", .0.as_secs())]
    RateLimited(Duration),
    /// The request failed, and may have taken effect nevertheless.
    #[error("the request to the code host failed: {0}")]
    Unclear(String),
}

impl ForgeError {
    /// Returns whether another attempt may succeed without a change by a person.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        match self {
            Self::RateLimited(_) | Self::Unclear(_) => true,
            Self::NoPulls(_) | Self::Credential(_) | Self::NotFound(_) | Self::Denied(_) | Self::Refused(_) => false,
        }
    }
}
