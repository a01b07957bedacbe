//! Passwords: hashed with Argon2id, verified, and judged when they are new.
//!
//! A hash takes 19 MiB and some hundredths of a second of one core, on purpose. No more than [`AT_ONCE`] are made at a
//! time, on threads of their own, so that a storm of sign-ins costs neither the memory nor the threads that
//! serve requests.

mod common;
mod policy;

use std::sync::Arc;

use argon2::{ARGON2ID_IDENT, Algorithm, Argon2, Params, PasswordHash, PasswordHasher, PasswordVerifier, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use journeyman_core::time::IdGen;
use tokio::sync::Semaphore;
use unicode_normalization::UnicodeNormalization;

pub use policy::{MAX_CHARS, MIN_CHARS, WeakPassword, check_new};

/// Passwords that are hashed at the same time.
pub const AT_ONCE: usize = 2;

// What OWASP's cheat sheet on storing passwords recommends for Argon2id.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;

const SALT_BYTES: usize = 16;
const HASH_BYTES: usize = 32;

/// Why no answer about a password can be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    /// What is stored is no PHC string of Argon2.
    #[error("the stored hash of this password cannot be read; have a new password set")]
    Stored,
    /// Argon2 failed, as it does without memory.
    #[error("the password could not be hashed; see whether the machine has 19 MiB of memory left, and try again")]
    Hashing,
    /// The service is shutting down, or the thread died.
    #[error("the password was not looked at, because the service is stopping; try again")]
    Stopped,
}

/// What came of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// The password is the one that was hashed.
    pub ok: bool,
    /// The hash was made in another way than today's: where `ok`, make a new one of the password and store it.
    pub outdated: bool,
}

/// Hashes and verifies passwords.
pub struct Passwords {
    ids: Arc<dyn IdGen>,
    // Shared: a permit goes with its hash, which runs on when its caller has gone away.
    permits: Arc<Semaphore>,
    /// The hash of no password, for users who do not exist.
    dummy: String,
}

impl Passwords {
    /// With salts of `ids`.
    #[must_use]
    pub fn new(ids: Arc<dyn IdGen>) -> Self {
        let dummy = dummy(&*ids);
        Self { ids, permits: Arc::new(Semaphore::new(AT_ONCE)), dummy }
    }

    /// The hash of a password, as a PHC string.
    ///
    /// # Errors
    /// It could not be made.
    pub async fn hash(&self, password: String) -> Result<String, PasswordError> {
        let mut salt = [0; SALT_BYTES];
        self.ids.fill(&mut salt);
        self.at_work(move || hash(&password, &salt)).await
    }

    /// Whether the password is the one whose hash is `phc`. With `None`, which is a user who does not exist or has no
    /// password, the answer is no, and takes as long as any other: nobody learns from it who exists.
    ///
    /// # Errors
    /// The hash cannot be read, or could not be made.
    pub async fn verify(&self, password: String, phc: Option<String>) -> Result<Verified, PasswordError> {
        let known = phc.is_some();
        let phc = phc.unwrap_or_else(|| self.dummy.clone());
        let verified = self.at_work(move || verify(&password, &phc)).await?;
        Ok(if known { verified } else { Verified { ok: false, outdated: false } })
    }

    async fn at_work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, PasswordError> + Send + 'static,
    ) -> Result<T, PasswordError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| PasswordError::Stopped)?;
        let working = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        working.await.map_err(|_| PasswordError::Stopped)?
    }
}

/// The one form of a text that looks the same: keyboards differ in how they send `ö` (NIST SP 800-63B-4, 3.1.1.2).
fn normal(password: &str) -> String {
    password.nfc().collect()
}

fn params() -> Result<Params, PasswordError> {
    Params::new(MEMORY_KIB, PASSES, LANES, Some(HASH_BYTES)).map_err(|_| PasswordError::Hashing)
}

fn hash(password: &str, salt: &[u8]) -> Result<String, PasswordError> {
    let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params()?);
    let hash: PasswordHash =
        argon.hash_password_with_salt(normal(password).as_bytes(), salt).map_err(|_| PasswordError::Hashing)?;
    Ok(hash.to_string())
}

fn verify(password: &str, phc: &str) -> Result<Verified, PasswordError> {
    let stored = PasswordHash::new(phc).map_err(|_| PasswordError::Stored)?;
    if stored.salt.is_none() || stored.hash.is_none() {
        return Err(PasswordError::Stored);
    }
    let made_with = Params::try_from(&stored).map_err(|_| PasswordError::Stored)?;
    let today = params()?;
    let cost = |params: &Params| (params.m_cost(), params.t_cost(), params.p_cost());
    let outdated = stored.algorithm != ARGON2ID_IDENT
        || stored.version != Some(u32::from(Version::V0x13))
        || stored.hash.as_ref().is_none_or(|hash| hash.len() != HASH_BYTES)
        || cost(&made_with) != cost(&today);
    // The parameters are taken from the stored hash, not from here.
    match Argon2::default().verify_password(normal(password).as_bytes(), &stored) {
        Ok(()) => Ok(Verified { ok: true, outdated }),
        Err(argon2::password_hash::Error::PasswordInvalid) => Ok(Verified { ok: false, outdated }),
        Err(argon2::password_hash::Error::OutOfMemory) => Err(PasswordError::Hashing),
        Err(_) => Err(PasswordError::Stored),
    }
}

/// Random bytes in the place of a hash: to verify against it costs what it always does, and no password is known to
/// fit.
fn dummy(ids: &dyn IdGen) -> String {
    let (mut salt, mut hash) = ([0; SALT_BYTES], [0; HASH_BYTES]);
    ids.fill(&mut salt);
    ids.fill(&mut hash);
    let (salt, hash) = (STANDARD_NO_PAD.encode(salt), STANDARD_NO_PAD.encode(hash));
    format!("$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${salt}${hash}")
}

#[cfg(test)]
mod tests;
