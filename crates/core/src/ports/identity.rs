//! Who somebody is: passwords, and a provider that people sign in at.

use async_trait::async_trait;

use crate::time::Timestamp;
use crate::user::{Identity, PasswordHash};

/// Hashes passwords. Slow on purpose.
#[async_trait]
pub trait Passwords: Send + Sync {
    /// Whether a password may be chosen by the user of that name.
    ///
    /// # Errors
    /// Says what to choose instead.
    fn check_new(&self, password: &str, name: &str) -> Result<(), String>;

    /// The hash of a password.
    async fn hash(&self, password: String) -> Result<PasswordHash, PasswordsFailed>;

    /// Whether it is the password. Where there is none to compare with it is not, and takes as long to say so.
    async fn verify(&self, password: String, hash: Option<PasswordHash>) -> Result<bool, PasswordsFailed>;
}

/// A password could not be hashed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the password could not be checked: {0}")]
pub struct PasswordsFailed(pub String);

/// A sign-in that has begun at a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BegunSignIn {
    /// Where the browser goes.
    pub url: String,
    /// What is to be shown when it comes back; kept in a cookie of that browser.
    pub pending: String,
}

/// What the browser brings back from the provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReturnedSignIn {
    /// The code that stands for the answer.
    pub code: Option<String>,
    /// What ties it to the beginning.
    pub state: Option<String>,
    /// Who says so (RFC 9207).
    pub issuer: Option<String>,
    /// Why there is none.
    pub error: Option<String>,
    /// The same in the provider's words.
    pub error_description: Option<String>,
}

/// Somebody whom the provider knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenPerson {
    /// Who.
    pub identity: Identity,
    /// Their verified address.
    pub email: String,
}

/// Why somebody was not let in; a text for them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotProven(pub String);

/// An OpenID provider.
#[async_trait]
pub trait SignInProvider: Send + Sync {
    /// What the button says.
    fn label(&self) -> &str;

    /// What a new user may do.
    fn default_role(&self) -> crate::user::Role;

    /// Begins; `redirect` is the address that the browser comes back to.
    async fn begin(&self, redirect: &str, now: Timestamp) -> Result<BegunSignIn, NotProven>;

    /// Who it was.
    async fn finish(
        &self,
        pending: &str,
        returned: ReturnedSignIn,
        redirect: &str,
        now: Timestamp,
    ) -> Result<ProvenPerson, NotProven>;
}
