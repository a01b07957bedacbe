//! Encryption of secrets at rest: AES-256-GCM-SIV with a random nonce, bound to the row that stores the secret.
//!
//! A stored secret consists of the format (one byte, 1), the nonce (12 bytes), and the ciphertext with its tag. The
//! associated data names the project and the secret, so that a value copied to another row cannot be decrypted.

use std::collections::BTreeMap;
use std::fmt;

use aes_gcm_siv::aead::{Aead, KeyInit, Payload};
use aes_gcm_siv::{Aes256GcmSiv, Nonce};
use journeyman_core::code_host::decide::HostSecretChanges;
use journeyman_core::code_host::{CodeHostId, HostSecret, HostSecrets};
use journeyman_core::ids::{ProjectId, SlackWorkspaceId, WebhookId};
use journeyman_core::ports::StoreError;
use journeyman_core::project::{SecretChanges, SecretValue};
use journeyman_core::slack::{SlackSecret, SlackSecretChanges, SlackSecrets};
use journeyman_core::time::{IdGen, Timestamp};
use journeyman_core::webhook::{WebhookSecret, WebhookSecrets};

const FORMAT: u8 = 1;
const NONCE_BYTES: usize = 12;

const PROOF_CONTEXT: &str = "meta/value/master_key";
const PROOF: &[u8] = b"journeyman";

const ID_CONTEXT: &str = "backup/manifest/key_id";
const ID_BYTES: usize = 8;

/// The key that encrypts all secrets of an installation. `Debug` does not reveal it.
#[derive(Clone)]
pub struct MasterKey([u8; 32]);

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey(…)")
    }
}

/// An error from encrypting or decrypting secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// The text is not a master key.
    #[error("a master key must be 64 hexadecimal digits, as printed by `openssl rand -hex 32`")]
    MalformedKey,
    /// The value is damaged, or was encrypted with another key or for another row.
    #[error("a secret cannot be decrypted: it was encrypted with another master key, or it is damaged")]
    Sealed,
    /// The installation's secrets were encrypted with another key.
    #[error(
        "the secrets of this database were encrypted with another master key; provide that key with \
         JOURNEYMAN_MASTER_KEY or master-key-file"
    )]
    OtherKey,
    /// The value is too long for the cipher.
    #[error("a secret is too long to be encrypted")]
    TooLong,
}

impl MasterKey {
    /// Creates a key from 32 random bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Parses a key of 64 hexadecimal digits, and ignores whitespace around them.
    ///
    /// # Errors
    /// The text is not 64 hexadecimal digits.
    pub fn parse(text: &str) -> Result<Self, VaultError> {
        let digits = text.trim().as_bytes();
        let mut key = [0; 32];
        if digits.len() != 64 {
            return Err(VaultError::MalformedKey);
        }
        for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| VaultError::MalformedKey)?;
            // `from_str_radix` would accept a sign.
            if pair.starts_with(['+', '-']) {
                return Err(VaultError::MalformedKey);
            }
            *byte = u8::from_str_radix(pair, 16).map_err(|_| VaultError::MalformedKey)?;
        }
        Ok(Self(key))
    }

    /// Encrypts a secret of a project; `nonce` must be random.
    pub(crate) fn seal(
        &self,
        project: &ProjectId,
        name: &str,
        value: &SecretValue,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Vec<u8>, VaultError> {
        self.seal_at(&secret_context(project, name), value.0.as_bytes(), nonce)
    }

    fn seal_at(&self, context: &str, text: &[u8], nonce: [u8; NONCE_BYTES]) -> Result<Vec<u8>, VaultError> {
        let payload = Payload { msg: text, aad: context.as_bytes() };
        let sealed = self.cipher().encrypt(&Nonce::from(nonce), payload).map_err(|_| VaultError::TooLong)?;
        Ok([&[FORMAT], nonce.as_slice(), &sealed].concat())
    }

    /// Decrypts a secret of a project.
    pub(crate) fn open(&self, project: &ProjectId, name: &str, sealed: &[u8]) -> Result<SecretValue, VaultError> {
        let value = self.open_at(&secret_context(project, name), sealed)?;
        String::from_utf8(value).map(SecretValue).map_err(|_| VaultError::Sealed)
    }

    fn open_at(&self, context: &str, sealed: &[u8]) -> Result<Vec<u8>, VaultError> {
        let Some((&FORMAT, rest)) = sealed.split_first() else { return Err(VaultError::Sealed) };
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_BYTES>().ok_or(VaultError::Sealed)?;
        let payload = Payload { msg: sealed, aad: context.as_bytes() };
        self.cipher().decrypt(&Nonce::from(*nonce), payload).map_err(|_| VaultError::Sealed)
    }

    /// Returns an identifier of the key, with which a backup records the key that it needs. The identifier reveals
    /// nothing about the key.
    ///
    /// # Errors
    /// No error occurs in practice: the encrypted text is short.
    pub fn id(&self) -> Result<String, VaultError> {
        // Deterministic: this cipher keeps a text secret even if a nonce is reused, and this text is known anyway.
        let sealed = self.seal_at(ID_CONTEXT, PROOF, [0; NONCE_BYTES])?;
        let end = sealed.len().saturating_sub(ID_BYTES);
        Ok(sealed[end..].iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Returns an encrypted text that lets [`MasterKey::sealed_the_proof`] recognize the key; `nonce` must be random.
    pub(crate) fn proof(&self, nonce: [u8; NONCE_BYTES]) -> Result<Vec<u8>, VaultError> {
        self.seal_at(PROOF_CONTEXT, PROOF, nonce)
    }

    /// Returns whether the proof was encrypted with this key.
    pub(crate) fn sealed_the_proof(&self, proof: &[u8]) -> bool {
        self.open_at(PROOF_CONTEXT, proof).is_ok_and(|text| text == PROOF)
    }

    /// Encrypts the stored answer to a request, as hexadecimal digits in a JSON string.
    pub(crate) fn seal_answer(&self, request: &str, answer: &str, ids: &dyn IdGen) -> Result<String, VaultError> {
        self.seal_text(&answer_context(request), answer, ids).map(|digits| format!("\"{digits}\""))
    }

    /// Decrypts an answer that [`MasterKey::seal_answer`] encrypted.
    pub(crate) fn open_answer(&self, request: &str, sealed: &str) -> Result<String, VaultError> {
        self.open_text(&answer_context(request), sealed.trim_matches('"'))
    }

    /// Encrypts a text with a random nonce, as hexadecimal digits.
    pub(crate) fn seal_text(&self, context: &str, text: &str, ids: &dyn IdGen) -> Result<String, VaultError> {
        let mut nonce = [0; NONCE_BYTES];
        ids.fill(&mut nonce);
        let sealed = self.seal_at(context, text.as_bytes(), nonce)?;
        Ok(sealed.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Decrypts a text that [`MasterKey::seal_text`] encrypted.
    pub(crate) fn open_text(&self, context: &str, digits: &str) -> Result<String, VaultError> {
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let sealed: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
        let text = self.open_at(context, &sealed.ok_or(VaultError::Sealed)?)?;
        String::from_utf8(text).map_err(|_| VaultError::Sealed)
    }

    fn cipher(&self) -> Aes256GcmSiv {
        Aes256GcmSiv::new(&self.0.into())
    }
}

/// Encrypted secrets by name; `None` removes the secret.
pub(crate) type Sealed = Vec<(String, Option<Vec<u8>>)>;

/// Encrypts the changed secrets of a project, with nonces from `ids`.
pub(crate) fn seal_all(
    key: &MasterKey,
    ids: &dyn IdGen,
    project: &ProjectId,
    secrets: SecretChanges,
) -> Result<Sealed, StoreError> {
    let seal = |(name, value): (String, Option<SecretValue>)| {
        let mut nonce = [0; NONCE_BYTES];
        ids.fill(&mut nonce);
        let value = value.map(|value| key.seal(project, &name, &value, nonce)).transpose()?;
        Ok((name, value))
    };
    let sealed: Result<Sealed, VaultError> = secrets.into_iter().map(seal).collect();
    sealed.map_err(|error| StoreError::Unavailable(error.to_string()))
}

/// Decrypts the stored secrets of a project.
pub(crate) fn open_all(
    key: &MasterKey,
    project: &ProjectId,
    sealed: Vec<(String, Vec<u8>)>,
) -> Result<BTreeMap<String, SecretValue>, StoreError> {
    let open = |(name, value): (String, Vec<u8>)| {
        let opened = key.open(project, &name, &value);
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
    key: &MasterKey,
    ids: &dyn IdGen,
    host: &CodeHostId,
    secrets: HostSecretChanges,
) -> Result<Sealed, StoreError> {
    let seal = |(name, value): (HostSecret, Option<SecretValue>)| {
        let (mut nonce, name) = ([0; NONCE_BYTES], name.name().to_owned());
        ids.fill(&mut nonce);
        let value =
            value.map(|value| key.seal_at(&host_context(host, &name), value.0.as_bytes(), nonce)).transpose()?;
        Ok((name, value))
    };
    let sealed: Result<Sealed, VaultError> = secrets.into_iter().map(seal).collect();
    sealed.map_err(|error| StoreError::Unavailable(error.to_string()))
}

/// Decrypts the stored secrets of a code host.
pub(crate) fn open_host(
    key: &MasterKey,
    host: &CodeHostId,
    sealed: Vec<(String, Vec<u8>)>,
) -> Result<HostSecrets, StoreError> {
    let open = |name: &str, value: &[u8]| {
        let opened = key.open_at(&host_context(host, name), value);
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
    key: &MasterKey,
    ids: &dyn IdGen,
    workspace: SlackWorkspaceId,
    secrets: SlackSecretChanges,
) -> Result<Sealed, StoreError> {
    let seal = |(name, value): (SlackSecret, Option<SecretValue>)| {
        let (mut nonce, name) = ([0; NONCE_BYTES], name.name().to_owned());
        ids.fill(&mut nonce);
        let context = slack_context(workspace, &name);
        let value = value.map(|value| key.seal_at(&context, value.0.as_bytes(), nonce)).transpose()?;
        Ok((name, value))
    };
    let sealed: Result<Sealed, VaultError> = secrets.into_iter().map(seal).collect();
    sealed.map_err(|error| StoreError::Unavailable(error.to_string()))
}

/// Decrypts the stored secrets of a Slack workspace. Those that a newer version has stored are left out.
pub(crate) fn open_slack(
    key: &MasterKey,
    workspace: SlackWorkspaceId,
    sealed: Vec<(String, Vec<u8>)>,
) -> Result<SlackSecrets, StoreError> {
    let mut secrets = SlackSecrets::new();
    for (name, value) in sealed {
        let Some(known) = SlackSecret::ALL.into_iter().find(|known| known.name() == name) else { continue };
        let opened = key.open_at(&slack_context(workspace, &name), &value);
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

fn slack_context(workspace: SlackWorkspaceId, name: &str) -> String {
    format!("slack_secrets/value/{workspace}/{name}")
}

fn host_context(host: &CodeHostId, name: &str) -> String {
    format!("code_host_secrets/value/{host}/{name}")
}

fn answer_context(request: &str) -> String {
    format!("idempotency_keys/record/{request}")
}

fn secret_context(project: &ProjectId, name: &str) -> String {
    format!("project_secrets/value/{project}/{name}")
}

fn webhook_context(webhook: WebhookId) -> String {
    format!("webhook_secrets/{webhook}/value")
}

/// Encrypts the secret of a webhook. The current and the old secret have the same associated data, because a rotation
/// copies the row.
pub(crate) fn seal_webhook(
    key: &MasterKey,
    ids: &dyn IdGen,
    webhook: WebhookId,
    secret: &WebhookSecret,
) -> Result<Vec<u8>, StoreError> {
    let mut nonce = [0; NONCE_BYTES];
    ids.fill(&mut nonce);
    let sealed = key.seal_at(&webhook_context(webhook), secret.reveal().as_bytes(), nonce);
    sealed.map_err(|error| StoreError::Unavailable(error.to_string()))
}

/// Decrypts the secrets of a webhook, by name; `None` if there is no current one.
pub(crate) fn open_webhook(
    key: &MasterKey,
    webhook: WebhookId,
    sealed: Vec<(String, Vec<u8>)>,
    old_until: Option<Timestamp>,
) -> Result<Option<WebhookSecrets>, StoreError> {
    let context = webhook_context(webhook);
    let corrupt = |detail: String| StoreError::Corrupt { table: "webhook_secrets", row: webhook.to_string(), detail };
    let (mut current, mut old) = (None, None);
    for (name, value) in sealed {
        let text = key.open_at(&context, &value).map_err(|error| corrupt(error.to_string()))?;
        let text = String::from_utf8(text).map_err(|_| corrupt(VaultError::Sealed.to_string()))?;
        let secret = WebhookSecret::parse(&text).map_err(|error| corrupt(error.to_string()))?;
        match name.as_str() {
            "current" => current = Some(secret),
            _ => old = Some(secret),
        }
    }
    Ok(current.map(|current| WebhookSecrets { current, old: old.zip(old_until) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_decrypted_only_in_its_row_and_with_its_key() {
        let key = MasterKey::new([7; 32]);
        let (shop, other): (ProjectId, ProjectId) = ("shop".parse().unwrap(), "other".parse().unwrap());
        let value = SecretValue("hunter2".into());
        let sealed = key.seal(&shop, "TOKEN", &value, [1; 12]).unwrap();
        assert!(!sealed.windows(7).any(|window| window == b"hunter2"));
        assert_eq!(key.open(&shop, "TOKEN", &sealed), Ok(value));
        assert_eq!(key.open(&other, "TOKEN", &sealed), Err(VaultError::Sealed), "another project");
        assert_eq!(key.open(&shop, "OTHER", &sealed), Err(VaultError::Sealed), "another name");
        assert_eq!(MasterKey::new([8; 32]).open(&shop, "TOKEN", &sealed), Err(VaultError::Sealed), "another key");
        let mut damaged = sealed;
        damaged[20] ^= 1;
        assert_eq!(key.open(&shop, "TOKEN", &damaged), Err(VaultError::Sealed), "damage");
        assert_eq!(key.id(), MasterKey::new([7; 32]).id());
        assert_ne!(key.id(), MasterKey::new([8; 32]).id());
        assert_eq!(key.id().unwrap().len(), 16);
        let proof = key.proof([2; 12]).unwrap();
        assert!(key.sealed_the_proof(&proof) && !MasterKey::new([8; 32]).sealed_the_proof(&proof));
    }

    #[test]
    fn a_master_key_is_64_hexadecimal_digits() {
        assert!(MasterKey::parse(&format!("{}\n", "0f".repeat(32))).is_ok());
        for bad in ["", "0f", &"zz".repeat(32), &"+f".repeat(32), &"0f".repeat(33)] {
            assert!(MasterKey::parse(bad).is_err(), "{bad}");
        }
    }
}
