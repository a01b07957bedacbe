//! Use cases about users, their sessions, and their sign-in links.

use journeyman_core::admin::{AdminChange, Precondition, Subject};
use journeyman_core::ids::UserId;
use journeyman_core::ports::{Administered, AuditEntry, DecideAdmin};
use journeyman_core::user::decide::{self, PasswordChange};
use journeyman_core::user::{
    Identity, PasswordHash, Role, SETUP_LINK_LIFETIME, SIGN_IN_LINK_LIFETIME, Session, SignInLink, TokenHash, User,
    new_token, user_name,
};
use journeyman_core::version::FIRST_VERSION;

use crate::{Caller, Error, UseCases};

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
            created_at: now,
            signed_in_at: None,
            disabled_at: None,
            version: FIRST_VERSION,
        })
    }

    /// Adds a user without a password.
    ///
    /// # Errors
    /// The caller is not an administrator, the name is not valid or in use, or the store failed.
    pub async fn add_user(&self, caller: &Caller, name: &str, role: Role) -> Result<User, Error> {
        caller.needs_administrator()?;
        self.confirm(caller).await?;
        let user = self.new_user(name, role, None)?;
        let audit = self.audit(caller, "user.created", user.id);
        self.store_user(user, audit).await
    }

    /// Stores a new user whom an identity provider has authenticated. The user is the actor of the audit entry.
    ///
    /// # Errors
    /// The name or the identity is in use, or the store failed.
    pub async fn add_authenticated_user(&self, user: User, address: Option<std::net::IpAddr>) -> Result<User, Error> {
        let caller = Caller::user(std::sync::Arc::new(user.clone()), address);
        let audit = self.audit(&caller, "user.created", user.id);
        self.store_user(user, audit).await
    }

    async fn store_user(&self, user: User, audit: AuditEntry) -> Result<User, Error> {
        let subject = Subject::NewUser(user.name.clone(), user.identity.clone());
        let new = user.clone();
        self.change(subject, Box::new(move |state| decide::create(state, new.clone(), audit.clone()))).await?;
        Ok(user)
    }

    /// Gives a user another role.
    ///
    /// # Errors
    /// The caller is not an administrator; the user does not exist, has another version, or is the last administrator;
    /// or the store failed.
    pub async fn set_role(
        &self,
        caller: &Caller,
        id: UserId,
        precondition: Precondition,
        role: Role,
    ) -> Result<(), Error> {
        caller.needs_administrator()?;
        self.confirm(caller).await?;
        let audit = self.audit(caller, &format!("user.role.{}", role.name()), id);
        let decide: DecideAdmin = Box::new(move |state| decide::set_role(state, &precondition, role, audit.clone()));
        self.change(Subject::User(id), decide).await.map(drop)
    }

    /// Disables or enables a user.
    ///
    /// # Errors
    /// Fails like [`UseCases::set_role`].
    pub async fn set_disabled(
        &self,
        caller: &Caller,
        id: UserId,
        precondition: Precondition,
        disabled: bool,
    ) -> Result<(), Error> {
        caller.needs_administrator()?;
        self.confirm(caller).await?;
        let action = if disabled { "user.disabled" } else { "user.enabled" };
        let audit = self.audit(caller, action, id);
        let decide: DecideAdmin =
            Box::new(move |state| decide::set_disabled(state, &precondition, disabled, audit.clone()));
        self.change(Subject::User(id), decide).await.map(drop)
    }

    /// Creates a link with which a user sets a password once, and returns its token. Without a user, the link creates
    /// the first administrator.
    ///
    /// # Errors
    /// The caller is not an administrator, the user does not exist or is disabled, or the store failed.
    pub async fn create_link(&self, caller: &Caller, user: Option<UserId>) -> Result<String, Error> {
        caller.needs_administrator()?;
        self.confirm(caller).await?;
        let (token, hash) = new_token(&*self.parts().ids);
        let lifetime = if user.is_some() { SIGN_IN_LINK_LIFETIME } else { SETUP_LINK_LIFETIME };
        let link = SignInLink { hash, user, expires_at: self.parts().engine.now() + lifetime };
        let subject = user.map_or_else(|| "the first administrator".to_owned(), |user| user.to_string());
        let audit = self.audit(caller, "user.link", subject);
        let subject = user.map_or_else(|| Subject::Link(hash, String::new()), Subject::User);
        self.change(subject, Box::new(move |state| decide::create_link(state, link.clone(), audit.clone()))).await?;
        Ok(token)
    }

    /// Sets a password with a link, and returns the user.
    ///
    /// # Errors
    /// The link is not valid or no longer valid, the name is in use, or the store failed.
    pub async fn use_link(&self, new: NewPassword, address: Option<std::net::IpAddr>) -> Result<User, Error> {
        let NewPassword { link, user, is_first, password } = new;
        let user = User { password: Some(password), ..user };
        let caller = Caller::user(std::sync::Arc::new(user.clone()), address);
        let action = if is_first { "user.created" } else { "user.password" };
        let audit = self.audit(&caller, action, user.id);
        let (subject, stored) = (Subject::Link(link, user.name.clone()), user.clone());
        self.change(subject, Box::new(move |state| decide::use_link(state, &stored, audit.clone()))).await?;
        Ok(user)
    }

    /// Changes the caller's own password.
    ///
    /// # Errors
    /// The password has changed since it was checked, the user may not sign in, or the store failed.
    pub async fn set_password(&self, caller: &Caller, id: UserId, change: PasswordChange) -> Result<(), Error> {
        let audit = self.audit(caller, "user.password", id);
        let decide: DecideAdmin = Box::new(move |state| decide::set_password(state, change.clone(), audit.clone()));
        self.change(Subject::User(id), decide).await.map(drop)
    }

    /// Connects the caller's user with an identity that the OpenID provider has proven.
    ///
    /// # Errors
    /// The user may not sign in or is already connected, another user has the identity, or the store failed.
    pub async fn connect_identity(&self, caller: &Caller, id: UserId, identity: Identity) -> Result<(), Error> {
        let audit = self.audit(caller, "user.identity.connected", id);
        let subject = Subject::UserIdentity(id, identity.clone());
        let decide: DecideAdmin =
            Box::new(move |state| decide::connect_identity(state, identity.clone(), audit.clone()));
        self.change(subject, decide).await.map(drop)
    }

    /// Removes the identity at the OpenID provider from the caller's user.
    ///
    /// # Errors
    /// The user may not sign in, is not connected, or has no password; or the store failed.
    pub async fn disconnect_identity(&self, caller: &Caller, id: UserId) -> Result<(), Error> {
        let audit = self.audit(caller, "user.identity.disconnected", id);
        let decide: DecideAdmin = Box::new(move |state| decide::disconnect_identity(state, audit.clone()));
        self.change(Subject::User(id), decide).await.map(drop)
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
        let decide: DecideAdmin =
            Box::new(move |state| decide::start_session(state, session.clone(), password.as_ref(), audit.clone()));
        self.change(Subject::User(user), decide).await.map(drop)
    }

    async fn change(&self, subject: Subject, decide: DecideAdmin) -> Result<AdminChange, Error> {
        match self.administer(subject, None, decide).await? {
            Administered::Done(change) => Ok(change),
            Administered::Replayed(_) => {
                Err(Error::Internal("a change without an idempotency key was replayed".to_owned()))
            }
        }
    }
}
