//! Decisions on users, their passwords, sessions and sign-in links.

use crate::admin::{AdminChange, AdminRefusal, AdminRow, AdminState, Precondition};
use crate::audit::AuditEntry;
use crate::key::ApiKey;
use crate::time::Timestamp;
use crate::user::{Identity, PasswordHash, Role, Session, SessionsToEnd, SignInLink, TokenHash, User};
use crate::version::FIRST_VERSION;

/// Stores a new user.
///
/// # Errors
/// Returns an error if a user with the same name or identity exists.
pub fn create(state: &AdminState, user: User, audit: AuditEntry) -> Result<AdminChange, AdminRefusal> {
    if state.name_is_taken {
        return Err(AdminRefusal::UserExists);
    }
    Ok(AdminChange::new([AdminRow::User(User { version: FIRST_VERSION, ..user })], audit))
}

/// Stores a new user with a link to set a password. `user_audit` is about the user, and `link_audit` about the link.
///
/// # Errors
/// Returns an error if a user with the same name or identity exists.
pub fn create_with_link(
    state: &AdminState,
    user: User,
    link: SignInLink,
    user_audit: AuditEntry,
    link_audit: AuditEntry,
) -> Result<AdminChange, AdminRefusal> {
    let mut change = create(state, user, user_audit)?;
    change.rows.push(AdminRow::Link(link));
    change.audit.push(link_audit);
    Ok(change)
}

/// The changes of a user that an administrator makes. `None` keeps a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UserChanges {
    /// The new role.
    pub role: Option<Role>,
    /// `true` if the user may no longer sign in; `None` keeps the state.
    pub disabled: Option<bool>,
    /// `false` if the user may no longer sign in through the OpenID provider; `None` keeps the state.
    pub has_identity: Option<bool>,
    /// `false` if the user needs no second factor any more; `None` keeps the state.
    pub has_second_factor: Option<bool>,
}

/// Changes a user's role, disables or enables the user, disconnects the user from the OpenID provider, and removes the
/// second factor. `audit` returns the entry about an action. Values that the user already has change nothing.
///
/// Keys that exceed a new role are revoked: all keys of a viewer, and those keys of a member that are for all projects.
/// Disabling ends the user's sessions, deletes the links, and revokes the keys. Disconnecting ends the user's sessions.
///
/// # Errors
/// Returns an error if the user does not exist, has another version, or is the last administrator; or if the user is to
/// be connected or to get a second factor, which only the user can do, or disconnected without a password.
pub fn change(
    state: &AdminState,
    precondition: &Precondition,
    changes: UserChanges,
    audit: impl Fn(&str) -> AuditEntry,
) -> Result<AdminChange, AdminRefusal> {
    let user = found(state, precondition)?;
    let (mut changed, mut entries) = (user.clone(), Vec::new());
    if let Some(role) = changes.role.filter(|role| *role != user.role) {
        changed.role = role;
        entries.push(audit(&format!("user.role.{}", role.name())));
    }
    let disabled = changes.disabled.filter(|disabled| *disabled != user.disabled_at.is_some());
    if let Some(disabled) = disabled {
        let entry = audit(if disabled { "user.disabled" } else { "user.enabled" });
        changed.disabled_at = disabled.then_some(entry.at);
        entries.push(entry);
    }
    let has_identity = changes.has_identity.filter(|has_identity| *has_identity != user.identity.is_some());
    if has_identity.is_some() {
        changed.identity = without_identity(user)?;
        entries.push(audit("user.identity.disconnected"));
    }
    match changes.has_second_factor {
        Some(false) if user.has_second_factor() => {
            changed.second_factor = None;
            changed.passkeys.list.clear();
            entries.push(audit("user.second_factor.removed"));
        }
        Some(true) if !user.has_second_factor() => return Err(AdminRefusal::NoSecondFactor),
        _ => {}
    }
    let Some(at) = entries.first().map(|entry| entry.at) else { return Ok(AdminChange::nothing()) };
    let (role, is_disabled) = (changed.role, changed.disabled_at.is_some());
    keep_an_administrator(state, user, role == Role::Administrator && !is_disabled)?;
    changed.version += 1;
    let mut rows = vec![AdminRow::User(changed)];
    if disabled == Some(true) || has_identity.is_some() {
        rows.push(AdminRow::SessionsEnded(SessionsToEnd::AllOf(user.id)));
    }
    if disabled == Some(true) {
        rows.push(AdminRow::LinksDeleted(user.id));
    }
    let exceeds = |key: &ApiKey| match role {
        Role::Administrator => false,
        Role::Member => key.projects.is_none(),
        Role::Viewer => true,
    };
    let ended = state.keys.iter().filter(|key| is_disabled || exceeds(key));
    rows.extend(ended.map(|key| AdminRow::Key(key.revoked(at))));
    Ok(AdminChange { rows, audit: entries })
}

/// A change of a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasswordChange {
    /// The hash of the current password, which the user has entered correctly; `None` if the user has none.
    pub from: Option<PasswordHash>,
    /// The hash of the new password.
    pub to: PasswordHash,
    /// The session that continues; all other sessions end.
    pub keep: TokenHash,
}

/// Changes a password, deletes the user's links, and ends all sessions but one.
///
/// # Errors
/// Returns an error if the password was changed meanwhile, or if the user may not sign in.
pub fn set_password(
    state: &AdminState,
    change: PasswordChange,
    audit: AuditEntry,
) -> Result<AdminChange, AdminRefusal> {
    let user = unchanged(state, change.from.as_ref())?;
    let rows = [
        AdminRow::User(User { password: Some(change.to), version: user.version + 1, ..user.clone() }),
        AdminRow::SessionsEnded(SessionsToEnd::OthersOf(user.id, change.keep)),
        AdminRow::LinksDeleted(user.id),
    ];
    Ok(AdminChange::new(rows, audit))
}

/// Connects a user with an identity at the OpenID provider, with which the user can then sign in too.
///
/// # Errors
/// The user may not sign in or is connected with an identity, or another user has the identity.
pub fn connect_identity(
    state: &AdminState,
    identity: Identity,
    audit: AuditEntry,
) -> Result<AdminChange, AdminRefusal> {
    let user = state.user.as_ref().filter(|user| user.disabled_at.is_none()).ok_or(AdminRefusal::UserChanged)?;
    if user.identity.is_some() {
        return Err(AdminRefusal::IdentityConnected);
    }
    if state.name_is_taken {
        return Err(AdminRefusal::IdentityTaken);
    }
    let changed = User { identity: Some(identity), version: user.version + 1, ..user.clone() };
    Ok(AdminChange::new([AdminRow::User(changed)], audit))
}

/// Removes the identity of a user, who then signs in with a password only, and ends all sessions of the user but `keep`:
/// sessions do not record whether they began with the identity.
///
/// # Errors
/// The user may not sign in, has no identity, or has no password.
pub fn disconnect_identity(
    state: &AdminState,
    keep: TokenHash,
    audit: AuditEntry,
) -> Result<AdminChange, AdminRefusal> {
    let user = state.user.as_ref().filter(|user| user.disabled_at.is_none()).ok_or(AdminRefusal::UserChanged)?;
    let changed = User { identity: without_identity(user)?, version: user.version + 1, ..user.clone() };
    let ended = AdminRow::SessionsEnded(SessionsToEnd::OthersOf(user.id, keep));
    Ok(AdminChange::new([AdminRow::User(changed), ended], audit))
}

/// Returns the identity of a user after a disconnection, which is none, if the user can still sign in then.
fn without_identity(user: &User) -> Result<Option<Identity>, AdminRefusal> {
    match (&user.identity, &user.password) {
        (None, _) => Err(AdminRefusal::NoIdentity),
        (Some(_), None) => Err(AdminRefusal::PasswordMissing),
        (Some(_), Some(_)) => Ok(None),
    }
}

/// Starts a session of a user who has entered the password, and has no second factor.
///
/// # Errors
/// Returns an error if the password was changed after it was checked, if the user may not sign in, or if a code is needed
/// too.
pub fn start_session(
    state: &AdminState,
    session: Session,
    password: Option<&PasswordHash>,
    audit: AuditEntry,
) -> Result<AdminChange, AdminRefusal> {
    let user = without_second_factor(unchanged(state, password)?)?;
    let signed_in = User { signed_in_at: Some(session.created_at), ..user.clone() };
    Ok(AdminChange::new([AdminRow::User(signed_in), AdminRow::Session(session)], audit))
}

/// Starts a session of a user whom the OpenID provider has authenticated.
///
/// # Errors
/// Returns an error if the user may not sign in, or no longer has this identity.
pub fn start_session_by_provider(
    state: &AdminState,
    session: Session,
    identity: &Identity,
    audit: AuditEntry,
) -> Result<AdminChange, AdminRefusal> {
    let user = with_identity(state, identity)?;
    let signed_in = User { signed_in_at: Some(session.created_at), ..user.clone() };
    Ok(AdminChange::new([AdminRow::User(signed_in), AdminRow::Session(session)], audit))
}

/// Records that the user of a session, who has no second factor, has entered the password again.
///
/// # Errors
/// Returns an error if the password was changed after it was checked, if the user may not sign in, or if a code is needed
/// too.
pub fn prove_session(
    state: &AdminState,
    hash: TokenHash,
    password: &PasswordHash,
    audit: AuditEntry,
) -> Result<AdminChange, AdminRefusal> {
    without_second_factor(unchanged(state, Some(password))?)?;
    Ok(AdminChange::new([AdminRow::SessionProven { hash, at: audit.at }], audit))
}

/// Records that the OpenID provider has authenticated the user of a session again, at the time `at`.
///
/// # Errors
/// Returns an error if the user may not sign in, or no longer has this identity.
pub fn prove_session_by_provider(
    state: &AdminState,
    hash: TokenHash,
    identity: &Identity,
    at: Timestamp,
    audit: AuditEntry,
) -> Result<AdminChange, AdminRefusal> {
    with_identity(state, identity)?;
    Ok(AdminChange::new([AdminRow::SessionProven { hash, at }], audit))
}

/// Creates a link, which replaces the earlier links of its user.
///
/// # Errors
/// The user does not exist or may not sign in; or the link is for the first administrator, and there is one already.
pub fn create_link(state: &AdminState, link: SignInLink, audit: AuditEntry) -> Result<AdminChange, AdminRefusal> {
    let Some(id) = link.user else {
        return match state.has_other_administrator {
            true => Err(AdminRefusal::HasAdministrator),
            false => Ok(AdminChange::new([AdminRow::Link(link)], audit)),
        };
    };
    let user = state.user.as_ref().ok_or(AdminRefusal::NoUser)?;
    if user.disabled_at.is_some() {
        return Err(AdminRefusal::UserDisabled);
    }
    Ok(AdminChange::new([AdminRow::LinksDeleted(id), AdminRow::Link(link)], audit))
}

/// Uses a link to set a password; `user` has the new password. The link of an existing user changes only the password,
/// ends the user's sessions, and deletes the user's other links. The link of the first administrator stores `user` as a
/// new administrator.
///
/// # Errors
/// Returns an error if the link is not valid or no longer valid, or if the name is in use.
pub fn use_link(state: &AdminState, user: &User, audit: AuditEntry) -> Result<AdminChange, AdminRefusal> {
    let link = state.link.as_ref().filter(|link| link.expires_at > audit.at).ok_or(AdminRefusal::LinkExpired)?;
    let used = AdminRow::LinkDeleted(link.hash);
    if link.user.is_none() {
        if state.has_other_administrator {
            return Err(AdminRefusal::LinkExpired);
        }
        if state.name_is_taken {
            return Err(AdminRefusal::UserExists);
        }
        return Ok(AdminChange::new([AdminRow::User(User { version: FIRST_VERSION, ..user.clone() }), used], audit));
    }
    let owner = state.user.as_ref().filter(|owner| link.user == Some(owner.id) && owner.id == user.id);
    let owner = owner.filter(|owner| owner.disabled_at.is_none()).ok_or(AdminRefusal::LinkExpired)?;
    let rows = [
        AdminRow::User(User { password: user.password.clone(), version: owner.version + 1, ..owner.clone() }),
        AdminRow::SessionsEnded(SessionsToEnd::AllOf(owner.id)),
        AdminRow::LinksDeleted(owner.id),
        used,
    ];
    Ok(AdminChange::new(rows, audit))
}

/// Returns whether a change gives somebody the rights of an administrator: a new or enabled administrator, or a link with
/// which one signs in.
#[must_use]
pub fn gives_administration(state: &AdminState, change: &AdminChange) -> bool {
    let is_active = |user: &User| user.role == Role::Administrator && user.disabled_at.is_none();
    let was_active = state.user.as_ref().is_some_and(is_active);
    change.rows.iter().any(|row| match row {
        AdminRow::User(user) => is_active(user) && !was_active,
        AdminRow::Link(link) => link.user.is_none() || was_active,
        _ => false,
    })
}

fn found<'a>(state: &'a AdminState, precondition: &Precondition) -> Result<&'a User, AdminRefusal> {
    let user = state.user.as_ref().ok_or(AdminRefusal::NoUser)?;
    precondition.check(user.version)?;
    Ok(user)
}

/// Returns the user if they may sign in and the password is still `password`.
fn unchanged<'a>(state: &'a AdminState, password: Option<&PasswordHash>) -> Result<&'a User, AdminRefusal> {
    let user = state.user.as_ref().filter(|user| user.disabled_at.is_none() && user.password.as_ref() == password);
    user.ok_or(AdminRefusal::UserChanged)
}

/// Returns the user if the password is enough to sign in.
fn without_second_factor(user: &User) -> Result<&User, AdminRefusal> {
    if !user.has_second_factor() { Ok(user) } else { Err(AdminRefusal::CodeMissing) }
}

/// Returns the user if they may sign in and still have this identity.
fn with_identity<'a>(state: &'a AdminState, identity: &Identity) -> Result<&'a User, AdminRefusal> {
    let user = state.user.as_ref().filter(|user| user.disabled_at.is_none());
    user.filter(|user| user.identity.as_ref() == Some(identity)).ok_or(AdminRefusal::UserChanged)
}

/// Checks that an administrator who may sign in remains after a change.
fn keep_an_administrator(state: &AdminState, user: &User, stays: bool) -> Result<(), AdminRefusal> {
    let is_administrator = user.role == Role::Administrator && user.disabled_at.is_none();
    if is_administrator && !stays && !state.has_other_administrator {
        return Err(AdminRefusal::LastAdministrator);
    }
    Ok(())
}
