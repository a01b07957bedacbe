//! Authentication: passwords, and an OpenID provider for sign-in.

use async_trait::async_trait;

use crate::time::Timestamp;
use crate::trust::TokenClaims;
use crate::user::{Identity, PasswordHash};

/// Hashes and verifies passwords. Deliberately slow.
#[async_trait]
pub trait Passwords: Send + Sync {
    /// Checks whether the user with this name may choose a password.
    ///
    /// # Errors
    /// Returns a text for the user that explains what to change.
    fn check_new(&self, password: &str, name: &str) -> Result<(), String>;

    /// Hashes a password.
    async fn hash(&self, password: String) -> Result<PasswordHash, PasswordsFailed>;

    /// Returns whether a password matches a hash. Without a hash, no password matches, and the check takes as long as
    /// any other, so that its duration does not reveal which users exist.
    async fn verify(&self, password: String, hash: Option<PasswordHash>) -> Result<bool, PasswordsFailed>;
}

/// An error that prevented the hashing or the verification of a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the password could not be checked: {0}")]
pub struct PasswordsFailed(pub String);

/// A sign-in that has begun at a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BegunSignIn {
    /// The URL to which the browser is redirected.
    pub url: String,
    /// The state that [`SignInProvider::finish`] needs. It is stored in a cookie of the browser.
    pub pending: String,
}

/// The query parameters with which the provider sends the browser back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReturnedSignIn {
    /// The authorization code.
    pub code: Option<String>,
    /// The `state` parameter, which ties the answer to the beginning of the sign-in.
    pub state: Option<String>,
    /// The issuer identifier of the provider (RFC 9207).
    pub issuer: Option<String>,
    /// The error code of a provider that sends no authorization code.
    pub error: Option<String>,
    /// The provider's description of the error.
    pub error_description: Option<String>,
}

/// A person whom the provider authenticated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenPerson {
    /// The person's identity at the provider.
    pub identity: Identity,
    /// The verified email address, or the subject of the identity if there is none.
    pub email: String,
    /// The time at which the provider has last asked the person to prove who they are; `None` if it does not say.
    pub authenticated_at: Option<Timestamp>,
}

/// The reason why a person could not sign in, as a text for that person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotProven(pub String);

/// An OpenID provider.
#[async_trait]
pub trait SignInProvider: Send + Sync {
    /// Returns the label of the sign-in button.
    fn label(&self) -> &str;

    /// Returns the role of a new user.
    fn default_role(&self) -> crate::user::Role;

    /// Begins a sign-in. The provider sends the browser back to `redirect`.
    async fn begin(&self, redirect: &str, now: Timestamp) -> Result<BegunSignIn, NotProven>;

    /// Begins a sign-in in which the provider must ask the person to prove who they are, even if it knows the browser.
    async fn begin_again(&self, redirect: &str, now: Timestamp) -> Result<BegunSignIn, NotProven>;

    /// Finishes a sign-in, and returns the person whom the provider authenticated.
    async fn finish(
        &self,
        pending: &str,
        returned: ReturnedSignIn,
        redirect: &str,
        now: Timestamp,
    ) -> Result<ProvenPerson, NotProven>;
}

/// The reason why a token is not exchanged, as a text for the person who presented it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefusal {
    /// The text is not a signed token, or it lacks something that tokens have.
    #[error("{0}")]
    Malformed(String),
    /// The signature, the issuer or the times of the token are wrong.
    #[error("{0}")]
    Unverified(String),
    /// The keys of the issuer cannot be read at the moment.
    #[error("{0}")]
    IssuerUnavailable(String),
}

/// Verifies the tokens of OpenID issuers.
#[async_trait]
pub trait TokenVerifier: Send + Sync {
    /// Reads the issuer that a token names, without verification and without a request.
    ///
    /// # Errors
    /// The text is not a signed token.
    fn issuer(&self, token: &str) -> Result<String, TokenRefusal>;

    /// Verifies the signature, the issuer and the times of a token. Only call this with an issuer that a trust names: it
    /// makes requests to the issuer.
    ///
    /// # Errors
    /// The token is not valid, or the issuer cannot be reached.
    async fn verify(&self, token: &str, issuer: &str, now: Timestamp) -> Result<TokenClaims, TokenRefusal>;
}
