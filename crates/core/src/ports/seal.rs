//! The encryption of texts that leave the server and come back, such as the value of a cookie.

/// Encrypts and decrypts short texts with the key of the installation, so that every machine can read what another one
/// has encrypted.
pub trait Seal: Send + Sync {
    /// Encrypts a text as hexadecimal digits. `context` names the purpose and the owner.
    ///
    /// # Errors
    /// The text cannot be encrypted.
    fn seal(&self, context: &str, text: &str) -> Result<String, SealFailed>;

    /// Decrypts a text. Returns `None` if it is damaged, or was encrypted with another key or for another context.
    fn open(&self, context: &str, sealed: &str) -> Option<String>;
}

/// An error from [`Seal::seal`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a text could not be encrypted: {0}")]
pub struct SealFailed(pub String);
