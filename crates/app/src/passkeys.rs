//! Use cases about passkeys: sign-in and proof with one, and their list, which only the user changes. Administrators
//! remove all with [`UseCases::change_user`].

use journeyman_core::audit::AuditEntry;
use journeyman_core::decision;
use journeyman_core::decision::passkey::Presented;
use journeyman_core::decision::user::UserToChange;
use journeyman_core::ids::UserId;
use journeyman_core::time::Timestamp;
use journeyman_core::user::passkey::{Challenge, Passkey, PasskeyRefusal};
use journeyman_core::user::{PasswordHash, Session, TokenHash};

use crate::{Caller, Error, UseCases};

/// The outcome of the use of a passkey.
type Outcome = Result<(), PasskeyRefusal>;

impl UseCases {
    /// Starts a session of a user with a passkey. `password` is the one that was checked before, if the passkey is a
    /// second factor. The inner error says why the passkey is refused, which has an audit entry.
    ///
    /// # Errors
    /// The user may not sign in, the password has changed since it was read, or the store failed.
    pub async fn start_session_with_passkey(
        &self,
        session: Session,
        password: Option<PasswordHash>,
        presented: Presented,
        audit: AuditEntry,
    ) -> Result<Outcome, Error> {
        let user = session.user;
        self.attempt(user, audit, move |state, about| {
            decision::passkey::start_session(state, session.clone(), password.as_ref(), &presented, about)
        })
        .await
    }

    /// Records that the caller, whose session this is, has presented a passkey. Returns the time of the proof. The inner
    /// error says why the passkey is refused, which has an audit entry.
    ///
    /// # Errors
    /// The user may not sign in, or the store failed.
    pub async fn prove_session_with_passkey(
        &self,
        caller: &Caller,
        id: UserId,
        session: TokenHash,
        presented: Presented,
    ) -> Result<Result<Timestamp, PasskeyRefusal>, Error> {
        let audit = self.audit(caller, "", id);
        let at = audit.at;
        let outcome = self.attempt(id, audit, move |state, about| {
            decision::passkey::prove_session(state, session, &presented, about)
        });
        Ok(outcome.await?.map(|()| at))
    }

    /// Gives the caller's user a passkey. If it is the first second factor, all sessions but `keep` end.
    ///
    /// # Errors
    /// The user may not sign in, has no password, or has too many passkeys; the passkey or the challenge was used
    /// before; or the store failed.
    pub async fn add_passkey(
        &self,
        caller: &Caller,
        id: UserId,
        passkey: Passkey,
        challenge: Challenge,
        keep: TokenHash,
    ) -> Result<(), Error> {
        let audit = self.audit(caller, "user.passkey.added", id);
        let decide = move |state: &_| decision::passkey::add(state, passkey.clone(), challenge, keep, audit.clone());
        self.change(UserToChange(id), decide).await.map(drop)
    }

    /// Gives a passkey of the caller's user, by its [`Passkey::id`], another name.
    ///
    /// # Errors
    /// The user may not sign in, or has no such passkey; or the store failed.
    pub async fn rename_passkey(
        &self,
        caller: &Caller,
        id: UserId,
        passkey: String,
        name: String,
    ) -> Result<(), Error> {
        let audit = self.audit(caller, "user.passkey.renamed", id);
        let decide = move |state: &_| decision::passkey::rename(state, &passkey, name.clone(), audit.clone());
        self.change(UserToChange(id), decide).await.map(drop)
    }

    /// Removes a passkey of the caller's user, by its [`Passkey::id`].
    ///
    /// # Errors
    /// The user may not sign in, or has no such passkey; or the store failed.
    pub async fn remove_passkey(&self, caller: &Caller, id: UserId, passkey: String) -> Result<(), Error> {
        let audit = self.audit(caller, "user.passkey.removed", id);
        let decide = move |state: &_| decision::passkey::remove(state, &passkey, audit.clone());
        self.change(UserToChange(id), decide).await.map(drop)
    }
}
