//! Decisions on passkeys. A refused use is a change too: it has an audit entry.

use super::user::{LockedUser, password_missing, user_changed};
use super::{Change, Row};
use crate::audit::AuditEntry;
use crate::refusal::{Refusal, RefusalKind, ResourceKind};
use crate::time::Timestamp;
use crate::user::passkey::{Assertion, Challenge, MAX_PASSKEYS, Passkey, PasskeyRefusal};
use crate::user::{PasswordHash, Session, SessionsToEnd, TokenHash, User};

/// What a browser has presented: a verified signature, or the reason why it was refused.
pub type Presented = Result<Assertion, PasskeyRefusal>;

/// The outcome of the use of a passkey, and the change that it makes.
pub type Attempted = (Change, Result<(), PasskeyRefusal>);

/// Starts a session of a user who has presented a passkey. `password` is the one that was entered before, if the passkey
/// is a second factor. `audit` returns the entry about an action.
///
/// # Errors
/// The user may not sign in, or the password was changed after it was checked.
pub fn start_session(
    state: &LockedUser,
    session: Session,
    password: Option<&PasswordHash>,
    presented: &Presented,
    audit: impl Fn(&str) -> AuditEntry,
) -> Result<Attempted, Refusal> {
    if password.is_some() && state.enabled()?.password.as_ref() != password {
        return Err(user_changed());
    }
    let started = audit("session.started");
    let (mut change, user) = match attempted(state, presented, &audit)? {
        Ok(found) => found,
        Err(refused) => return Ok(refused),
    };
    let user = User { signed_in_at: Some(session.created_at), ..user };
    change.rows = vec![Row::User(user), Row::Session(session)];
    change.audit.push(started);
    Ok((change, Ok(())))
}

/// Records that the user of a session has presented a passkey. `audit` returns the entry about an action.
///
/// # Errors
/// The user may not sign in.
pub fn prove_session(
    state: &LockedUser,
    hash: TokenHash,
    presented: &Presented,
    audit: impl Fn(&str) -> AuditEntry,
) -> Result<Attempted, Refusal> {
    let entry = audit("session.confirmed");
    let mut change = match attempted(state, presented, &audit)? {
        Ok((change, _)) => change,
        Err(refused) => return Ok(refused),
    };
    change.rows.push(Row::SessionProven { hash, at: entry.at });
    change.audit.push(entry);
    Ok((change, Ok(())))
}

/// Checks what was presented against the locked user. Returns the change of the passkey and the user after it, or the
/// refusal with its audit entry.
fn attempted(
    state: &LockedUser,
    presented: &Presented,
    audit: &impl Fn(&str) -> AuditEntry,
) -> Result<Result<(Change, User), Attempted>, Refusal> {
    let user = state.enabled()?;
    let refused = audit("session.passkey_refused");
    match presented.as_ref().map_err(|refusal| *refusal).and_then(|assertion| used(user, assertion, refused.at)) {
        Ok(changed) => Ok(Ok((Change { rows: vec![Row::User(changed.clone())], audit: Vec::new() }, changed))),
        Err(refusal) => Ok(Err((Change { rows: Vec::new(), audit: vec![refused] }, Err(refusal)))),
    }
}

/// Returns a user after the use of a passkey.
fn used(user: &User, assertion: &Assertion, at: Timestamp) -> Result<User, PasskeyRefusal> {
    let mut changed = user.clone();
    use_challenge(&mut changed, assertion.challenge, at)?;
    let is_it = |one: &&mut Passkey| one.credential == assertion.credential && one.key == assertion.key;
    let passkey = changed.passkeys.list.iter_mut().find(is_it).ok_or(PasskeyRefusal::Unknown)?;
    // An authenticator without a counter sends 0 each time.
    if (passkey.counter, assertion.counter) != (0, 0) && assertion.counter <= passkey.counter {
        return Err(PasskeyRefusal::CounterBack);
    }
    (passkey.counter, passkey.used_at) = (assertion.counter, Some(at));
    Ok(changed)
}

/// Uses up a challenge, and forgets those that have expired.
fn use_challenge(user: &mut User, challenge: Challenge, at: Timestamp) -> Result<(), PasskeyRefusal> {
    if challenge.until <= at {
        return Err(PasskeyRefusal::Expired);
    }
    let used = &mut user.passkeys.used;
    used.retain(|one| one.until > at);
    if used.iter().any(|one| one.hash == challenge.hash) {
        return Err(PasskeyRefusal::Used);
    }
    used.push(challenge);
    Ok(())
}

/// Gives a user a passkey. If it is the first second factor, all sessions but `keep` end: they began without one.
///
/// # Errors
/// The user may not sign in, has no password, or has too many passkeys; or the passkey or the challenge was used before.
pub fn add(
    state: &LockedUser,
    passkey: Passkey,
    challenge: Challenge,
    keep: TokenHash,
    audit: AuditEntry,
) -> Result<Change, Refusal> {
    let user = state.enabled()?;
    if user.password.is_none() {
        return Err(password_missing());
    }
    if user.passkeys.list.len() >= MAX_PASSKEYS {
        return Err(Refusal::new(
            RefusalKind::TooMany,
            ResourceKind::Passkey,
            format!("there are {MAX_PASSKEYS} passkeys already, which is the limit; remove one first"),
        ));
    }
    let mut changed = user.clone();
    let is_known = user.passkeys.list.iter().any(|one| one.credential == passkey.credential);
    if is_known || use_challenge(&mut changed, challenge, audit.at).is_err() {
        return Err(Refusal::new(RefusalKind::Exists, ResourceKind::Passkey, "this passkey was added before"));
    }
    changed.passkeys.list.push(passkey);
    changed.version += 1;
    let mut rows = vec![Row::User(changed)];
    if !user.has_second_factor() {
        rows.push(Row::SessionsEnded(SessionsToEnd::OthersOf(user.id, keep)));
    }
    Ok(Change::new(rows, audit))
}

/// Gives the passkey with an ID another name.
///
/// # Errors
/// The user may not sign in, or has no such passkey.
pub fn rename(state: &LockedUser, id: &str, name: String, audit: AuditEntry) -> Result<Change, Refusal> {
    let mut changed = state.enabled()?.clone();
    let passkey = changed.passkeys.list.iter_mut().find(|one| one.id() == id).ok_or_else(|| {
        Refusal::new(RefusalKind::NotFound, ResourceKind::Passkey, "there is no such passkey any more")
    })?;
    passkey.name = name;
    changed.version += 1;
    Ok(Change::new([Row::User(changed)], audit))
}

/// Removes the passkey with an ID, at the user's own request.
///
/// # Errors
/// The user may not sign in, or has no such passkey.
pub fn remove(state: &LockedUser, id: &str, audit: AuditEntry) -> Result<Change, Refusal> {
    let mut changed = state.enabled()?.clone();
    let before = changed.passkeys.list.len();
    changed.passkeys.list.retain(|one| one.id() != id);
    if changed.passkeys.list.len() == before {
        return Err(Refusal::new(RefusalKind::NotFound, ResourceKind::Passkey, "there is no such passkey any more"));
    }
    changed.version += 1;
    Ok(Change::new([Row::User(changed)], audit))
}
