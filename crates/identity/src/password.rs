//! Passwords: hashing with Argon2id, verification, and the policy for new passwords.
//!
//! A hash deliberately takes 19 MiB and some hundredths of a second of one core. At most [`AT_ONCE`] hashes run at a
//! time, on the threads for blocking work, so that a burst of sign-ins neither exhausts the memory nor occupies the
//! threads that serve requests.

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

/// The maximum number of passwords that are hashed at the same time.
pub const AT_ONCE: usize = 2;

// The values that OWASP's Password Storage Cheat Sheet recommends for Argon2id.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;

const SALT_BYTES: usize = 16;
const HASH_BYTES: usize = 32;

/// An error that prevents the hashing or the verification of a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    /// The stored hash is not a PHC string of Argon2.
    #[error("the stored hash of this password is not valid; ask an administrator to reset the password")]
    Stored,
    /// Argon2 failed, usually because there was not enough memory.
    #[error("the password could not be hashed; check that the machine has 19 MiB of free memory, and try again")]
    Hashing,
    /// The service is shutting down, or the thread panicked.
    #[error("the password was not checked because the service is stopping; try again")]
    Stopped,
}

/// The result of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// True if the password matches the hash.
    pub ok: bool,
    /// True if the hash has other parameters than those of new hashes. If `ok`, hash the password again and store the
    /// new hash.
    pub outdated: bool,
}

/// Hashes and verifies passwords.
pub struct Passwords {
    ids: Arc<dyn IdGen>,
    // Shared with the hashing threads: a hash keeps its permit and continues when its caller is dropped.
    permits: Arc<Semaphore>,
    /// A hash that no password matches, for users who do not exist.
    dummy: String,
}

impl Passwords {
    /// Creates a hasher that takes its salts from `ids`.
    #[must_use]
    pub fn new(ids: Arc<dyn IdGen>) -> Self {
        let dummy = dummy(&*ids);
        Self { ids, permits: Arc::new(Semaphore::new(AT_ONCE)), dummy }
    }

    /// Hashes a password and returns the hash as a PHC string.
    ///
    /// # Errors
    /// Fails if Argon2 fails, or if the service is stopping.
    pub async fn hash(&self, password: String) -> Result<String, PasswordError> {
        let mut salt = [0; SALT_BYTES];
        self.ids.fill(&mut salt);
        self.run_blocking(move || hash(&password, &salt)).await
    }

    /// Verifies a password against the hash `phc`. `None`, for a user who does not exist or has no password, never
    /// matches; the check takes as long as any other, so that its duration does not reveal which users exist.
    ///
    /// # Errors
    /// Fails if the stored hash is not valid, if Argon2 fails, or if the service is stopping.
    pub async fn verify(&self, password: String, phc: Option<String>) -> Result<Verified, PasswordError> {
        let known = phc.is_some();
        let phc = phc.unwrap_or_else(|| self.dummy.clone());
        let verified = self.run_blocking(move || verify(&password, &phc)).await?;
        Ok(if known { verified } else { Verified { ok: false, outdated: false } })
    }

    async fn run_blocking<T: Send + 'static>(
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

/// Converts a password to Unicode normalization form C, because keyboards differ in how they send `ö` (NIST SP
/// 800-63B-4, 3.1.1.2).
fn normalize(password: &str) -> String {
    password.nfc().collect()
}

fn params() -> Result<Params, PasswordError> {
    Params::new(MEMORY_KIB, PASSES, LANES, Some(HASH_BYTES)).map_err(|_| PasswordError::Hashing)
}

fn hash(password: &str, salt: &[u8]) -> Result<String, PasswordError> {
    let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params()?);
    let hash: PasswordHash =
        argon.hash_password_with_salt(normalize(password).as_bytes(), salt).map_err(|_| PasswordError::Hashing)?;
    Ok(hash.to_string())
}

fn verify(password: &str, phc: &str) -> Result<Verified, PasswordError> {
    let stored = PasswordHash::new(phc).map_err(|_| PasswordError::Stored)?;
    if stored.salt.is_none() || stored.hash.is_none() {
        return Err(PasswordError::Stored);
    }
    let made_with = Params::try_from(&stored).map_err(|_| PasswordError::Stored)?;
    let current = params()?;
    let cost = |params: &Params| (params.m_cost(), params.t_cost(), params.p_cost());
    let outdated = stored.algorithm != ARGON2ID_IDENT
        || stored.version != Some(u32::from(Version::V0x13))
        || stored.hash.as_ref().is_none_or(|hash| hash.len() != HASH_BYTES)
        || cost(&made_with) != cost(&current);
    // `verify_password` takes the parameters from the stored hash, not from `Argon2::default()`.
    match Argon2::default().verify_password(normalize(password).as_bytes(), &stored) {
        Ok(()) => Ok(Verified { ok: true, outdated }),
        Err(argon2::password_hash::Error::PasswordInvalid) => Ok(Verified { ok: false, outdated }),
        Err(argon2::password_hash::Error::OutOfMemory) => Err(PasswordError::Hashing),
        Err(_) => Err(PasswordError::Stored),
    }
}

/// Returns a PHC string with random bytes as the hash. A verification against it costs as much as any other, and no
/// matching password is known.
fn dummy(ids: &dyn IdGen) -> String {
    let (mut salt, mut hash) = ([0; SALT_BYTES], [0; HASH_BYTES]);
    ids.fill(&mut salt);
    ids.fill(&mut hash);
    let (salt, hash) = (STANDARD_NO_PAD.encode(salt), STANDARD_NO_PAD.encode(hash));
    format!("$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${salt}${hash}")
}

#[cfg(test)]
mod tests;
