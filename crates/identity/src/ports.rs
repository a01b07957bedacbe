//! Implementations of the authentication ports of `core`, through which the pages use this crate.

use async_trait::async_trait;
use journeyman_core::ports::{BegunSignIn, NotProven, PasswordsFailed, ProvenPerson, ReturnedSignIn, SignInProvider};
use journeyman_core::time::Timestamp;
use journeyman_core::user::{Identity, PasswordHash, Role};
use url::Url;

use crate::oidc::{Oidc, OidcError, Pending, Returned};
use crate::password::{Passwords, check_new};

#[async_trait]
impl journeyman_core::ports::Passwords for Passwords {
    fn check_new(&self, password: &str, name: &str) -> Result<(), String> {
        check_new(password, name).map_err(|error| error.to_string())
    }

    async fn hash(&self, password: String) -> Result<PasswordHash, PasswordsFailed> {
        Self::hash(self, password).await.map(PasswordHash).map_err(|error| PasswordsFailed(error.to_string()))
    }

    async fn verify(&self, password: String, hash: Option<PasswordHash>) -> Result<bool, PasswordsFailed> {
        let verified = Self::verify(self, password, hash.map(|hash| hash.0)).await;
        verified.map(|verified| verified.ok).map_err(|error| PasswordsFailed(error.to_string()))
    }
}

#[async_trait]
impl SignInProvider for Oidc {
    fn label(&self) -> &str {
        &self.settings().button_label
    }

    fn default_role(&self) -> Role {
        self.settings().default_role
    }

    async fn begin(&self, redirect: &str, now: Timestamp) -> Result<BegunSignIn, NotProven> {
        let begun = Self::begin(self, &address(redirect)?, now).await.map_err(not_proven)?;
        Ok(BegunSignIn { url: begun.url.into(), pending: begun.pending.encode() })
    }

    async fn begin_again(&self, redirect: &str, now: Timestamp) -> Result<BegunSignIn, NotProven> {
        let begun = Self::begin_again(self, &address(redirect)?, now).await.map_err(not_proven)?;
        Ok(BegunSignIn { url: begun.url.into(), pending: begun.pending.encode() })
    }

    async fn finish(
        &self,
        pending: &str,
        returned: ReturnedSignIn,
        redirect: &str,
        now: Timestamp,
    ) -> Result<ProvenPerson, NotProven> {
        let pending = Pending::decode(pending).map_err(not_proven)?;
        let ReturnedSignIn { code, state, issuer, error, error_description } = returned;
        let returned = Returned { code, state, iss: issuer, error, error_description };
        let person = Self::finish(self, &pending, returned, &address(redirect)?, now).await.map_err(not_proven)?;
        // If `oidc-domains` is "*", the address can be missing or unverified. The subject then replaces it.
        let email = person.email.filter(|_| person.email_verified).unwrap_or_else(|| person.subject.clone());
        let identity = Identity { issuer: person.issuer, subject: person.subject };
        Ok(ProvenPerson { identity, email, authenticated_at: person.authenticated_at })
    }
}

fn address(text: &str) -> Result<Url, NotProven> {
    Url::parse(text).map_err(|error| NotProven(format!("the public URL of this server is invalid: {error}")))
}

/// Logs an error with its detail for the operator, and returns the text for the person who signs in.
fn not_proven(error: OidcError) -> NotProven {
    tracing::warn!(code = error.code(), detail = error.detail(), "sign-in through the identity provider failed");
    NotProven(error.to_string())
}
