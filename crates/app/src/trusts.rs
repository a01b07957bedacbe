//! Use cases about trusts, and the exchange of a token for a key.

use std::collections::BTreeSet;
use std::net::IpAddr;

use journeyman_core::audit::AuditEntry;
use journeyman_core::decision::trust::Exchange;
use journeyman_core::decision::{self, Once, Row};
use journeyman_core::ids::{ProjectId, TrustId};
use journeyman_core::key::{ApiKey, NewKey};
use journeyman_core::ports::{AdminError, Administered, TokenRefusal};
use journeyman_core::refusal;
use journeyman_core::resource::{Key, Put, Resource as _, not_found};
use journeyman_core::trust::{KEY_LIFETIME, MAX_NAME_CHARS, TokenClaims, Trust, TrustSettings};
use journeyman_core::version::{FIRST_VERSION, Precondition};

use crate::{Answered, Caller, CreatedKey, Error, Idempotency, RefusalKind, UseCases, claim};

/// The number of times that an exchange is decided again because its trust was changed meanwhile.
const ATTEMPTS: usize = 5;

/// A token that someone presents.
#[derive(Clone, Copy)]
pub struct Presented<'a> {
    /// The token.
    pub token: &'a str,
    /// The ID or the name of the trust that must accept it; `None` means any.
    pub trust: Option<&'a str>,
    /// The address that the request came from.
    pub address: Option<IpAddr>,
}

/// A function that changes the rules of a trust.
pub type TrustEdit = Box<dyn Fn(&TrustSettings) -> TrustSettings + Send>;

impl UseCases {
    /// Returns all trusts, oldest first.
    ///
    /// # Errors
    /// The caller is not an administrator, or the store failed.
    pub async fn trusts(&self, caller: &Caller) -> Result<Vec<Trust>, Error> {
        caller.needs_administrator_to_read()?;
        Ok(self.parts().store.resources(None).await?)
    }

    /// Returns a trust.
    ///
    /// # Errors
    /// The caller is not an administrator, the trust does not exist, or the store failed.
    pub async fn trust(&self, caller: &Caller, id: TrustId) -> Result<Trust, Error> {
        caller.needs_administrator_to_read()?;
        self.parts().store.resource(id).await?.ok_or_else(|| Error::Admin(not_found::<Trust>()))
    }

    /// Returns the audience of tokens for trusts that name no other: the URL of the service.
    #[must_use]
    pub fn default_audience(&self) -> &str {
        &self.parts().public_url
    }

    /// Creates a trust. `answer` renders the answer that is stored for the idempotency key.
    ///
    /// # Errors
    /// The caller is not an administrator, a rule is not valid, another trust has the name, a project does not exist, or
    /// the store failed.
    pub async fn create_trust(
        &self,
        caller: &Caller,
        settings: TrustSettings,
        idempotency: Option<Idempotency>,
        answer: impl FnOnce(&Trust) -> String,
    ) -> Result<Answered<Trust>, Error> {
        caller.needs_unlimited_administrator()?;
        self.confirm(caller).await?;
        let claim = claim(caller, None, idempotency);
        if let Some(answer) = self.replay(claim.as_ref()).await? {
            return Ok(Answered::Replayed(answer));
        }
        self.needs_projects(&settings.projects).await?;
        let now = self.parts().engine.now();
        let trust = Trust {
            id: TrustId::from_uuid(self.parts().ids.uuid(now)),
            settings,
            creator: caller.id(),
            owner: caller.owner(),
            created_at: now,
            last_used_at: None,
            version: FIRST_VERSION,
        };
        let audit = self.audit(caller, "trust.created", trust.id);
        let once = claim.map(|claim| Once { claim, answer: answer(&trust) });
        let new = Put { resource: trust.clone(), secrets: () };
        Ok(self.create_resource(new, once, audit).await?.map(|_| trust))
    }

    /// Changes the rules of a trust, and revokes its keys unless only the name changes.
    ///
    /// # Errors
    /// The caller is not an administrator; the trust does not exist or has another version; a rule is not valid, another
    /// trust has the name, or a project does not exist; or the store failed.
    pub async fn change_trust(
        &self,
        caller: &Caller,
        id: TrustId,
        precondition: Precondition,
        edit: TrustEdit,
    ) -> Result<Trust, Error> {
        caller.needs_unlimited_administrator()?;
        self.confirm(caller).await?;
        let known = self.trust(caller, id).await?;
        precondition.check(Trust::KIND, known.version).map_err(Error::Admin)?;
        let proposed = edit(&known.settings);
        self.needs_projects(&proposed.projects).await?;
        let audit = self.audit(caller, "trust.changed", id);
        let decide = move |state: &_| decision::trust::change(state, &precondition, &edit, audit.clone());
        let key = Trust { settings: proposed, ..known }.key();
        self.administer(key, None, decide).await?;
        self.trust(caller, id).await
    }

    /// Removes a trust, and revokes its keys. Removing it again changes nothing.
    ///
    /// # Errors
    /// The caller is not an administrator, the trust never existed or has another version, or the store failed.
    pub async fn remove_trust(&self, caller: &Caller, id: TrustId, precondition: Precondition) -> Result<(), Error> {
        caller.needs_administrator()?;
        self.confirm(caller).await?;
        let audit = self.audit(caller, "trust.removed", id);
        let decide = move |state: &_| decision::trust::remove(state, &precondition, audit.clone());
        self.administer(Key::<Trust>::new(id, None), None, decide).await?;
        Ok(())
    }

    /// Exchanges a token of an OpenID issuer for a key with the projects and the scope of a trust that accepts it. If
    /// several do, the oldest one counts. An issuer that no trust names is sent no request. A token that was exchanged
    /// before gets the same key with a new secret, and the secret before is refused.
    ///
    /// # Errors
    /// The token is not valid, no trust accepts it, it was exchanged too often, too many keys of the trust work, the
    /// issuer cannot be reached, or the store failed.
    pub async fn exchange_token(&self, presented: Presented<'_>) -> Result<CreatedKey, Error> {
        let exchanged = self.try_exchange(presented).await;
        if let Err(Error::Refused(refusal)) = &exchanged {
            let address = presented.address.map(|address| address.to_string());
            tracing::warn!(reason = %refusal.text, address, "a token was not exchanged for a key");
        }
        exchanged
    }

    async fn try_exchange(&self, presented: Presented<'_>) -> Result<CreatedKey, Error> {
        let Presented { token, trust, address } = presented;
        let issuer = self.parts().tokens.issuer(token).map_err(refused)?;
        let selects = |known: &Trust| {
            let named = trust.is_none_or(|name| known.settings.name == name || known.id.to_string() == name);
            named && known.settings.issuer == issuer
        };
        let mut verified: Option<TokenClaims> = None;
        for _ in 0..ATTEMPTS {
            let mut trusts: Vec<Trust> = self.parts().store.resources(None).await?;
            trusts.retain(&selects);
            if trusts.is_empty() {
                let issuer: String = issuer.chars().filter(|c| !c.is_control()).take(200).collect();
                let text =
                    format!("no trust, or not the one that was requested, is for tokens of the issuer {issuer:?}");
                return Err(Error::refused(RefusalKind::TokenNotTrusted, text));
            }
            let now = self.parts().engine.now();
            let claims = match verified.take() {
                Some(claims) => claims,
                None => self.parts().tokens.verify(token, &issuer, now).await.map_err(refused)?,
            };
            let Some(trust) = trusts.iter().find(|trust| trust.settings.accepts(&claims)) else {
                return Err(not_trusted(&trusts, &claims));
            };
            match self.store_key(trust, &claims, address).await {
                // The trust was changed or removed meanwhile.
                Err(Error::Admin(refusal))
                    if refusal.is_version_mismatch() || refusal.kind == refusal::RefusalKind::NotFound =>
                {
                    verified = Some(claims);
                }
                stored => return stored,
            }
        }
        let text = "the trusts were changed at the same time; try again";
        Err(Error::refused(RefusalKind::IssuerUnavailable, text))
    }

    /// Stores the key for a token that a trust accepts.
    async fn store_key(
        &self,
        trust: &Trust,
        claims: &TokenClaims,
        address: Option<IpAddr>,
    ) -> Result<CreatedKey, Error> {
        let now = self.parts().engine.now();
        let new = NewKey {
            name: key_name(&trust.settings.name, &claims.subject()),
            scopes: vec![trust.settings.scope],
            projects: Some(trust.settings.projects.clone()),
            expires_at: Some(now + KEY_LIFETIME),
            allowed_ips: None,
        };
        let creator = trust.id.to_string();
        let made = new.make((&creator, trust.owner), now, &*self.parts().ids);
        let (key, secret) = made.map_err(|error| Error::Internal(error.to_string()))?;
        let key = ApiKey { id: trust.key_of(claims), ..key };
        let audit = AuditEntry {
            at: now,
            actor: creator,
            action: "oidc.exchanged".to_owned(),
            subject: format!("{} (iss {}, sub {})", key.id, trust.settings.issuer, claims.subject()),
            address: address.map(|address| address.to_string()),
        };
        let key = self.commit_key(trust, claims, key, audit).await?;
        Ok(CreatedKey { key, secret })
    }

    /// Stores the key for a token, and returns it as it was stored.
    async fn commit_key(
        &self,
        trust: &Trust,
        claims: &TokenClaims,
        key: ApiKey,
        audit: AuditEntry,
    ) -> Result<ApiKey, Error> {
        let (claims, version) = (claims.clone(), trust.version);
        let subject = Exchange { trust: trust.id, key: key.id, name: key.name.clone(), at: audit.at };
        let decide = move |state: &_| decision::trust::exchange(state, &claims, version, key.clone(), audit.clone());
        match self.administer(subject, None, decide).await {
            Ok(Administered::Done(change)) => {
                let key = change.rows.into_iter().find_map(|row| match row {
                    Row::Key(key) => Some(key),
                    _ => None,
                });
                key.ok_or_else(|| Error::Internal("an exchange stored no key".to_owned()))
            }
            Ok(Administered::Replayed(_)) => Err(Error::Internal("an exchange has no idempotency key".to_owned())),
            Err(AdminError::Refused(refusal)) if refusal.kind == refusal::RefusalKind::Forbidden => {
                Err(Error::refused(RefusalKind::TokenNotTrusted, refusal.detail))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn needs_projects(&self, projects: &[ProjectId]) -> Result<(), Error> {
        for project in projects {
            if self.parts().store.project(project.clone()).await?.is_none() {
                let text = format!("projects: there is no project {project}; GET /v2/projects lists the projects");
                return Err(Error::refused(RefusalKind::ProjectNotFound, text));
            }
        }
        Ok(())
    }
}

/// Returns the name of a key, such as `oidc:ci:repo:acme/shop:ref:refs/heads/main`.
fn key_name(trust: &str, subject: &str) -> String {
    let trust: String = trust.chars().take(MAX_NAME_CHARS).collect();
    let name: String = format!("oidc:{trust}:{subject}").chars().take(journeyman_core::key::MAX_NAME_CHARS).collect();
    name.trim().to_owned()
}

/// Returns the error for a verified token that no trust accepts. It names the claims that the trusts of the issuer check,
/// with the values that the token has, but not the patterns.
fn not_trusted(trusts: &[Trust], claims: &TokenClaims) -> Error {
    let checked: BTreeSet<&str> =
        trusts.iter().flat_map(|trust| trust.settings.claims.keys()).map(String::as_str).collect();
    let described = claims.describe(["aud"].into_iter().chain(checked));
    let text = format!("no trust accepts this token; of what trusts of its issuer check, it has: {described}");
    Error::refused(RefusalKind::TokenNotTrusted, text)
}

fn refused(refusal: TokenRefusal) -> Error {
    let text = refusal.to_string();
    let kind = match refusal {
        TokenRefusal::Malformed(_) => RefusalKind::TokenMalformed,
        TokenRefusal::Unverified(_) => RefusalKind::TokenUnverified,
        TokenRefusal::IssuerUnavailable(_) => RefusalKind::IssuerUnavailable,
    };
    Error::refused(kind, text)
}
