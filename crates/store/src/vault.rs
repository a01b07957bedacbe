//! Encryption of secrets at rest: AES-256-GCM-SIV with a random nonce, bound to the row that stores the secret.
//!
//! `keys.rs` describes the formats of an encrypted value. The associated data names the project and the secret, so that a
//! value copied to another row cannot be decrypted.

mod context;
mod keys;

use std::collections::BTreeMap;

use journeyman_core::code_host::{CodeHostId, HostSecret, HostSecretChanges, HostSecrets};
use journeyman_core::ids::{ProjectId, SlackWorkspaceId, WebhookId};
use journeyman_core::ports::StoreError;
use journeyman_core::project::SecretChanges;
use journeyman_core::secret::SecretValue;
use journeyman_core::slack::{SlackSecret, SlackSecretChanges, SlackSecrets};
use journeyman_core::time::{IdGen, Timestamp};
use journeyman_core::webhook::{WebhookSecret, WebhookSecrets};

pub(crate) use self::context::{context, outside, retired_name};
use self::context::{host_context, slack_context, webhook_context};
pub use self::keys::{KeyId, MasterKey, MasterKeys, VaultError};
pub(crate) use self::keys::{NONCE_BYTES, from_digits, to_digits};

/// Encrypted secrets by name; `None` removes the secret.
pub(crate) type Sealed = Vec<(String, Option<Vec<u8>>)>;

/// Encrypts the changed secrets of a project, with nonces from `ids`.
pub(crate) fn seal_all(
    keys: &MasterKeys,
    ids: &dyn IdGen,
    project: &ProjectId,
    secrets: SecretChanges,
) -> Result<Sealed, StoreError> {
    let seal = |(name, value): (String, Option<SecretValue>)| {
        let mut nonce = [0; NONCE_BYTES];
        ids.fill(&mut nonce);
        let value = value.map(|value| keys.seal(project, &name, &value, nonce)).transpose()?;
        Ok((name, value))
    };
    let sealed: Result<Sealed, VaultError> = secrets.into_iter().map(seal).collect();
    sealed.map_err(|error| StoreError::Unavailable(error.to_string()))
}

/// Decrypts the stored secrets of a project.
pub(crate) fn open_all(
    keys: &MasterKeys,
    project: &ProjectId,
    sealed: Vec<(String, Vec<u8>)>,
) -> Result<BTreeMap<String, SecretValue>, StoreError> {
    let open = |(name, value): (String, Vec<u8>)| {
        let opened = keys.open(project, &name, &value);
        opened.map(|value| (name.clone(), value)).map_err(|error| StoreError::Corrupt {
            table: "project_secrets",
            row: format!("{project}/{name}"),
            detail: error.to_string(),
        })
    };
    sealed.into_iter().map(open).collect()
}

/// Encrypts the changed secrets of a code host, with nonces from `ids`.
pub(crate) fn seal_host(
    keys: &MasterKeys,
    ids: &dyn IdGen,
    host: &CodeHostId,
    secrets: HostSecretChanges,
) -> Result<Sealed, StoreError> {
    let seal = |(name, value): (HostSecret, Option<SecretValue>)| {
        let (mut nonce, name) = ([0; NONCE_BYTES], name.name().to_owned());
        ids.fill(&mut nonce);
        let value =
            value.map(|value| keys.seal_at(&host_context(host, &name), value.0.as_bytes(), nonce)).transpose()?;
        Ok((name, value))
    };
    let sealed: Result<Sealed, VaultError> = secrets.into_iter().map(seal).collect();
    sealed.map_err(|error| StoreError::Unavailable(error.to_string()))
}

/// Decrypts the stored secrets of a code host.
pub(crate) fn open_host(
    keys: &MasterKeys,
    host: &CodeHostId,
    sealed: Vec<(String, Vec<u8>)>,
) -> Result<HostSecrets, StoreError> {
    let open = |name: &str, value: &[u8]| {
        let opened = keys.open_at(&host_context(host, name), value);
        let text = opened.and_then(|value| String::from_utf8(value).map_err(|_| VaultError::Sealed));
        text.map(SecretValue).map_err(|error| StoreError::Corrupt {
            table: "code_host_secrets",
            row: format!("{host}/{name}"),
            detail: error.to_string(),
        })
    };
    let mut secrets = HostSecrets::default();
    for (name, value) in &sealed {
        let slot = match name.as_str() {
            "token" => &mut secrets.token,
            "private_key" => &mut secrets.private_key,
            "webhook" => &mut secrets.webhook,
            // A newer version has stored it.
            _ => continue,
        };
        *slot = Some(open(name, value)?);
    }
    Ok(secrets)
}

/// Encrypts the changed secrets of a Slack workspace, with nonces from `ids`.
pub(crate) fn seal_slack(
    keys: &MasterKeys,
    ids: &dyn IdGen,
    workspace: SlackWorkspaceId,
    secrets: SlackSecretChanges,
) -> Result<Sealed, StoreError> {
    let seal = |(name, value): (SlackSecret, Option<SecretValue>)| {
        let (mut nonce, name) = ([0; NONCE_BYTES], name.name().to_owned());
        ids.fill(&mut nonce);
        let context = slack_context(workspace, &name);
        let value = value.map(|value| keys.seal_at(&context, value.0.as_bytes(), nonce)).transpose()?;
        Ok((name, value))
    };
    let sealed: Result<Sealed, VaultError> = secrets.into_iter().map(seal).collect();
    sealed.map_err(|error| StoreError::Unavailable(error.to_string()))
}

/// Decrypts the stored secrets of a Slack workspace. Those that a newer version has stored are left out.
pub(crate) fn open_slack(
    keys: &MasterKeys,
    workspace: SlackWorkspaceId,
    sealed: Vec<(String, Vec<u8>)>,
) -> Result<SlackSecrets, StoreError> {
    let mut secrets = SlackSecrets::new();
    for (name, value) in sealed {
        let Some(known) = SlackSecret::ALL.into_iter().find(|known| known.name() == name) else { continue };
        let opened = keys.open_at(&slack_context(workspace, &name), &value);
        let text = opened.and_then(|value| String::from_utf8(value).map_err(|_| VaultError::Sealed));
        let text = text.map_err(|error| StoreError::Corrupt {
            table: "slack_secrets",
            row: format!("{workspace}/{name}"),
            detail: error.to_string(),
        })?;
        secrets.insert(known, SecretValue(text));
    }
    Ok(secrets)
}

/// Encrypts the secret of a webhook. The current and the old secret have the same associated data, because a rotation
/// copies the row.
pub(crate) fn seal_webhook(
    keys: &MasterKeys,
    ids: &dyn IdGen,
    webhook: WebhookId,
    secret: &WebhookSecret,
) -> Result<Vec<u8>, StoreError> {
    let mut nonce = [0; NONCE_BYTES];
    ids.fill(&mut nonce);
    let sealed = keys.seal_at(&webhook_context(webhook), secret.reveal().as_bytes(), nonce);
    sealed.map_err(|error| StoreError::Unavailable(error.to_string()))
}

/// Decrypts the secrets of a webhook, by name; `None` if there is no current one.
pub(crate) fn open_webhook(
    keys: &MasterKeys,
    webhook: WebhookId,
    sealed: Vec<(String, Vec<u8>)>,
    old_until: Option<Timestamp>,
) -> Result<Option<WebhookSecrets>, StoreError> {
    let context = webhook_context(webhook);
    let corrupt = |detail: String| StoreError::Corrupt { table: "webhook_secrets", row: webhook.to_string(), detail };
    let (mut current, mut old) = (None, None);
    for (name, value) in sealed {
        let text = keys.open_at(&context, &value).map_err(|error| corrupt(error.to_string()))?;
        let text = String::from_utf8(text).map_err(|_| corrupt(VaultError::Sealed.to_string()))?;
        let secret = WebhookSecret::parse(&text).map_err(|error| corrupt(error.to_string()))?;
        match name.as_str() {
            "current" => current = Some(secret),
            _ => old = Some(secret),
        }
    }
    Ok(current.map(|current| WebhookSecrets { current, old: old.zip(old_until) }))
}
