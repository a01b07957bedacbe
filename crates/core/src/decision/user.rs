//! Decisions on users, their passwords, sessions and sign-in links.

use super::{Change, Row};
use crate::audit::AuditEntry;
use crate::ids::UserId;
use crate::key::ApiKey;
use crate::refusal::{Refusal, RefusalKind, ResourceKind};
use crate::time::Timestamp;
use crate::user::{Identity, PasswordHash, Role, Session, SessionsToEnd, SignInLink, TokenHash, User};
use crate::version::{FIRST_VERSION, Precondition};

/// A user with this ID, which need not exist. All decisions on users share one lock, because some rules concern all users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserToChange(pub UserId);

/// The locked rows of [`UserToChange`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockedUser {
    /// The user.
    pub user: Option<User>,
    /// The keys that act for the user, without revoked ones.
    pub keys: Vec<ApiKey>,
    /// `true` if there is an administrator who may sign in, other than the user.
    pub has_other_administrator: bool,
}

impl LockedUser {
    /// Returns the user if they may sign in.
    pub(super) fn enabled(&self) -> Result<&User, Refusal> {
        self.user.as_ref().filter(|user| user.disabled_at.is_none()).ok_or_else(user_changed)
    }
}

/// A user with this ID, which need not exist, and the identity that the user would get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserWithIdentity(pub UserId, pub Identity);

/// The locked rows of [`UserWithIdentity`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockedIdentity {
    /// The user.
    pub user: LockedUser,
    /// `true` if another user has the identity.
    pub is_taken: bool,
}

/// A new user with this name and identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewUser(pub String, pub Option<Identity>);

/// The locked rows of [`NewUser`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LockedNames {
    /// `true` if another user has the name or the identity.
    pub is_taken: bool,
}

/// A sign-in link and its user; or, for the link of the first administrator, a new user with this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkToUse(pub TokenHash, pub String);

/// The locked rows of [`LinkToUse`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockedLink {
    /// The link.
    pub link: Option<SignInLink>,
    /// The user of the link.
    pub user: Option<User>,
    /// `true` if another user has the name.
    pub name_is_taken: bool,
    /// `true` if there is an administrator who may sign in.
    pub has_administrator: bool,
}

/// Stores a new user.
///
/// # Errors
/// Returns an error if a user with the same name or identity exists.
pub fn create(state: &LockedNames, user: User, audit: AuditEntry) -> Result<Change, Refusal> {
    if state.is_taken {
        return Err(user_exists());
    }
    Ok(Change::new([Row::User(User { version: FIRST_VERSION, ..user })], audit))
}

/// Stores a new user with a link to set a password. `user_audit` is about the user, and `link_audit` about the link.
///
/// # Errors
/// Returns an error if a user with the same name or identity exists.
pub fn create_with_link(
    state: &LockedNames,
    user: User,
    link: SignInLink,
    user_audit: AuditEntry,
    link_audit: AuditEntry,
) -> Result<Change, Refusal> {
    let mut change = create(state, user, user_audit)?;
    change.rows.push(Row::Link(link));
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
    state: &LockedUser,
    precondition: &Precondition,
    changes: UserChanges,
    audit: impl Fn(&str) -> AuditEntry,
) -> Result<Change, Refusal> {
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
        Some(true) if !user.has_second_factor() => return Err(no_second_factor()),
        _ => {}
    }
    let Some(at) = entries.first().map(|entry| entry.at) else { return Ok(Change::nothing()) };
    let (role, is_disabled) = (changed.role, changed.disabled_at.is_some());
    keep_an_administrator(state, user, role == Role::Administrator && !is_disabled)?;
    changed.version += 1;
    let mut rows = vec![Row::User(changed)];
    if disabled == Some(true) || has_identity.is_some() {
        rows.push(Row::SessionsEnded(SessionsToEnd::AllOf(user.id)));
    }
    if disabled == Some(true) {
        rows.push(Row::LinksDeleted(user.id));
    }
    let exceeds = |key: &ApiKey| match role {
        Role::Administrator => false,
        Role::Member => key.projects.is_none(),
        Role::Viewer => true,
    };
    let ended = state.keys.iter().filter(|key| is_disabled || exceeds(key));
    rows.extend(ended.map(|key| Row::Key(key.revoked(at))));
    Ok(Change { rows, audit: entries })
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
pub fn set_password(state: &LockedUser, change: PasswordChange, audit: AuditEntry) -> Result<Change, Refusal> {
    let user = unchanged(state, change.from.as_ref())?;
    let rows = [
        Row::User(User { password: Some(change.to), version: user.version + 1, ..user.clone() }),
        Row::SessionsEnded(SessionsToEnd::OthersOf(user.id, change.keep)),
        Row::LinksDeleted(user.id),
    ];
    Ok(Change::new(rows, audit))
}

/// Connects a user with an identity at the OpenID provider, with which the user can then sign in too.
///
/// # Errors
/// The user may not sign in or is connected with an identity, or another user has the identity.
pub fn connect_identity(state: &LockedIdentity, identity: Identity, audit: AuditEntry) -> Result<Change, Refusal> {
    let user = state.user.enabled()?;
    if user.identity.is_some() {
        return Err(Refusal::new(
            RefusalKind::Used,
            ResourceKind::Identity,
            "your account is already connected with the provider; disconnect it first",
        ));
    }
    if state.is_taken {
        return Err(Refusal::new(
            RefusalKind::Exists,
            ResourceKind::Identity,
            "another user of this server is connected with this account of the provider; sign in there with another account",
        ));
    }
    let changed = User { identity: Some(identity), version: user.version + 1, ..user.clone() };
    Ok(Change::new([Row::User(changed)], audit))
}

/// Removes the identity of a user, who then signs in with a password only, and ends all sessions of the user but `keep`:
/// sessions do not record whether they began with the identity.
///
/// # Errors
/// The user may not sign in, has no identity, or has no password.
pub fn disconnect_identity(state: &LockedUser, keep: TokenHash, audit: AuditEntry) -> Result<Change, Refusal> {
    let user = state.enabled()?;
    let changed = User { identity: without_identity(user)?, version: user.version + 1, ..user.clone() };
    let ended = Row::SessionsEnded(SessionsToEnd::OthersOf(user.id, keep));
    Ok(Change::new([Row::User(changed), ended], audit))
}

/// Returns the identity of a user after a disconnection, which is none, if the user can still sign in then.
fn without_identity(user: &User) -> Result<Option<Identity>, Refusal> {
    match (&user.identity, &user.password) {
        (None, _) => Err(Refusal::new(
            RefusalKind::Missing,
            ResourceKind::Identity,
            "the user is not connected with the provider; only the user can connect an account there",
        )),
        (Some(_), None) => Err(password_missing()),
        (Some(_), Some(_)) => Ok(None),
    }
}

/// Starts a session of a user who has entered the password, and has no second factor.
///
/// # Errors
/// Returns an error if the password was changed after it was checked, if the user may not sign in, or if a code is needed
/// too.
pub fn start_session(
    state: &LockedUser,
    session: Session,
    password: Option<&PasswordHash>,
    audit: AuditEntry,
) -> Result<Change, Refusal> {
    let user = without_second_factor(unchanged(state, password)?)?;
    let signed_in = User { signed_in_at: Some(session.created_at), ..user.clone() };
    Ok(Change::new([Row::User(signed_in), Row::Session(session)], audit))
}

/// Starts a session of a user whom the OpenID provider has authenticated.
///
/// # Errors
/// Returns an error if the user may not sign in, or no longer has this identity.
pub fn start_session_by_provider(
    state: &LockedUser,
    session: Session,
    identity: &Identity,
    audit: AuditEntry,
) -> Result<Change, Refusal> {
    let user = with_identity(state, identity)?;
    let signed_in = User { signed_in_at: Some(session.created_at), ..user.clone() };
    Ok(Change::new([Row::User(signed_in), Row::Session(session)], audit))
}

/// Records that the user of a session, who has no second factor, has entered the password again.
///
/// # Errors
/// Returns an error if the password was changed after it was checked, if the user may not sign in, or if a code is needed
/// too.
pub fn prove_session(
    state: &LockedUser,
    hash: TokenHash,
    password: &PasswordHash,
    audit: AuditEntry,
) -> Result<Change, Refusal> {
    without_second_factor(unchanged(state, Some(password))?)?;
    Ok(Change::new([Row::SessionProven { hash, at: audit.at }], audit))
}

/// Records that the OpenID provider has authenticated the user of a session again, at the time `at`.
///
/// # Errors
/// Returns an error if the user may not sign in, or no longer has this identity.
pub fn prove_session_by_provider(
    state: &LockedUser,
    hash: TokenHash,
    identity: &Identity,
    at: Timestamp,
    audit: AuditEntry,
) -> Result<Change, Refusal> {
    with_identity(state, identity)?;
    Ok(Change::new([Row::SessionProven { hash, at }], audit))
}

/// Creates the link of the first administrator.
///
/// # Errors
/// There is an administrator already.
pub fn create_first_link(state: &LockedLink, link: SignInLink, audit: AuditEntry) -> Result<Change, Refusal> {
    if state.has_administrator {
        let detail = "there is already an administrator; name the user who needs a link";
        return Err(Refusal::new(RefusalKind::Exists, ResourceKind::Administrator, detail));
    }
    Ok(Change::new([Row::Link(link)], audit))
}

/// Creates a link of a user, which replaces the earlier links of the user.
///
/// # Errors
/// The user does not exist or may not sign in.
pub fn create_link(state: &LockedUser, link: SignInLink, audit: AuditEntry) -> Result<Change, Refusal> {
    let user = state.user.as_ref().ok_or_else(|| Refusal::not_found(ResourceKind::User))?;
    if user.disabled_at.is_some() {
        return Err(Refusal::new(
            RefusalKind::Disabled,
            ResourceKind::User,
            "the user is disabled; enable the user first",
        ));
    }
    Ok(Change::new([Row::LinksDeleted(user.id), Row::Link(link)], audit))
}

/// Uses a link to set a password; `user` has the new password. The link of an existing user changes only the password,
/// ends the user's sessions, and deletes the user's other links. The link of the first administrator stores `user` as a
/// new administrator.
///
/// # Errors
/// Returns an error if the link is not valid or no longer valid, or if the name is in use.
pub fn use_link(state: &LockedLink, user: &User, audit: AuditEntry) -> Result<Change, Refusal> {
    let link = state.link.as_ref().filter(|link| link.expires_at > audit.at).ok_or_else(link_ended)?;
    let used = Row::LinkDeleted(link.hash);
    if link.user.is_none() {
        if state.has_administrator {
            return Err(link_ended());
        }
        if state.name_is_taken {
            return Err(user_exists());
        }
        return Ok(Change::new([Row::User(User { version: FIRST_VERSION, ..user.clone() }), used], audit));
    }
    let owner = state.user.as_ref().filter(|owner| link.user == Some(owner.id) && owner.id == user.id);
    let owner = owner.filter(|owner| owner.disabled_at.is_none()).ok_or_else(link_ended)?;
    let rows = [
        Row::User(User { password: user.password.clone(), version: owner.version + 1, ..owner.clone() }),
        Row::SessionsEnded(SessionsToEnd::AllOf(owner.id)),
        Row::LinksDeleted(owner.id),
        used,
    ];
    Ok(Change::new(rows, audit))
}

/// Returns the refusal for a user who was changed since the caller has read them.
pub(super) fn user_changed() -> Refusal {
    let detail = "the user was disabled or the password was changed at the same time; try again";
    Refusal::new(RefusalKind::Changed, ResourceKind::User, detail)
}

/// Returns the refusal for a user without a password.
pub(super) fn password_missing() -> Refusal {
    let detail = "the user has no password, and could not sign in without the provider; an administrator can create a \
                  link with which the user sets a password";
    Refusal::new(RefusalKind::Missing, ResourceKind::Password, detail)
}

/// Returns the refusal for a user without a second factor.
pub(super) fn no_second_factor() -> Refusal {
    let detail = "this user has no second factor any more, or has none yet; only the user can set one up";
    Refusal::new(RefusalKind::Missing, ResourceKind::SecondFactor, detail)
}

fn user_exists() -> Refusal {
    Refusal::new(RefusalKind::Exists, ResourceKind::User, "a user with this name already exists")
}

fn link_ended() -> Refusal {
    let detail = "this link has already been used or is no longer valid";
    Refusal::new(RefusalKind::Ended, ResourceKind::Link, detail)
}

/// Returns whether a change gives somebody the rights of an administrator: a new or enabled administrator, or a link with
/// which one signs in. `before` is the user of the decision as it is.
#[must_use]
pub fn gives_administration(before: Option<&User>, change: &Change) -> bool {
    let is_active = |user: &User| user.role == Role::Administrator && user.disabled_at.is_none();
    let was_active = before.is_some_and(is_active);
    change.rows.iter().any(|row| match row {
        Row::User(user) => is_active(user) && !was_active,
        Row::Link(link) => link.user.is_none() || was_active,
        _ => false,
    })
}

fn found<'a>(state: &'a LockedUser, precondition: &Precondition) -> Result<&'a User, Refusal> {
    let user = state.user.as_ref().ok_or_else(|| Refusal::not_found(ResourceKind::User))?;
    precondition.check(ResourceKind::User, user.version)?;
    Ok(user)
}

/// Returns the user if they may sign in and the password is still `password`.
fn unchanged<'a>(state: &'a LockedUser, password: Option<&PasswordHash>) -> Result<&'a User, Refusal> {
    let user = state.enabled()?;
    if user.password.as_ref() == password { Ok(user) } else { Err(user_changed()) }
}

/// Returns the user if the password is enough to sign in.
fn without_second_factor(user: &User) -> Result<&User, Refusal> {
    if !user.has_second_factor() {
        Ok(user)
    } else {
        Err(Refusal::new(
            RefusalKind::Missing,
            ResourceKind::Code,
            "a code of the second factor is needed too; sign in again",
        ))
    }
}

/// Returns the user if they may sign in and still have this identity.
fn with_identity<'a>(state: &'a LockedUser, identity: &Identity) -> Result<&'a User, Refusal> {
    let user = state.enabled()?;
    if user.identity.as_ref() == Some(identity) { Ok(user) } else { Err(user_changed()) }
}

/// Checks that an administrator who may sign in remains after a change.
fn keep_an_administrator(state: &LockedUser, user: &User, stays: bool) -> Result<(), Refusal> {
    let is_administrator = user.role == Role::Administrator && user.disabled_at.is_none();
    if is_administrator && !stays && !state.has_other_administrator {
        return Err(Refusal::new(
            RefusalKind::Missing,
            ResourceKind::Administrator,
            "this is the last administrator; make another user an administrator first",
        ));
    }
    Ok(())
}
