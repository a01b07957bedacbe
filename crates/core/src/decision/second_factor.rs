//! Decisions on second factors. A wrong code is a change too: it is counted, and has an audit entry.

use std::fmt;

use super::user::{LockedUser, no_second_factor, password_missing, user_changed};
use super::{Change, Row};
use crate::audit::AuditEntry;
use crate::refusal::{Refusal, RefusalKind, ResourceKind};
use crate::user::second_factor::{Accepted, CodeRefusal, SecondFactor, TotpSecret};
use crate::user::{PasswordHash, Session, SessionsToEnd, TokenHash, User};

/// An attempt to use a second factor. `Debug` shows neither the secret nor the code.
#[derive(Clone)]
pub struct Attempt {
    /// The encrypted secret of the second factor.
    pub sealed: String,
    /// The decrypted secret.
    pub secret: TotpSecret,
    /// The code that the user has entered.
    pub code: String,
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").finish_non_exhaustive()
    }
}

/// The outcome of an attempt, and the change that it makes.
pub type Attempted = (Change, Result<Accepted, CodeRefusal>);

/// Starts a session of a user who has entered the password and a code. `audit` returns the entry about an action.
///
/// # Errors
/// The password or the second factor was changed after it was read, or the user may not sign in.
pub fn start_session(
    state: &LockedUser,
    session: Session,
    password: &PasswordHash,
    attempt: &Attempt,
    audit: impl Fn(&str) -> AuditEntry,
) -> Result<Attempted, Refusal> {
    let (mut change, user, outcome) = attempted(state, password, attempt, &audit)?;
    if outcome.is_ok() {
        change.rows = vec![Row::User(User { signed_in_at: Some(session.created_at), ..user }), Row::Session(session)];
        change.audit.push(audit("session.started"));
    }
    Ok((change, outcome))
}

/// Records that the user of a session has entered the password and a code again. `audit` returns the entry about an
/// action.
///
/// # Errors
/// The password or the second factor was changed after it was read, or the user may not sign in.
pub fn prove_session(
    state: &LockedUser,
    hash: TokenHash,
    password: &PasswordHash,
    attempt: &Attempt,
    audit: impl Fn(&str) -> AuditEntry,
) -> Result<Attempted, Refusal> {
    let (mut change, _, outcome) = attempted(state, password, attempt, &audit)?;
    if outcome.is_ok() {
        let entry = audit("session.confirmed");
        change.rows.push(Row::SessionProven { hash, at: entry.at });
        change.audit.push(entry);
    }
    Ok((change, outcome))
}

/// Checks the code of an attempt. Returns the change of the second factor, and the user after it.
fn attempted(
    state: &LockedUser,
    password: &PasswordHash,
    attempt: &Attempt,
    audit: &impl Fn(&str) -> AuditEntry,
) -> Result<(Change, User, Result<Accepted, CodeRefusal>), Refusal> {
    let user = state.enabled()?;
    if user.password.as_ref() != Some(password) {
        return Err(user_changed());
    }
    let factor = user.second_factor.as_ref().ok_or_else(no_second_factor)?;
    if factor.secret != attempt.sealed {
        return Err(user_changed());
    }
    let refused = audit("session.code_refused");
    let (after, outcome) = factor.check(&attempt.secret, &attempt.code, refused.at);
    let entries = match outcome {
        Ok(Accepted::App) => Vec::new(),
        Ok(Accepted::Recovery) => vec![audit("session.recovery_code")],
        Err(_) => vec![refused],
    };
    let changed = User { second_factor: Some(after), ..user.clone() };
    Ok((Change { rows: vec![Row::User(changed.clone())], audit: entries }, changed, outcome))
}

/// Gives a user a second factor, and ends all sessions of the user but `keep`: they began without one.
///
/// # Errors
/// The user may not sign in, has no password, or has a second factor.
pub fn add(state: &LockedUser, factor: SecondFactor, keep: TokenHash, audit: AuditEntry) -> Result<Change, Refusal> {
    let user = state.enabled()?;
    if user.second_factor.is_some() {
        return Err(Refusal::new(
            RefusalKind::Exists,
            ResourceKind::SecondFactor,
            "this user has a second factor already; remove it first",
        ));
    }
    if user.password.is_none() {
        return Err(password_missing());
    }
    let changed = User { second_factor: Some(factor), version: user.version + 1, ..user.clone() };
    let ended = Row::SessionsEnded(SessionsToEnd::OthersOf(user.id, keep));
    Ok(Change::new([Row::User(changed), ended], audit))
}

/// Replaces the recovery codes of a user.
///
/// # Errors
/// The user may not sign in, or has no second factor.
pub fn replace_recovery_codes(
    state: &LockedUser,
    recovery: Vec<TokenHash>,
    audit: AuditEntry,
) -> Result<Change, Refusal> {
    let user = state.enabled()?;
    let factor = user.second_factor.clone().ok_or_else(no_second_factor)?;
    let factor = Some(SecondFactor { recovery, ..factor });
    let changed = User { second_factor: factor, version: user.version + 1, ..user.clone() };
    Ok(Change::new([Row::User(changed)], audit))
}

/// Removes the second factor of a user, at the user's own request.
///
/// # Errors
/// The user may not sign in, or has no second factor.
pub fn remove(state: &LockedUser, audit: AuditEntry) -> Result<Change, Refusal> {
    let user = state.enabled()?;
    if user.second_factor.is_none() {
        return Err(no_second_factor());
    }
    let changed = User { second_factor: None, version: user.version + 1, ..user.clone() };
    Ok(Change::new([Row::User(changed)], audit))
}
