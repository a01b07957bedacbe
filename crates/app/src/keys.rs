//! Use cases about keys. An administrator manages all keys. A member manages the keys that this member created, which
//! are limited to named projects.

use std::sync::Arc;
use std::time::Duration;

use journeyman_core::decision::key::KeyToChange;
use journeyman_core::decision::{self, Once};
use journeyman_core::ids::KeyId;
use journeyman_core::key::{ApiKey, KeyHash, KeyOrigin, MAX_OVERLAP, NewKey, NewSecret, Scope};
use journeyman_core::ports::{AdminError, Administered, StoreError};
use journeyman_core::refusal::ResourceKind;
use journeyman_core::user::Role;
use journeyman_core::version::Precondition;

use crate::{Actor, Answered, Caller, Error, Idempotency, RefusalKind, UseCases, claim};

/// A new key, and its secret, which is not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedKey {
    /// The key.
    pub key: ApiKey,
    /// The secret.
    pub secret: String,
}

impl UseCases {
    /// Returns the keys that the caller manages, newest first, without those that were exchanged for tokens.
    ///
    /// # Errors
    /// The caller manages no keys, or the store failed.
    pub async fn keys(&self, caller: &Caller) -> Result<Vec<ApiKey>, Error> {
        needs_key_manager(caller)?;
        let mut keys = self.parts().store.keys().await?;
        keys.retain(|key| key.origin() == KeyOrigin::Created && manages(caller, key));
        Ok(keys)
    }

    /// Returns the keys of this origin after the key `after`, newest first, at most `limit`.
    ///
    /// # Errors
    /// The caller is not an administrator, or the store failed.
    pub async fn keys_after(
        &self,
        caller: &Caller,
        origin: KeyOrigin,
        after: Option<KeyId>,
        limit: usize,
    ) -> Result<Vec<ApiKey>, Error> {
        caller.needs_administrator_to_read()?;
        Ok(self.parts().store.keys_after(origin, after, limit).await?)
    }

    /// Returns a key that the caller manages.
    ///
    /// # Errors
    /// The caller manages no such key, or the store failed.
    pub async fn key(&self, caller: &Caller, id: KeyId) -> Result<ApiKey, Error> {
        needs_key_manager(caller)?;
        let found = self.parts().store.key(id).await?.filter(|key| manages(caller, key));
        found.ok_or_else(|| Error::refused(RefusalKind::KeyNotFound, "there is no such key"))
    }

    /// Returns the key with this hash from a cache. The result may be up to a second old.
    ///
    /// # Errors
    /// The store failed.
    pub async fn known_key(&self, hash: KeyHash) -> Result<Option<Arc<ApiKey>>, StoreError> {
        self.known().key(&*self.parts().store, hash, self.parts().engine.now()).await
    }

    /// Creates a key. `answer` renders the answer that is stored, encrypted, for the idempotency key.
    ///
    /// # Errors
    /// The caller may not create such a key, as a key that would allow more than the caller's own; a choice is not valid; or
    /// the store failed.
    pub async fn create_key(
        &self,
        caller: &Caller,
        new: NewKey,
        idempotency: Option<Idempotency>,
        answer: impl FnOnce(&CreatedKey) -> String,
    ) -> Result<Answered<CreatedKey>, Error> {
        caller.needs(Scope::Write)?;
        needs_key_manager(caller)?;
        self.confirm(caller).await?;
        if !caller.is_administrator() && new.projects.is_none() {
            let text = "projects: name the key's projects; only an administrator may create a key for all projects";
            return Err(Error::refused(RefusalKind::NotAdministrator, text));
        }
        if let Actor::Key(parent) = &caller.actor
            && let Some(text) = new.beyond(parent)
        {
            return Err(Error::refused(RefusalKind::NotAdministrator, text));
        }
        let claim = claim(caller, None, idempotency);
        if let Some(answer) = self.replay(claim.as_ref()).await? {
            return Ok(Answered::Replayed(answer));
        }
        for project in new.projects.iter().flatten() {
            if self.parts().store.project(project.clone()).await?.is_none() {
                let text = format!("projects: there is no project {project}; GET /v2/projects lists the projects");
                return Err(Error::refused(RefusalKind::ProjectNotFound, text));
            }
        }
        let made = new.make((&caller.id(), caller.owner()), self.parts().engine.now(), &*self.parts().ids);
        let (key, secret) = made.map_err(|error| Error::invalid(error.to_string()))?;
        let created = CreatedKey { key, secret };
        let audit = self.audit(caller, "key.created", created.key.id);
        let once = claim.map(|claim| Once { claim, answer: answer(&created) });
        let key = created.key.clone();
        let decide = move |_: &_| Ok(decision::key::create(key.clone(), audit.clone()));
        match self.administer(KeyToChange(created.key.id), once, decide).await? {
            Administered::Replayed(answer) => Ok(Answered::Replayed(answer)),
            Administered::Done(_) => Ok(Answered::New(created)),
        }
    }

    /// Gives a key a new secret. The old one may be used for `overlap`. `answer` renders the answer that is stored,
    /// encrypted, for the idempotency key.
    ///
    /// # Errors
    /// The key does not exist, is not the caller's, allows more than the caller's own key, or has ended; it has another
    /// version; `overlap` is too long; or the store failed.
    pub async fn rotate_key(
        &self,
        caller: &Caller,
        id: KeyId,
        overlap: Duration,
        precondition: Precondition,
        idempotency: Option<Idempotency>,
        answer: impl Fn(&CreatedKey) -> String,
    ) -> Result<Answered<CreatedKey>, Error> {
        caller.needs(Scope::Write)?;
        needs_key_manager(caller)?;
        self.confirm(caller).await?;
        if overlap > MAX_OVERLAP {
            let text = format!("keepOldSeconds: must be from 0 to {}", MAX_OVERLAP.as_secs());
            return Err(Error::invalid(text));
        }
        let claim = claim(caller, None, idempotency);
        if let Some(answer) = self.replay(claim.as_ref()).await? {
            return Ok(Answered::Replayed(answer));
        }
        loop {
            let key = self.key(caller, id).await?;
            precondition.check(ResourceKind::Key, key.version).map_err(AdminError::Refused)?;
            if let Actor::Key(own) = &caller.actor
                && let Some(text) = key.beyond(own).filter(|_| own.id != id)
            {
                return Err(Error::refused(RefusalKind::NotAdministrator, text));
            }
            let (secret, audit) = (NewSecret::generate(&*self.parts().ids), self.audit(caller, "key.rotated", id));
            let created =
                CreatedKey { key: key.rotated(&secret, overlap, audit.at), secret: secret.clone().into_text() };
            let once = claim.clone().map(|claim| Once { claim, answer: answer(&created) });
            // The answer shows the key as it was read, so the change must be one of this version.
            let read = Precondition::Version(vec![key.version]);
            let decide = move |state: &_| decision::key::rotate(state, &secret, overlap, &read, audit.clone());
            match self.administer(KeyToChange(id), once, decide).await {
                Ok(Administered::Replayed(answer)) => return Ok(Answered::Replayed(answer)),
                Ok(Administered::Done(_)) => return Ok(Answered::New(created)),
                // Another request has changed the key meanwhile.
                Err(AdminError::Refused(refusal)) if refusal.is_version_mismatch() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Revokes a key and those that it has created. Revoking it again changes nothing.
    ///
    /// # Errors
    /// The key does not exist or is not the caller's, it has another version, or the store failed.
    pub async fn revoke_key(&self, caller: &Caller, id: KeyId, precondition: Precondition) -> Result<(), Error> {
        caller.needs(Scope::Write)?;
        needs_key_manager(caller)?;
        self.confirm(caller).await?;
        if !caller.is_administrator() {
            self.key(caller, id).await?;
        }
        let audit = self.audit(caller, "key.revoked", id);
        let decide = move |state: &_| decision::key::revoke(state, &precondition, audit.clone());
        self.administer(KeyToChange(id), None, decide).await?;
        self.revoke_descendants(caller, id).await
    }

    /// Revokes the keys that descend from a revoked one. They are refused already, and this shows it.
    async fn revoke_descendants(&self, caller: &Caller, id: KeyId) -> Result<(), Error> {
        let all = self.parts().store.keys().await?;
        let mut ended = vec![id];
        while let Some(parent) = ended.pop() {
            for child in all.iter().filter(|key| key.parent() == Some(parent)) {
                ended.push(child.id);
                let audit = self.audit(caller, "key.revoked", child.id);
                let revoke = move |state: &_| decision::key::revoke(state, &Precondition::None, audit.clone());
                self.administer(KeyToChange(child.id), None, revoke).await?;
            }
        }
        Ok(())
    }
}

fn manages(caller: &Caller, key: &ApiKey) -> bool {
    caller.is_administrator() || key.creator == Some(caller.id())
}

fn needs_key_manager(caller: &Caller) -> Result<(), Error> {
    match &caller.actor {
        Actor::User(user) if user.role == Role::Member => Ok(()),
        _ => caller.needs_administrator_to_read(),
    }
}
