//! Use cases about code hosts, for administrators. Those of the configuration are only listed and tested.

mod findings;
mod unclaimed;

use journeyman_core::code_host::check::InvalidCodeHost;
use journeyman_core::code_host::draft::Draft;
use journeyman_core::code_host::manifest::CreatedApp;
use journeyman_core::code_host::{CodeHost, CodeHostId, DefinedIn, HostKind, HostSecret, HostSecretChanges};
use journeyman_core::decision::Once;
use journeyman_core::finding::Finding;
use journeyman_core::ports::{DescribedHost, ForgeError};
use journeyman_core::resource::{Key, Put, Resource as _, exists, not_found};
use journeyman_core::version::Precondition;

use crate::{Answered, Caller, Error, Idempotency, RefusalKind, UseCases, claim};

pub use unclaimed::UnclaimedRepository;

/// The maximum length of the code that GitHub gives to the browser.
const CODE_CHARS: usize = 200;

impl UseCases {
    /// Returns the code hosts of the configuration and of the store, by ID.
    ///
    /// # Errors
    /// The caller is not an administrator, or the store failed.
    pub async fn code_hosts(&self, caller: &Caller) -> Result<Vec<DescribedHost>, Error> {
        caller.needs_administrator_to_read()?;
        Ok(self.parts().code_hosts.code_hosts().await?)
    }

    /// Returns a code host.
    ///
    /// # Errors
    /// The caller is not an administrator, the code host does not exist, or the store failed.
    pub async fn code_host(&self, caller: &Caller, id: &CodeHostId) -> Result<DescribedHost, Error> {
        let found = self.code_hosts(caller).await?.into_iter().find(|described| described.host.id == *id);
        found.ok_or_else(|| Error::Admin(not_found::<CodeHost>()))
    }

    /// Returns the URL for the webhooks of a code host.
    #[must_use]
    pub fn webhook_url(&self, id: &CodeHostId) -> String {
        format!("{}/hooks/{id}", self.parts().public_url)
    }

    /// Creates a code host. `answer` renders the answer that is stored for the idempotency key.
    ///
    /// # Errors
    /// The caller is not an administrator, a field is not valid, there is a code host with this ID or address, or the
    /// store failed.
    pub async fn create_code_host(
        &self,
        caller: &Caller,
        id: &CodeHostId,
        draft: &Draft,
        idempotency: Option<Idempotency>,
        answer: impl FnOnce(&DescribedHost) -> String,
    ) -> Result<Answered<DescribedHost>, Error> {
        caller.needs_administrator()?;
        self.confirm(caller).await?;
        let claim = claim(caller, None, idempotency);
        if let Some(answer) = self.replay(claim.as_ref()).await? {
            return Ok(Answered::Replayed(answer));
        }
        let (host, secrets) = draft.host(id, None, self.parts().engine.now()).map_err(invalid)?;
        self.needs_free(&host).await?;
        let audit = self.audit(caller, "code_host.created", self.subject_of(&host).await);
        let mut described = described(host.clone(), &secrets);
        let once = claim.map(|claim| Once { claim, answer: answer(&described) });
        let created = self.create_resource(Put { resource: host, secrets }, once, audit).await?;
        Ok(created.map(|version| {
            described.host.version = version;
            described
        }))
    }

    /// Replaces the fields of a code host. Secrets that the draft does not name keep their values, unless the address
    /// changes.
    ///
    /// # Errors
    /// The caller is not an administrator; the code host never existed, has another version, or is one of the
    /// configuration; a field is not valid, or another code host has this address; or the store failed.
    pub async fn replace_code_host(
        &self,
        caller: &Caller,
        id: &CodeHostId,
        precondition: Precondition,
        draft: Draft,
    ) -> Result<DescribedHost, Error> {
        caller.needs_administrator()?;
        self.confirm(caller).await?;
        let current = self.stored(caller, id).await?;
        precondition.check(CodeHost::KIND, current.host.version).map_err(Error::Admin)?;
        let now = self.parts().engine.now();
        let (proposed, _) = draft.host(id, Some(&current.host), now).map_err(invalid)?;
        self.needs_free(&proposed).await?;
        let audit = self.audit(caller, "code_host.changed", self.subject_of(&proposed).await);
        let id_of_draft = id.clone();
        let edit = move |current: &CodeHost| {
            let host = draft.host(&id_of_draft, Some(current), now).map_err(|error| error.to_string())?;
            Ok(Put { resource: host.0, secrets: host.1 })
        };
        self.change_resource(proposed.key(), precondition, edit, audit).await?;
        self.code_host(caller, id).await
    }

    /// Removes a code host with its secrets. Removing it again changes nothing.
    ///
    /// # Errors
    /// The caller is not an administrator; the code host never existed, has another version, or is one of the
    /// configuration; a project names it; or the store failed.
    pub async fn remove_code_host(
        &self,
        caller: &Caller,
        id: &CodeHostId,
        precondition: Precondition,
    ) -> Result<(), Error> {
        caller.needs_administrator()?;
        self.confirm(caller).await?;
        match self.stored(caller, id).await {
            Ok(_) => {}
            // The store knows whether it was removed before.
            Err(Error::Admin(refusal)) if refusal == not_found::<CodeHost>() => {}
            Err(error) => return Err(error),
        }
        let audit = self.audit(caller, "code_host.removed", id);
        self.remove_resource(Key::<CodeHost>::new(id.clone(), None), precondition, audit).await
    }

    /// Tests whether a code host answers and accepts the credential, and whether webhooks arrive. Stores nothing.
    ///
    /// # Errors
    /// The caller is not an administrator, the code host does not exist, or the store failed.
    pub async fn check_code_host(&self, caller: &Caller, id: &CodeHostId) -> Result<Vec<Finding>, Error> {
        caller.needs_administrator()?;
        self.confirm(caller).await?;
        let described = self.code_host(caller, id).await?;
        let subject = self.subject_of(&described.host).await;
        if subject != id.as_str() {
            // The test connects to the host, so the audit entry is written first.
            self.parts().store.note(self.audit(caller, "code_host.tested", subject)).await?;
        }
        let found = self.parts().code_hosts.check_host(id).await?;
        let mut findings = found.ok_or_else(|| Error::Admin(not_found::<CodeHost>()))?;
        if described.host.access.is_some() {
            self.record_findings(id, described.host.version, findings.clone());
        }
        findings.push(self.host_webhooks(&described).await?);
        Ok(findings)
    }

    /// Stores the GitHub App that was created from a manifest as a code host. `code` is what GitHub has given to the
    /// browser.
    ///
    /// # Errors
    /// Fails like [`UseCases::create_code_host`], and if GitHub does not accept the code.
    pub async fn create_github_app(
        &self,
        caller: &Caller,
        id: &CodeHostId,
        url: &str,
        code: &str,
    ) -> Result<DescribedHost, Error> {
        caller.needs_administrator()?;
        self.confirm(caller).await?;
        if code.is_empty() || code.len() > CODE_CHARS {
            return Err(Error::invalid("GitHub sent no code for the app; create the app again"));
        }
        let draft = Draft {
            kind: HostKind::Github,
            url: url.to_owned(),
            api_url: None,
            username: None,
            app_id: None,
            app_slug: None,
            trusted_bots: [].into(),
            secrets: HostSecretChanges::new(),
        };
        let (host, _) = draft.host(id, None, self.parts().engine.now()).map_err(invalid)?;
        // GitHub tells the secrets once, so what can be refused is refused before.
        self.needs_free(&host).await?;
        let stored: Vec<CodeHost> = self.parts().store.resources(None).await?;
        if stored.iter().any(|other| other.id == host.id || other.name() == host.name()) {
            return Err(Error::Admin(exists::<CodeHost>()));
        }
        let app = self.parts().code_hosts.created_app(&host, code).await.map_err(not_created)?;
        match self.create_code_host(caller, id, &with_app(draft, app), None, |_| String::new()).await? {
            Answered::New(described) => Ok(described),
            Answered::Replayed(_) => Err(Error::Internal("a request without an idempotency key was replayed".into())),
        }
    }

    /// Returns a code host of the store.
    async fn stored(&self, caller: &Caller, id: &CodeHostId) -> Result<DescribedHost, Error> {
        let found = self.code_host(caller, id).await?;
        if found.host.defined_in == DefinedIn::Store {
            return Ok(found);
        }
        let text = format!("the code host {id} is defined in the configuration file of the service; change it there");
        Err(Error::refused(RefusalKind::CodeHostConfigured, text))
    }

    /// Checks that no code host of the configuration has the ID or the address. The store checks its own.
    async fn needs_free(&self, host: &CodeHost) -> Result<(), Error> {
        let all = self.parts().code_hosts.code_hosts().await?;
        let mut configured = all.iter().map(|one| &one.host).filter(|one| one.defined_in == DefinedIn::Configuration);
        match configured.any(|one| one.id == host.id || one.name() == host.name()) {
            true => Err(Error::Admin(exists::<CodeHost>())),
            false => Ok(()),
        }
    }

    /// Returns the subject of an audit entry about a code host. It names a link-local address and the metadata service of
    /// a cloud, which only an administrator may use.
    async fn subject_of(&self, host: &CodeHost) -> String {
        for url in [&host.url, &host.api()] {
            if let Some(found) = self.parts().forges.restricted_host(url).await {
                return format!("{} (at {found})", host.id);
            }
        }
        host.id.to_string()
    }
}

/// Describes a new code host.
fn described(host: CodeHost, secrets: &HostSecretChanges) -> DescribedHost {
    let is_set = |secret| matches!(secrets.get(&secret), Some(Some(_)));
    DescribedHost {
        has_token: is_set(HostSecret::Token),
        has_private_key: is_set(HostSecret::PrivateKey),
        has_webhook_secret: is_set(HostSecret::Webhook),
        host,
    }
}

fn with_app(draft: Draft, app: CreatedApp) -> Draft {
    let CreatedApp { app_id, slug, private_key, webhook_secret } = app;
    let private_key = Some((HostSecret::PrivateKey, Some(private_key)));
    let webhook = webhook_secret.map(|secret| (HostSecret::Webhook, Some(secret)));
    let secrets = private_key.into_iter().chain(webhook).collect();
    Draft { app_id: Some(app_id), app_slug: Some(slug), secrets, ..draft }
}

fn invalid(error: InvalidCodeHost) -> Error {
    Error::invalid(error.to_string())
}

fn not_created(error: ForgeError) -> Error {
    Error::refused(RefusalKind::CodeHostFailed, format!("the app was not stored: {error}"))
}
