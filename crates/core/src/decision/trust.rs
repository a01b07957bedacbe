//! Decisions on trusts, whose keys end with their rules, and on the exchange of a token for a key.

use std::time::Duration;

use super::{Change, Row, resource};
use crate::audit::AuditEntry;
use crate::ids::{KeyId, TrustId};
use crate::key::ApiKey;
use crate::refusal::{Refusal, RefusalKind, ResourceKind};
use crate::resource::{Locked, Put, not_found};
use crate::time::Timestamp;
use crate::trust::{
    EXCHANGE_INTERVAL, EXCHANGES, MAX_LIVE_KEYS, MAX_LIVE_KEYS_OF_SUBJECT, TokenClaims, Trust, TrustSettings,
};
use crate::user::{Role, User};
use crate::version::{FIRST_VERSION, Precondition};

/// The exchange of a token for a key of a trust, which need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// The trust.
    pub trust: TrustId,
    /// The ID that the key of the token has or would get ([`crate::trust::Trust::key_of`]).
    pub key: KeyId,
    /// The name that the key has or would get, which has the subject of the token.
    pub name: String,
    /// The time at which keys are counted as live.
    pub at: Timestamp,
}

/// The locked rows of an [`Exchange`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockedExchange {
    /// The trust.
    pub trust: Option<Trust>,
    /// The owner of the trust.
    pub owner: Option<User>,
    /// The key of the token.
    pub key: Option<ApiKey>,
    /// The live keys of the trust, other than the key of the token.
    pub live: LiveKeys,
}

/// The number of live keys of a trust.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LiveKeys {
    /// The number of working keys of the trust.
    pub all: usize,
    /// The number of those for the same subject, which have the name of the [`Exchange`].
    pub of_subject: usize,
}

/// Changes the rules of a trust. Its keys are revoked, because a key has the rules of its time; a change of the name alone
/// leaves them.
///
/// # Errors
/// See [`Locked::change`].
pub fn change(
    locked: &Locked<Trust>,
    precondition: &Precondition,
    edit: impl FnOnce(&TrustSettings) -> TrustSettings,
    audit: AuditEntry,
) -> Result<Change, Refusal> {
    let edit = |known: &Trust| {
        let resource = Trust { settings: edit(&known.settings), ..known.clone() };
        Ok(Put { resource, secrets: () })
    };
    let (Some(put), Some(known)) = (locked.change(precondition, edit)?, &locked.current) else {
        return Ok(Change::nothing());
    };
    let settings = &put.resource.settings;
    let renamed = TrustSettings { name: settings.name.clone(), ..known.settings.clone() };
    let keeps_keys = renamed == *settings;
    let mut change = Change::new([Row::Put(put.into())], audit);
    if !keeps_keys {
        revoke_keys(&mut change, locked);
    }
    Ok(change)
}

/// Removes a trust, and revokes its keys. Removing it again changes nothing.
///
/// # Errors
/// See [`Locked::remove`].
pub fn remove(locked: &Locked<Trust>, precondition: &Precondition, audit: AuditEntry) -> Result<Change, Refusal> {
    let mut change = resource::remove(locked, precondition, audit)?;
    revoke_keys(&mut change, locked);
    Ok(change)
}

/// Adds the live keys of the trust to a change, as they are after they were revoked at its time.
fn revoke_keys(change: &mut Change, locked: &Locked<Trust>) {
    let Some(at) = change.audit.first().map(|entry| entry.at) else { return };
    let live = locked.related.iter().filter(|key| !key.has_ended(at));
    change.rows.extend(live.map(|key| Row::Key(key.revoked(at))));
}

/// Stores the key of a token, or gives it the secret and the expiration of `key`, so that a token has one key, however
/// often it is exchanged. `version` is the version of the trust whose rules the key has.
///
/// # Errors
/// Returns an error if the trust no longer accepts the token or has another version, if its owner lost the right to
/// create the key, if the key of the token was revoked, if the token was exchanged too often, or if too many keys of the
/// trust work.
pub fn exchange(
    state: &LockedExchange,
    token: &TokenClaims,
    version: u64,
    key: ApiKey,
    audit: AuditEntry,
) -> Result<Change, Refusal> {
    let trust = state.trust.as_ref().ok_or_else(not_found::<Trust>)?;
    Precondition::Version(vec![version]).check(ResourceKind::Trust, trust.version)?;
    if !trust.settings.accepts(token) {
        return Err(not_found::<Trust>());
    }
    let has_rights = match trust.owner {
        None => true,
        Some(owner) => state
            .owner
            .as_ref()
            .is_some_and(|user| user.id == owner && user.disabled_at.is_none() && user.role != Role::Viewer),
    };
    if !has_rights {
        return Err(Refusal::new(
            RefusalKind::Forbidden,
            ResourceKind::Trust,
            "the user who created this trust may no longer create keys; an administrator must create the trust again",
        ));
    }
    let is_live = state.key.as_ref().is_some_and(|known| !known.has_ended(audit.at));
    let key = match &state.key {
        None => ApiKey { version: FIRST_VERSION, ..key },
        Some(known) if known.revoked_at.is_some() => {
            return Err(Refusal::new(
                RefusalKind::Forbidden,
                ResourceKind::Token,
                "the key of this token was revoked; get a new token",
            ));
        }
        Some(known) => {
            check_repetition(known, audit.at)?;
            known.exchanged_again(&key)
        }
    };
    if !is_live {
        let LiveKeys { all, of_subject } = state.live;
        for (count, most, what) in
            [(all, MAX_LIVE_KEYS, "this trust"), (of_subject, MAX_LIVE_KEYS_OF_SUBJECT, "the subject of this token")]
        {
            if count >= most {
                let detail =
                    format!("{what} has {most} keys that work, which is the maximum; a key works for 15 minutes");
                return Err(Refusal::new(RefusalKind::TooOften(EXCHANGE_INTERVAL), ResourceKind::Token, detail));
            }
        }
    }
    let used = Row::TrustUsed { id: trust.id, at: audit.at };
    Ok(Change::new([Row::Key(key), used], audit))
}

/// Checks how often a token was exchanged, which the version of its key counts.
fn check_repetition(known: &ApiKey, now: Timestamp) -> Result<(), Refusal> {
    let elapsed = now.since(known.created_at);
    let intervals = elapsed.as_secs() / EXCHANGE_INTERVAL.as_secs();
    let over = (known.version + 1 - FIRST_VERSION + 1).saturating_sub(EXCHANGES + intervals);
    if over == 0 {
        return Ok(());
    }
    let next = (intervals + over) * EXCHANGE_INTERVAL.as_secs();
    let wait = Duration::from_secs(next).saturating_sub(elapsed) + Duration::from_secs(1);
    let detail =
        format!("this token was exchanged too often; use the key that it gave, or try again in {} s", wait.as_secs());
    Err(Refusal::new(RefusalKind::TooOften(wait), ResourceKind::Token, detail))
}
