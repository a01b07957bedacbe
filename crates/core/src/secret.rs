//! The values of secrets.

use std::fmt;

/// The value of a secret. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(pub String);

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(…)")
    }
}
