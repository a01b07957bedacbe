//! Use cases about users, their sessions, and their sign-in links.

use std::sync::{Arc, Mutex, PoisonError};

use journeyman_core::audit::AuditEntry;
use journeyman_core::decision::user::{
    LinkToUse, LockedLink, LockedUser, NewUser, PasswordChange, UserChanges, UserToChange, UserWithIdentity,
};
use journeyman_core::decision::{self, Change, Once, Subject};
use journeyman_core::ids::UserId;
use journeyman_core::ports::Administered;
use journeyman_core::refusal::{Refusal, ResourceKind};
use journeyman_core::time::Timestamp;
use journeyman_core::user::{
    Identity, PasswordHash, Role, SETUP_LINK_LIFETIME, SIGN_IN_LINK_LIFETIME, Session, SignInLink, TokenHash, User,
    new_token, user_name,
};
use journeyman_core::version::{FIRST_VERSION, Precondition};

use crate::{Answered, Caller, Error, Idempotency, UseCases, claim};

/// A link with which a user sets a password once. Only its creation shows it: the store has a hash of its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedLink {
    /// The URL of the page.
    pub url: String,
    /// The time from which the link is refused.
    pub expires_at: Timestamp,
}

/// A new user, and the link to set a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedUser {
    /// The user.
    pub user: User,
    /// The link.
    pub link: CreatedLink,
}

/// The password that a person sets with a sign-in link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPassword {
    /// The hash of the link's token.
    pub link: TokenHash,
    /// The user of the link; for the link of the first administrator, the new user.
    pub user: User,
    /// True for the link of the first administrator.
    pub is_first: bool,
    /// The hash of the password.
    pub password: PasswordHash,
}

impl UseCases {
    /// Returns a user who is not stored yet.
    ///
    /// # Errors
    /// The name is not valid.
    pub fn new_user(&self, name: &str, role: Role, identity: Option<Identity>) -> Result<User, Error> {
        let now = self.parts().engine.now();
        Ok(User {
            id: UserId::from_uuid(self.parts().ids.uuid(now)),
            name: user_name(name).map_err(|error| Error::invalid(error.to_string()))?,
            role,
            password: None,
            identity,
            second_factor: None,
            passkeys: Default::default(),
            created_at: now,
            signed_in_at: None,
            disabled_at: None,
            version: FIRST_VERSION,
        })
    }

    /// Returns all users, sorted by name.
    ///
    /// # Errors
    /// The caller is not an administrator, or the store failed.
    pub async fn users(&self, caller: &Caller) -> Result<Vec<User>, Error> {
        caller.needs_administrator_to_read()?;
        Ok(self.parts().store.users().await?)
    }

    /// Returns a user.
    ///
    /// # Errors
    /// The caller is not an administrator, the user does not exist, or the store failed.
    pub async fn user(&self, caller: &Caller, id: UserId) -> Result<User, Error> {
        caller.needs_administrator_to_read()?;
        self.parts().store.user(id).await?.ok_or_else(|| Error::Admin(Refusal::not_found(ResourceKind::User)))
    }

    /// Creates a user without a password, and a link to set one. `answer` renders the answer that is stored, encrypted,
    /// for the idempotency key.
    ///
    /// # Errors
    /// The caller is not an administrator, the name is not valid or in use, or the store failed.
    pub async fn create_user(
        &self,
        caller: &Caller,
        name: &str,
        role: Role,
        idempotency: Option<Idempotency>,
        answer: impl FnOnce(&CreatedUser) -> String,
    ) -> Result<Answered<CreatedUser>, Error> {
        caller.needs_unlimited_administrator()?;
        self.confirm(caller).await?;
        let claim = claim(caller, None, idempotency);
        if let Some(answer) = self.replay(claim.as_ref()).await? {
            return Ok(Answered::Replayed(answer));
        }
        let user = self.new_user(name, role, None)?;
        let (link, shown) = self.new_link(Some(user.id));
        let audits = ["user.created", "user.link"].map(|action| self.audit(caller, action, user.id));
        let created = CreatedUser { user, link: shown };
        let once = claim.map(|claim| Once { claim, answer: answer(&created) });
        let (subject, user) = (NewUser(created.user.name.clone(), None), created.user.clone());
        let decide = move |state: &_| {
            let [user_audit, link_audit] = audits.clone();
            decision::user::create_with_link(state, user.clone(), link.clone(), user_audit, link_audit)
        };
        match self.administer(subject, once, caller.within_expiry(|_| None, decide)).await? {
            Administered::Replayed(answer) => Ok(Answered::Replayed(answer)),
            Administered::Done(_) => Ok(Answered::New(created)),
        }
    }

    /// Stores a new user whom an identity provider has authenticated. The user is the actor of the audit entry.
    ///
    /// # Errors
    /// The name or the identity is in use, or the store failed.
    pub async fn add_authenticated_user(&self, user: User, address: Option<std::net::IpAddr>) -> Result<User, Error> {
        let caller = Caller::user(Arc::new(user.clone()), address);
        let audit = self.audit(&caller, "user.created", user.id);
        let subject = NewUser(user.name.clone(), user.identity.clone());
        let new = user.clone();
        self.change(subject, move |state: &_| decision::user::create(state, new.clone(), audit.clone())).await?;
        Ok(user)
    }

    /// Gives a user another role, disables or enables the user, and disconnects the user from the OpenID provider. Returns
    /// the user as changed.
    ///
    /// # Errors
    /// The caller is not an administrator; the user does not exist, has another version, is the last administrator, or
    /// could no longer sign in; or the store failed.
    pub async fn change_user(
        &self,
        caller: &Caller,
        id: UserId,
        precondition: Precondition,
        changes: UserChanges,
    ) -> Result<User, Error> {
        caller.needs_unlimited_administrator()?;
        self.confirm(caller).await?;
        let audit = self.audit(caller, "", id);
        let decide = move |state: &_| {
            let about = |action: &str| AuditEntry { action: action.to_owned(), ..audit.clone() };
            decision::user::change(state, &precondition, changes, about)
        };
        let changed = self.change(UserToChange(id), caller.within_expiry(user_of, decide)).await?.user().cloned();
        match changed {
            Some(user) => Ok(user),
            None => self.user(caller, id).await,
        }
    }

    /// Creates a link with which a user sets a password once, instead of the user's earlier links. `answer` renders the
    /// answer that is stored, encrypted, for the idempotency key.
    ///
    /// # Errors
    /// The caller is not an administrator, the user does not exist or is disabled, or the store failed.
    pub async fn create_link(
        &self,
        caller: &Caller,
        id: UserId,
        idempotency: Option<Idempotency>,
        answer: impl FnOnce(&CreatedLink) -> String,
    ) -> Result<Answered<CreatedLink>, Error> {
        caller.needs_unlimited_administrator()?;
        self.confirm(caller).await?;
        let claim = claim(caller, None, idempotency);
        if let Some(answer) = self.replay(claim.as_ref()).await? {
            return Ok(Answered::Replayed(answer));
        }
        let (link, created) = self.new_link(Some(id));
        let audit = self.audit(caller, "user.link", id);
        let once = claim.map(|claim| Once { claim, answer: answer(&created) });
        let decide = move |state: &_| decision::user::create_link(state, link.clone(), audit.clone());
        match self.administer(UserToChange(id), once, caller.within_expiry(user_of, decide)).await? {
            Administered::Replayed(answer) => Ok(Answered::Replayed(answer)),
            Administered::Done(_) => Ok(Answered::New(created)),
        }
    }

    /// Creates a link that makes the person who opens it the first administrator.
    ///
    /// # Errors
    /// The caller is not an administrator, there is an administrator who may sign in, or the store failed.
    pub async fn create_first_link(&self, caller: &Caller) -> Result<CreatedLink, Error> {
        caller.needs_unlimited_administrator()?;
        self.confirm(caller).await?;
        let (link, created) = self.new_link(None);
        let audit = self.audit(caller, "user.link", "the first administrator");
        let subject = LinkToUse(link.hash, String::new());
        let decide = move |state: &_| decision::user::create_first_link(state, link.clone(), audit.clone());
        self.change(subject, caller.within_expiry(|locked: &LockedLink| locked.user.as_ref(), decide)).await?;
        Ok(created)
    }

    /// Returns a link that is not stored yet: as the store has it, and as its user sees it. Without a user, it is for the
    /// first administrator.
    fn new_link(&self, user: Option<UserId>) -> (SignInLink, CreatedLink) {
        let (token, hash) = new_token(&*self.parts().ids);
        let lifetime = if user.is_some() { SIGN_IN_LINK_LIFETIME } else { SETUP_LINK_LIFETIME };
        let expires_at = self.parts().engine.now() + lifetime;
        let url = format!("{}/setup?link={token}", self.parts().public_url);
        (SignInLink { hash, user, expires_at }, CreatedLink { url, expires_at })
    }

    /// Sets a password with a link, and returns the user.
    ///
    /// # Errors
    /// The link is not valid or no longer valid, the name is in use, or the store failed.
    pub async fn use_link(&self, new: NewPassword, address: Option<std::net::IpAddr>) -> Result<User, Error> {
        let NewPassword { link, user, is_first, password } = new;
        let user = User { password: Some(password), ..user };
        let caller = Caller::user(Arc::new(user.clone()), address);
        let action = if is_first { "user.created" } else { "user.password" };
        let audit = self.audit(&caller, action, user.id);
        let (subject, stored) = (LinkToUse(link, user.name.clone()), user.clone());
        self.change(subject, move |state: &_| decision::user::use_link(state, &stored, audit.clone())).await?;
        Ok(user)
    }

    /// Changes the caller's own password.
    ///
    /// # Errors
    /// The password has changed since it was checked, the user may not sign in, or the store failed.
    pub async fn set_password(&self, caller: &Caller, id: UserId, change: PasswordChange) -> Result<(), Error> {
        let audit = self.audit(caller, "user.password", id);
        let decide = move |state: &_| decision::user::set_password(state, change.clone(), audit.clone());
        self.change(UserToChange(id), decide).await.map(drop)
    }

    /// Connects the caller's user with an identity that the OpenID provider has proven.
    ///
    /// # Errors
    /// The user may not sign in or is already connected, another user has the identity, or the store failed.
    pub async fn connect_identity(&self, caller: &Caller, id: UserId, identity: Identity) -> Result<(), Error> {
        let audit = self.audit(caller, "user.identity.connected", id);
        let subject = UserWithIdentity(id, identity.clone());
        let decide = move |state: &_| decision::user::connect_identity(state, identity.clone(), audit.clone());
        self.change(subject, decide).await.map(drop)
    }

    /// Removes the identity at the OpenID provider from the caller's user, and ends the other sessions.
    ///
    /// # Errors
    /// The user may not sign in, is not connected, or has no password; or the store failed.
    pub async fn disconnect_identity(&self, caller: &Caller, id: UserId, keep: TokenHash) -> Result<(), Error> {
        let audit = self.audit(caller, "user.identity.disconnected", id);
        let decide = move |state: &_| decision::user::disconnect_identity(state, keep, audit.clone());
        self.change(UserToChange(id), decide).await.map(drop)
    }

    /// Starts a session of a user whose password or identity was checked.
    ///
    /// # Errors
    /// The password has changed since it was checked, the user may not sign in, or the store failed.
    pub async fn start_session(
        &self,
        session: Session,
        password: Option<PasswordHash>,
        audit: AuditEntry,
    ) -> Result<(), Error> {
        let user = session.user;
        let decide =
            move |state: &_| decision::user::start_session(state, session.clone(), password.as_ref(), audit.clone());
        self.change(UserToChange(user), decide).await.map(drop)
    }

    /// Starts a session of a user whom the OpenID provider has authenticated as this identity.
    ///
    /// # Errors
    /// The user no longer has the identity or may not sign in, or the store failed.
    pub async fn start_session_by_provider(
        &self,
        session: Session,
        identity: Identity,
        audit: AuditEntry,
    ) -> Result<(), Error> {
        let user = session.user;
        let decide = move |state: &_| {
            decision::user::start_session_by_provider(state, session.clone(), &identity, audit.clone())
        };
        self.change(UserToChange(user), decide).await.map(drop)
    }

    /// Records that the caller, whose session this is, has entered the password again. Returns the time of the proof.
    ///
    /// # Errors
    /// The password has changed since it was checked, the user may not sign in, or the store failed.
    pub async fn prove_session(
        &self,
        caller: &Caller,
        id: UserId,
        session: TokenHash,
        password: PasswordHash,
    ) -> Result<Timestamp, Error> {
        let audit = self.audit(caller, "session.confirmed", id);
        let at = audit.at;
        let decide = move |state: &_| decision::user::prove_session(state, session, &password, audit.clone());
        self.change(UserToChange(id), decide).await.map(|_| at)
    }

    /// Records that the OpenID provider has authenticated the caller, whose session this is, again at the time `at`.
    ///
    /// # Errors
    /// The user no longer has the identity or may not sign in, or the store failed.
    pub async fn prove_session_by_provider(
        &self,
        caller: &Caller,
        id: UserId,
        session: TokenHash,
        identity: Identity,
        at: Timestamp,
    ) -> Result<(), Error> {
        let audit = self.audit(caller, "session.confirmed", id);
        let decide =
            move |state: &_| decision::user::prove_session_by_provider(state, session, &identity, at, audit.clone());
        self.change(UserToChange(id), decide).await.map(drop)
    }

    pub(crate) async fn change<S: Subject>(
        &self,
        subject: S,
        decide: impl FnMut(&S::Locked) -> Result<Change, Refusal> + Send + 'static,
    ) -> Result<Change, Error> {
        match self.administer(subject, None, decide).await? {
            Administered::Done(change) => Ok(change),
            Administered::Replayed(_) => {
                Err(Error::Internal("a change without an idempotency key was replayed".to_owned()))
            }
        }
    }

    /// Carries out the use of a second factor, which is stored also if it is refused. `decide` gets a function that returns
    /// the audit entry about an action. Returns the outcome in the decision that was stored.
    ///
    /// # Errors
    /// The user may not sign in, or the store failed.
    pub(crate) async fn attempt<T: Copy + Send + 'static>(
        &self,
        user: UserId,
        audit: AuditEntry,
        decide: impl Fn(&LockedUser, &dyn Fn(&str) -> AuditEntry) -> Result<(Change, T), Refusal> + Send + 'static,
    ) -> Result<T, Error> {
        // The decision may be repeated; the last one is stored.
        let outcome: Arc<Mutex<Option<T>>> = Arc::default();
        let last = Arc::clone(&outcome);
        let decide = move |state: &_| {
            let about = |action: &str| AuditEntry { action: action.to_owned(), ..audit.clone() };
            let (change, outcome) = decide(state, &about)?;
            *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            Ok(change)
        };
        self.change(UserToChange(user), decide).await?;
        let outcome = *outcome.lock().unwrap_or_else(PoisonError::into_inner);
        outcome.ok_or_else(|| Error::Internal("the use of a second factor was stored without a decision".to_owned()))
    }
}

fn user_of(locked: &LockedUser) -> Option<&User> {
    locked.user.as_ref()
}
