//! Decisions on trusts, and on the exchange of a token for a key.

use std::time::Duration;

use crate::admin::{AdminChange, AdminRefusal, AdminRow, AdminState, LiveKeys, Precondition};
use crate::audit::AuditEntry;
use crate::key::ApiKey;
use crate::time::Timestamp;
use crate::trust::{
    EXCHANGE_INTERVAL, EXCHANGES, MAX_LIVE_KEYS, MAX_LIVE_KEYS_OF_SUBJECT, MAX_TRUSTS, TokenClaims, Trust,
    TrustSettings,
};
use crate::user::Role;
use crate::version::FIRST_VERSION;

/// Stores a new trust.
///
/// # Errors
/// Returns an error if a rule is not valid, another trust has the name, or there are too many.
pub fn create(state: &AdminState, trust: Trust, audit: AuditEntry) -> Result<AdminChange, AdminRefusal> {
    check(&trust.settings)?;
    if state.name_is_taken {
        return Err(AdminRefusal::TrustExists);
    }
    if state.trusts >= MAX_TRUSTS {
        return Err(AdminRefusal::TooManyTrusts);
    }
    let trust = Trust { version: FIRST_VERSION, ..trust };
    Ok(AdminChange::new([AdminRow::Trust(Box::new(trust))], audit))
}

/// Changes the rules of a trust. Its keys are revoked, because a key has the rules of its time; a change of the name alone
/// leaves them.
///
/// # Errors
/// Returns an error if the trust does not exist, has another version, a rule is not valid, or another trust has the name.
pub fn change(
    state: &AdminState,
    precondition: &Precondition,
    edit: impl FnOnce(&TrustSettings) -> TrustSettings,
    audit: AuditEntry,
) -> Result<AdminChange, AdminRefusal> {
    let known = state.trust.as_ref().ok_or(AdminRefusal::NoTrust)?;
    precondition.check(known.version)?;
    let settings = edit(&known.settings);
    check(&settings)?;
    if state.name_is_taken {
        return Err(AdminRefusal::TrustExists);
    }
    if settings == known.settings {
        return Ok(AdminChange::nothing());
    }
    let renamed = TrustSettings { name: settings.name.clone(), ..known.settings.clone() };
    let keeps_keys = renamed == settings;
    let changed = Trust { settings, version: known.version + 1, ..known.clone() };
    let mut rows = vec![AdminRow::Trust(Box::new(changed))];
    if !keeps_keys {
        rows.extend(revoked(state, audit.at));
    }
    Ok(AdminChange::new(rows, audit))
}

/// Removes a trust, and revokes its keys. Removing it again changes nothing.
///
/// # Errors
/// Returns an error if the trust never existed, or has another version.
pub fn remove(state: &AdminState, precondition: &Precondition, audit: AuditEntry) -> Result<AdminChange, AdminRefusal> {
    let Some(known) = &state.trust else {
        return if state.was_deleted { Ok(AdminChange::nothing()) } else { Err(AdminRefusal::NoTrust) };
    };
    precondition.check(known.version)?;
    let removed = AdminRow::TrustRemoved { id: known.id, at: audit.at };
    let rows: Vec<AdminRow> = [removed].into_iter().chain(revoked(state, audit.at)).collect();
    Ok(AdminChange::new(rows, audit))
}

/// Stores the key of a token, or gives it the secret and the expiration of `key`, so that a token has one key, however
/// often it is exchanged. `version` is the version of the trust whose rules the key has.
///
/// # Errors
/// Returns an error if the trust no longer accepts the token or has another version, if its owner lost the right to
/// create the key, if the key of the token was revoked, if the token was exchanged too often, or if too many keys of the
/// trust work.
pub fn exchange(
    state: &AdminState,
    token: &TokenClaims,
    version: u64,
    key: ApiKey,
    audit: AuditEntry,
) -> Result<AdminChange, AdminRefusal> {
    let trust = state.trust.as_ref().ok_or(AdminRefusal::NoTrust)?;
    Precondition::Version(vec![version]).check(trust.version)?;
    if !trust.settings.accepts(token) {
        return Err(AdminRefusal::NoTrust);
    }
    let has_rights = match trust.owner {
        None => true,
        Some(owner) => state
            .user
            .as_ref()
            .is_some_and(|user| user.id == owner && user.disabled_at.is_none() && user.role != Role::Viewer),
    };
    if !has_rights {
        return Err(AdminRefusal::TrustOwnerEnded);
    }
    let is_live = state.key.as_ref().is_some_and(|known| !known.has_ended(audit.at));
    let key = match &state.key {
        None => ApiKey { version: FIRST_VERSION, ..key },
        Some(known) if known.revoked_at.is_some() => return Err(AdminRefusal::TokenKeyRevoked),
        Some(known) => {
            check_repetition(known, audit.at)?;
            known.exchanged_again(&key)
        }
    };
    if !is_live {
        let LiveKeys { all, of_subject } = state.live_keys;
        for (count, most, what) in
            [(all, MAX_LIVE_KEYS, "this trust"), (of_subject, MAX_LIVE_KEYS_OF_SUBJECT, "the subject of this token")]
        {
            if count >= most {
                return Err(AdminRefusal::TooManyLiveKeys { what, most });
            }
        }
    }
    let used = AdminRow::TrustUsed { id: trust.id, at: audit.at };
    Ok(AdminChange::new([AdminRow::Key(key), used], audit))
}

/// Checks how often a token was exchanged, which the version of its key counts.
fn check_repetition(known: &ApiKey, now: Timestamp) -> Result<(), AdminRefusal> {
    let elapsed = now.since(known.created_at);
    let intervals = elapsed.as_secs() / EXCHANGE_INTERVAL.as_secs();
    let over = (known.version + 1 - FIRST_VERSION + 1).saturating_sub(EXCHANGES + intervals);
    if over == 0 {
        return Ok(());
    }
    let next = (intervals + over) * EXCHANGE_INTERVAL.as_secs();
    Err(AdminRefusal::ExchangedTooOften(Duration::from_secs(next).saturating_sub(elapsed) + Duration::from_secs(1)))
}

/// Returns the live keys of the trust as they are after they were revoked at this time.
fn revoked(state: &AdminState, at: Timestamp) -> impl Iterator<Item = AdminRow> + '_ {
    let live = state.keys.iter().filter(move |key| !key.has_ended(at));
    live.map(move |key| AdminRow::Key(key.revoked(at)))
}

fn check(settings: &TrustSettings) -> Result<(), AdminRefusal> {
    settings.check().map_err(|error| AdminRefusal::InvalidTrust(error.to_string()))
}
