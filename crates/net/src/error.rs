//! Errors of outbound connections.

use std::error::Error as StdError;
use std::time::Duration;

/// An error of an outbound connection or request. No text contains the URL, because it may contain a credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The name could not be resolved.
    #[error("{host} was not found: {cause}")]
    NotFound {
        /// The name.
        host: String,
        /// The error from the resolver.
        cause: String,
    },
    /// The policy permits none of the addresses.
    #[error("{0} has no public address")]
    NotPermitted(String),
    /// The URL is neither https nor http.
    #[error("the scheme {0:?} is not supported; use https")]
    Scheme(String),
    /// No CA certificates were found on this machine.
    #[error(
        "the service found no CA certificates, so https does not work; install them (apt install \
         ca-certificates): {0}"
    )]
    NoTls(String),
    /// The time limit was exceeded.
    #[error("no answer within {} s", .0.as_secs_f32())]
    Slow(Duration),
    /// The connection could not be opened, or broke.
    #[error("{0}")]
    Unreachable(String),
    /// The answer exceeds the size limit.
    #[error("the answer has more than {0} bytes")]
    TooLarge(usize),
    /// The request or the answer is malformed.
    #[error("{0}")]
    Malformed(String),
}

/// Returns the text of the innermost cause. The outermost error of an HTTP client contains the URL.
#[must_use]
pub fn root_cause(error: &dyn StdError) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

impl Error {
    /// Converts an error of the HTTP client; `limit` is the time limit of the request.
    pub(crate) fn from_client(error: &reqwest::Error, limit: Duration) -> Self {
        let mut source = StdError::source(error);
        while let Some(cause) = source {
            // The resolver of the client passes our own errors through.
            if let Some(own) = cause.downcast_ref::<Self>() {
                return own.clone();
            }
            source = cause.source();
        }
        if error.is_timeout() { Self::Slow(limit) } else { Self::Unreachable(root_cause(error)) }
    }
}
