//! Second factors: codes of an authenticator app (RFC 6238), and recovery codes.
//!
//! Every check is a decision on the locked row of the user ([`decide`]), so that no code is accepted twice. The store
//! has the secret of the app encrypted, and only hashes of the recovery codes.

use std::fmt;
use std::time::Duration;

use data_encoding::BASE32_NOPAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha1::Sha1;
use subtle::ConstantTimeEq as _;

use super::role::Role;
use super::token::TokenHash;
use crate::time::{IdGen, Timestamp};

/// The time for which a code of an app is shown, in seconds.
pub const STEP_SECONDS: u64 = 30;

/// The number of digits of a code of an app.
pub const DIGITS: usize = 6;

/// The number of recovery codes that a user gets.
pub const RECOVERY_CODES: usize = 10;

/// The number of wrong codes in a row after which the codes of a user are refused for [`PAUSE`]. The rate limits of
/// passwords alone would let many addresses together guess a code of six digits within days.
pub const MAX_FAILURES: u32 = 10;

/// The time for which the codes of a user are refused after too many wrong ones, and after each further one.
pub const PAUSE: Duration = Duration::from_mins(15);

/// The time within which a sign-in with a password is completed with a code.
pub const PENDING_LIFETIME: Duration = Duration::from_mins(5);

const SECRET_BYTES: usize = 20;

/// A recovery code has 80 random bits: 16 characters.
const RECOVERY_BYTES: usize = 10;

/// The secret that an authenticator app shares with this service. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct TotpSecret([u8; SECRET_BYTES]);

impl fmt::Debug for TotpSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TotpSecret(…)")
    }
}

impl TotpSecret {
    /// Generates a secret.
    #[must_use]
    pub fn generate(ids: &dyn IdGen) -> Self {
        let mut bytes = [0; SECRET_BYTES];
        ids.fill(&mut bytes);
        Self(bytes)
    }

    /// Returns the secret in the form that people enter into an app: 32 letters and digits.
    #[must_use]
    pub fn text(&self) -> String {
        BASE32_NOPAD.encode(&self.0)
    }

    /// Reads a secret in the form of [`TotpSecret::text`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        BASE32_NOPAD.decode(text.as_bytes()).ok()?.try_into().ok().map(Self)
    }

    /// Returns the code of a step (RFC 6238, 4; RFC 4226, 5.3).
    #[must_use]
    pub fn code(&self, step: u64) -> String {
        // A key of this length is always accepted.
        let Ok(mut mac) = Hmac::<Sha1>::new_from_slice(&self.0) else { return String::new() };
        mac.update(&step.to_be_bytes());
        let hash: [u8; 20] = mac.finalize().into_bytes().into();
        let offset = usize::from(hash[19] & 0xf);
        let number = hash[offset..offset + 4].iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        format!("{:0DIGITS$}", (number & 0x7fff_ffff) % 1_000_000)
    }

    /// Returns the steps around a time for which a code is valid: the current one, and the ones before and after it,
    /// because clocks differ and people type slowly.
    fn steps_of(&self, code: &str, at: Timestamp) -> impl Iterator<Item = u64> {
        let now = step(at);
        let matches = move |step: &u64| bool::from(self.code(*step).as_bytes().ct_eq(code.as_bytes()));
        (now.saturating_sub(1)..=now + 1).filter(matches)
    }

    /// Returns the step of a code that is valid at a time.
    #[must_use]
    pub fn step_of(&self, code: &str, at: Timestamp) -> Option<u64> {
        self.steps_of(&without_separators(code), at).next()
    }
}

/// Returns the number of a step: the count of [`STEP_SECONDS`] since 1970.
#[must_use]
pub fn step(at: Timestamp) -> u64 {
    u64::try_from(at.as_micros()).unwrap_or(0) / 1_000_000 / STEP_SECONDS
}

/// Returns a code as it was generated, without the spaces and hyphens that people add, in lower case.
fn without_separators(code: &str) -> String {
    code.chars().filter(|c| !c.is_whitespace() && *c != '-').flat_map(char::to_lowercase).collect()
}

/// Generates recovery codes, and returns them with their hashes. The codes are shown to the user once, and never
/// stored.
#[must_use]
pub fn new_recovery_codes(ids: &dyn IdGen) -> (Vec<String>, Vec<TokenHash>) {
    let code = |_| {
        let mut bytes = [0; RECOVERY_BYTES];
        ids.fill(&mut bytes);
        let letters = BASE32_NOPAD.encode(&bytes).to_lowercase();
        let groups: Vec<&str> = (0..letters.len()).step_by(4).filter_map(|at| letters.get(at..at + 4)).collect();
        (groups.join("-"), TokenHash::of(&letters))
    };
    (0..RECOVERY_CODES).map(code).unzip()
}

/// The second factor of a user.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondFactor {
    /// The secret of the app, encrypted.
    pub secret: String,
    /// The time of the set-up.
    pub since: Timestamp,
    /// The step of the last accepted code of the app. Codes of this step and earlier ones are refused.
    pub last_step: u64,
    /// The hashes of the recovery codes that were not used.
    pub recovery: Vec<TokenHash>,
    /// The number of wrong codes since the last right one.
    pub failures: u32,
    /// The time of the last wrong code since the last right one.
    pub failed_at: Option<Timestamp>,
}

impl fmt::Debug for SecondFactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("SecondFactor");
        debug.field("since", &self.since).field("last_step", &self.last_step).field("failures", &self.failures);
        debug.field("recovery", &self.recovery.len()).finish_non_exhaustive()
    }
}

/// The kind of a code that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// A code of the app.
    App,
    /// A recovery code, which is used up.
    Recovery,
}

/// The reason why a code was refused, as a text for the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CodeRefusal {
    /// The code is neither one of the app nor an unused recovery code.
    #[error(
        "the code is wrong, or it is a recovery code that was used before; check that the clock of your phone is right"
    )]
    Wrong,
    /// The code of the app was used before, or is older than one that was used.
    #[error("this code was used before; wait until your app shows the next one")]
    Used,
    /// There were too many wrong codes.
    #[error(
        "there were too many wrong codes; try again in {} minutes. If they were not yours, somebody knows your \
         password: ask an administrator for a link to set another one",
        minutes(*.0)
    )]
    TooMany(Duration),
}

fn minutes(wait: Duration) -> u64 {
    wait.as_secs().div_ceil(60)
}

impl SecondFactor {
    /// Checks a code at a time. Returns the second factor as it is after the attempt, which must be stored.
    pub fn check(&self, secret: &TotpSecret, code: &str, at: Timestamp) -> (Self, Result<Accepted, CodeRefusal>) {
        let mut after = self.clone();
        if let Some(failed_at) = self.failed_at.filter(|_| self.failures >= MAX_FAILURES) {
            let wait = (failed_at + PAUSE).since(at);
            if wait > Duration::ZERO {
                return (after, Err(CodeRefusal::TooMany(wait)));
            }
        }
        let code = without_separators(code);
        let outcome = if code.len() == DIGITS && code.bytes().all(|byte| byte.is_ascii_digit()) {
            let steps: Vec<u64> = secret.steps_of(&code, at).collect();
            match steps.iter().find(|step| **step > self.last_step) {
                Some(step) => {
                    after.last_step = *step;
                    Ok(Accepted::App)
                }
                None if steps.is_empty() => Err(CodeRefusal::Wrong),
                None => Err(CodeRefusal::Used),
            }
        } else {
            let hash = TokenHash::of(&code);
            let before = after.recovery.len();
            after.recovery.retain(|known| *known != hash);
            if after.recovery.len() < before { Ok(Accepted::Recovery) } else { Err(CodeRefusal::Wrong) }
        };
        match outcome {
            Ok(_) => (after.failures, after.failed_at) = (0, None),
            Err(_) => (after.failures, after.failed_at) = (self.failures.saturating_add(1), Some(at)),
        }
        (after, outcome)
    }
}

/// The users who must have a second factor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RequiredOf {
    /// No user must have one.
    #[default]
    Nobody,
    /// Administrators must have one.
    Administrators,
    /// Every user must have one.
    Everyone,
}

impl RequiredOf {
    /// Returns whether users with this role must have a second factor.
    #[must_use]
    pub fn concerns(self, role: Role) -> bool {
        match self {
            Self::Nobody => false,
            Self::Administrators => role == Role::Administrator,
            Self::Everyone => true,
        }
    }
}

#[cfg(test)]
mod tests;
