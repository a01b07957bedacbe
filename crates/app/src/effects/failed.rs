//! The error of an effect on a code host.

use journeyman_core::ports::{ForgeError, StoreError};

/// An error of an effect.
pub(crate) enum Failed {
    /// Another attempt may succeed.
    Later(String),
    /// No attempt will succeed.
    Never(String),
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Later(error.to_string())
    }
}

impl From<ForgeError> for Failed {
    fn from(error: ForgeError) -> Self {
        match error {
            // A person may set another credential within a day.
            ForgeError::Credential(_) | ForgeError::RateLimited(_) | ForgeError::Unclear(_) => {
                Self::Later(error.to_string())
            }
            ForgeError::NoPulls(_) | ForgeError::NotFound(_) | ForgeError::Denied(_) | ForgeError::Refused(_) => {
                Self::Never(error.to_string())
            }
        }
    }
}
