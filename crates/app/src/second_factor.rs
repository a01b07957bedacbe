//! Use cases about second factors: sign-in and proof with a code, set-up, recovery codes, and removal by the user.
//! Administrators remove one with [`UseCases::change_user`].

use journeyman_core::audit::AuditEntry;
use journeyman_core::decision;
use journeyman_core::decision::second_factor::Attempt;
use journeyman_core::decision::user::UserToChange;
use journeyman_core::ids::UserId;
use journeyman_core::time::Timestamp;
use journeyman_core::user::second_factor::{Accepted, CodeRefusal, SecondFactor};
use journeyman_core::user::{PasswordHash, Session, TokenHash};

use crate::{Caller, Error, UseCases};

/// The outcome of a code.
type Outcome = Result<Accepted, CodeRefusal>;

impl UseCases {
    /// Starts a session of a user whose password was checked, if the code is right. The inner error says why it is not;
    /// the wrong code is counted.
    ///
    /// # Errors
    /// The password or the second factor has changed since it was read, the user may not sign in, or the store failed.
    pub async fn start_session_with_code(
        &self,
        session: Session,
        password: PasswordHash,
        attempt: Attempt,
        audit: AuditEntry,
    ) -> Result<Outcome, Error> {
        let user = session.user;
        self.attempt(user, audit, move |state, about| {
            decision::second_factor::start_session(state, session.clone(), &password, &attempt, about)
        })
        .await
    }

    /// Records that the caller, whose session this is, has entered the password and a code again, if the code is right.
    /// Returns the time of the proof. The inner error says why the code is not right; the wrong code is counted.
    ///
    /// # Errors
    /// The password or the second factor has changed since it was read, the user may not sign in, or the store failed.
    pub async fn prove_session_with_code(
        &self,
        caller: &Caller,
        id: UserId,
        session: TokenHash,
        password: PasswordHash,
        attempt: Attempt,
    ) -> Result<Result<Timestamp, CodeRefusal>, Error> {
        let audit = self.audit(caller, "", id);
        let at = audit.at;
        let outcome = self.attempt(id, audit, move |state, about| {
            decision::second_factor::prove_session(state, session, &password, &attempt, about)
        });
        Ok(outcome.await?.map(|_| at))
    }

    /// Gives the caller's user a second factor, and ends all sessions but `keep`.
    ///
    /// # Errors
    /// The user may not sign in, has no password, or has a second factor; or the store failed.
    pub async fn add_second_factor(
        &self,
        caller: &Caller,
        id: UserId,
        factor: SecondFactor,
        keep: TokenHash,
    ) -> Result<(), Error> {
        let audit = self.audit(caller, "user.second_factor.added", id);
        let decide = move |state: &_| decision::second_factor::add(state, factor.clone(), keep, audit.clone());
        self.change(UserToChange(id), decide).await.map(drop)
    }

    /// Replaces the recovery codes of the caller's user.
    ///
    /// # Errors
    /// The user may not sign in, or has no second factor; or the store failed.
    pub async fn replace_recovery_codes(
        &self,
        caller: &Caller,
        id: UserId,
        recovery: Vec<TokenHash>,
    ) -> Result<(), Error> {
        let audit = self.audit(caller, "user.second_factor.codes", id);
        let decide =
            move |state: &_| decision::second_factor::replace_recovery_codes(state, recovery.clone(), audit.clone());
        self.change(UserToChange(id), decide).await.map(drop)
    }

    /// Removes the second factor of the caller's user.
    ///
    /// # Errors
    /// The user may not sign in, or has no second factor; or the store failed.
    pub async fn remove_own_second_factor(&self, caller: &Caller, id: UserId) -> Result<(), Error> {
        let audit = self.audit(caller, "user.second_factor.removed", id);
        let decide = move |state: &_| decision::second_factor::remove(state, audit.clone());
        self.change(UserToChange(id), decide).await.map(drop)
    }
}
