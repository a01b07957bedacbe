//! Tokens of sessions, sign-in links and codes.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::time::IdGen;

/// The SHA-256 of the token of a session or sign-in link, or of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TokenHash(pub [u8; 32]);

impl TokenHash {
    /// Computes the hash of a token.
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Returns the first bytes as text, to distinguish sessions. They reveal nothing about the token.
    #[must_use]
    pub fn short(&self) -> String {
        hexadecimal(&self.0[..8])
    }
}

/// Generates a token of 64 characters, and returns it with its hash. The token is given to its user once, and never
/// stored.
#[must_use]
pub fn new_token(ids: &dyn IdGen) -> (String, TokenHash) {
    let mut bytes = [0; 32];
    ids.fill(&mut bytes);
    let token = hexadecimal(&bytes);
    let hash = TokenHash::of(&token);
    (token, hash)
}

/// Returns whether a text has the form of a token of [`new_token`].
#[must_use]
pub fn is_token(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
