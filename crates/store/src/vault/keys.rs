//! The master keys of an installation, and the formats of encrypted values.
//!
//! | format (first byte) | contents | written |
//! |---|---|---|
//! | 1 | the nonce (12 bytes), and the ciphertext with its tag | while one key is configured |
//! | 2 | the ID of the key (8 bytes), then as in format 1 | while several keys are configured |
//!
//! A value of format 1 does not name its key: each configured key is tried, and the cipher accepts only the right one.
//! Programs from before the rotation of master keys read format 1 only, so format 2 is not written before a second key
//! is configured.

use std::fmt;

use aes_gcm_siv::aead::{Aead, KeyInit, Payload};
use aes_gcm_siv::{Aes256GcmSiv, Nonce};
use journeyman_core::ids::ProjectId;
use journeyman_core::secret::SecretValue;
use journeyman_core::time::IdGen;

use super::context::{answer_context, secret_context};

const FORMAT: u8 = 1;
const FORMAT_WITH_ID: u8 = 2;

const PROOF_CONTEXT: &str = "meta/value/master_key";
const PROOF: &[u8] = b"journeyman";

const ID_CONTEXT: &str = "backup/manifest/key_id";
const ID_BYTES: usize = 8;

/// The ID of a master key, which is derived from the key and reveals nothing about it. Displayed as 16 hexadecimal
/// digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyId([u8; ID_BYTES]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A key that encrypts the secrets of an installation. `Debug` does not reveal it.
#[derive(Clone, PartialEq, Eq)]
pub struct MasterKey([u8; 32]);

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey(…)")
    }
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

    /// Returns an identifier of the key, with which an encrypted value or a backup names the key that it needs. The
    /// identifier reveals nothing about the key.
    ///
    /// # Errors
    /// No error occurs in practice: the encrypted text is short.
    pub fn id(&self) -> Result<KeyId, VaultError> {
        // Deterministic: this cipher keeps a text secret even if a nonce is reused, and this text is known anyway.
        let sealed = self.encrypt(ID_CONTEXT, PROOF, [0; NONCE_BYTES])?;
        sealed.last_chunk().map(|end| KeyId(*end)).ok_or(VaultError::Sealed)
    }

    fn encrypt(&self, context: &str, text: &[u8], nonce: [u8; NONCE_BYTES]) -> Result<Vec<u8>, VaultError> {
        let payload = Payload { msg: text, aad: context.as_bytes() };
        self.cipher().encrypt(&Nonce::from(nonce), payload).map_err(|_| VaultError::TooLong)
    }

    fn decrypt(&self, context: &str, sealed: &[u8]) -> Result<Vec<u8>, VaultError> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or(VaultError::Sealed)?;
        let payload = Payload { msg: sealed, aad: context.as_bytes() };
        self.cipher().decrypt(&Nonce::from(*nonce), payload).map_err(|_| VaultError::Sealed)
    }

    fn cipher(&self) -> Aes256GcmSiv {
        Aes256GcmSiv::new(&self.0.into())
    }
}

/// The keys of an installation: the current one encrypts, and each of them decrypts. The others are the next key, before
/// it becomes the current one, and the previous ones, until no value needs them.
#[derive(Debug, Clone)]
pub struct MasterKeys {
    current: MasterKey,
    others: Vec<MasterKey>,
}

impl From<MasterKey> for MasterKeys {
    fn from(current: MasterKey) -> Self {
        Self::new(current, Vec::new())
    }
}

impl MasterKeys {
    /// Creates a set of keys. Among `others`, the current key and repeated keys are ignored.
    #[must_use]
    pub fn new(current: MasterKey, others: Vec<MasterKey>) -> Self {
        let mut kept: Vec<MasterKey> = Vec::new();
        for key in others {
            if key != current && !kept.contains(&key) {
                kept.push(key);
            }
        }
        Self { current, others: kept }
    }

    /// Returns the key that encrypts.
    #[must_use]
    pub const fn current(&self) -> &MasterKey {
        &self.current
    }

    /// Returns the keys that only decrypt.
    #[must_use]
    pub fn others(&self) -> &[MasterKey] {
        &self.others
    }

    fn all(&self) -> impl Iterator<Item = &MasterKey> {
        std::iter::once(&self.current).chain(&self.others)
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

    /// Encrypts a value for a context with the current key; `nonce` must be random.
    pub(crate) fn seal_at(&self, context: &str, text: &[u8], nonce: [u8; NONCE_BYTES]) -> Result<Vec<u8>, VaultError> {
        let sealed = self.current.encrypt(context, text, nonce)?;
        let head = match self.others.as_slice() {
            [] => vec![FORMAT],
            _ => [&[FORMAT_WITH_ID], self.current.id()?.0.as_slice()].concat(),
        };
        Ok([&head, nonce.as_slice(), &sealed].concat())
    }

    /// Decrypts a secret of a project.
    pub(crate) fn open(&self, project: &ProjectId, name: &str, sealed: &[u8]) -> Result<SecretValue, VaultError> {
        let value = self.open_at(&secret_context(project, name), sealed)?;
        String::from_utf8(value).map(SecretValue).map_err(|_| VaultError::Sealed)
    }

    /// Decrypts a value of a context.
    pub(crate) fn open_at(&self, context: &str, sealed: &[u8]) -> Result<Vec<u8>, VaultError> {
        self.open_with_key(context, sealed).map(|(_, text)| text)
    }

    /// Decrypts a value of a context, and returns it after the key that has encrypted it.
    pub(crate) fn open_with_key(&self, context: &str, sealed: &[u8]) -> Result<(&MasterKey, Vec<u8>), VaultError> {
        match sealed.split_first() {
            Some((&FORMAT, rest)) => self
                .all()
                .find_map(|key| key.decrypt(context, rest).ok().map(|text| (key, text)))
                .ok_or(VaultError::Sealed),
            Some((&FORMAT_WITH_ID, rest)) => {
                let (id, rest) = rest.split_first_chunk::<ID_BYTES>().ok_or(VaultError::Sealed)?;
                let id = KeyId(*id);
                let key = self.all().find(|key| key.id() == Ok(id)).ok_or(VaultError::UnknownKey(id))?;
                Ok((key, key.decrypt(context, rest)?))
            }
            _ => Err(VaultError::Sealed),
        }
    }

    /// Returns an encrypted text that lets [`MasterKeys::sealed_the_proof`] recognize the key; `nonce` must be random.
    pub(crate) fn proof(&self, nonce: [u8; NONCE_BYTES]) -> Result<Vec<u8>, VaultError> {
        self.seal_at(PROOF_CONTEXT, PROOF, nonce)
    }

    /// Returns whether the proof was encrypted with one of these keys.
    pub(crate) fn sealed_the_proof(&self, proof: &[u8]) -> bool {
        self.proven(proof).is_some()
    }

    /// Returns the key that encrypted the proof, if it is one of these.
    pub(crate) fn proven(&self, proof: &[u8]) -> Option<&MasterKey> {
        let (key, text) = self.open_with_key(PROOF_CONTEXT, proof).ok()?;
        (text == PROOF).then_some(key)
    }

    /// Encrypts the stored answer to a request, as hexadecimal digits in a JSON string.
    pub(crate) fn seal_answer(&self, request: &str, answer: &str, ids: &dyn IdGen) -> Result<String, VaultError> {
        self.seal_text(&answer_context(request), answer, ids).map(|digits| format!("\"{digits}\""))
    }

    /// Decrypts an answer that [`MasterKeys::seal_answer`] encrypted.
    pub(crate) fn open_answer(&self, request: &str, sealed: &str) -> Result<String, VaultError> {
        self.open_text(&answer_context(request), sealed.trim_matches('"'))
    }

    /// Encrypts a text with a random nonce, as hexadecimal digits.
    pub(crate) fn seal_text(&self, context: &str, text: &str, ids: &dyn IdGen) -> Result<String, VaultError> {
        let mut nonce = [0; NONCE_BYTES];
        ids.fill(&mut nonce);
        Ok(to_digits(&self.seal_at(context, text.as_bytes(), nonce)?))
    }

    /// Decrypts a text that [`MasterKeys::seal_text`] encrypted.
    pub(crate) fn open_text(&self, context: &str, digits: &str) -> Result<String, VaultError> {
        let sealed = from_digits(digits).ok_or(VaultError::Sealed)?;
        String::from_utf8(self.open_at(context, &sealed)?).map_err(|_| VaultError::Sealed)
    }
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn to_digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the bytes of hexadecimal digits; `None` if another character is among them.
pub(crate) fn from_digits(digits: &str) -> Option<Vec<u8>> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.as_bytes().chunks(2).map(byte).collect()
}

/// The length of a nonce, in bytes.
pub(crate) const NONCE_BYTES: usize = 12;

/// An error from encrypting or decrypting secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// The text is not a master key.
    #[error("a master key must be 64 hexadecimal digits, as printed by `openssl rand -hex 32`")]
    MalformedKey,
    /// The value is damaged, or was encrypted with another key or for another row.
    #[error("a secret cannot be decrypted: it was encrypted with another master key, or it is damaged")]
    Sealed,
    /// The value names a key that is not configured.
    #[error(
        "a secret cannot be decrypted: it was encrypted with the master key {0}, which is not configured here; add that \
         key to other-master-key-files or JOURNEYMAN_OTHER_MASTER_KEYS"
    )]
    UnknownKey(KeyId),
    /// The installation's secrets were encrypted with another key.
    #[error(
        "the secrets of this database were encrypted with another master key; provide that key with \
         JOURNEYMAN_MASTER_KEY or master-key-file. During a rotation, other-master-key-files or \
         JOURNEYMAN_OTHER_MASTER_KEYS names the further keys"
    )]
    OtherKey,
    /// The value is too long for the cipher.
    #[error("a secret is too long to be encrypted")]
    TooLong,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> MasterKey {
        MasterKey::new([byte; 32])
    }

    #[test]
    fn a_secret_is_decrypted_only_in_its_row_and_with_its_key() {
        let keys = MasterKeys::from(key(7));
        let (shop, other): (ProjectId, ProjectId) = ("shop".parse().unwrap(), "other".parse().unwrap());
        let value = SecretValue("hunter2".into());
        let sealed = keys.seal(&shop, "TOKEN", &value, [1; 12]).unwrap();
        assert!(!sealed.windows(7).any(|window| window == b"hunter2"));
        assert_eq!(keys.open(&shop, "TOKEN", &sealed), Ok(value));
        assert_eq!(keys.open(&other, "TOKEN", &sealed), Err(VaultError::Sealed), "another project");
        assert_eq!(keys.open(&shop, "OTHER", &sealed), Err(VaultError::Sealed), "another name");
        assert_eq!(MasterKeys::from(key(8)).open(&shop, "TOKEN", &sealed), Err(VaultError::Sealed), "another key");
        let mut damaged = sealed;
        damaged[20] ^= 1;
        assert_eq!(keys.open(&shop, "TOKEN", &damaged), Err(VaultError::Sealed), "damage");
        assert_eq!(key(7).id(), key(7).id());
        assert_ne!(key(7).id(), key(8).id());
        assert_eq!(key(7).id().unwrap().to_string().len(), 16);
        let proof = keys.proof([2; 12]).unwrap();
        assert!(keys.sealed_the_proof(&proof) && !MasterKeys::from(key(8)).sealed_the_proof(&proof));
    }

    #[test]
    fn each_configured_key_decrypts_and_the_current_one_encrypts() {
        let before = MasterKeys::from(key(1));
        let during = MasterKeys::new(key(2), vec![key(1), key(2), key(1)]);
        let after = MasterKeys::from(key(2));
        assert_eq!(during.others(), [key(1)], "no key is listed twice");
        let old = before.seal_at("a/1", b"text", [1; 12]).unwrap();
        let new = during.seal_at("a/1", b"text", [1; 12]).unwrap();
        assert_eq!((old[0], new[0]), (FORMAT, FORMAT_WITH_ID), "one key writes what older programs read");
        assert_eq!(during.open_with_key("a/1", &old).unwrap(), (&key(1), b"text".to_vec()));
        assert_eq!(during.open_with_key("a/1", &new).unwrap(), (&key(2), b"text".to_vec()));
        assert_eq!(after.open_at("a/1", &new).unwrap(), b"text");
        assert_eq!(before.open_at("a/1", &new), Err(VaultError::UnknownKey(key(2).id().unwrap())));
        assert_eq!(after.open_at("a/1", &old), Err(VaultError::Sealed));
        for damaged in [&new[..5], &new[..9], &new[..20], &[], &[3]] {
            assert!(during.open_at("a/1", damaged).is_err(), "{damaged:?}");
        }
        let proof = before.proof([2; 12]).unwrap();
        assert!(during.sealed_the_proof(&proof) && !after.sealed_the_proof(&proof));
    }

    #[test]
    fn an_error_names_the_missing_key_and_no_key_is_shown() {
        let sealed = MasterKeys::new(key(2), vec![key(1)]).seal_at("a", b"text", [1; 12]).unwrap();
        let error = MasterKeys::from(key(3)).open_at("a", &sealed).unwrap_err().to_string();
        assert!(error.contains(&key(2).id().unwrap().to_string()), "{error}");
        let shown = format!("{:?}", MasterKeys::new(key(2), vec![key(1)]));
        assert!(!shown.contains('2') && !shown.contains('1'), "{shown}");
    }

    #[test]
    fn a_master_key_is_64_hexadecimal_digits() {
        assert!(MasterKey::parse(&format!("{}\n", "0f".repeat(32))).is_ok());
        for bad in ["", "0f", &"zz".repeat(32), &"+f".repeat(32), &"0f".repeat(33)] {
            assert!(MasterKey::parse(bad).is_err(), "{bad}");
        }
    }
}
