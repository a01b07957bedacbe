//! What the use cases about resources share.

use journeyman_core::audit::AuditEntry;
use journeyman_core::decision::{AnyKey, AnyPut, Once, Subject, resource};
use journeyman_core::ports::Administered;
use journeyman_core::resource::{Key, Locked, Put, Resource};
use journeyman_core::version::Precondition;

use crate::{Answered, Error, UseCases};

impl UseCases {
    /// Stores a new resource. Returns its version, or the answer of an earlier request with the same idempotency
    /// key.
    pub(crate) async fn create_resource<R: Resource>(
        &self,
        new: Put<R>,
        once: Option<Once>,
        audit: AuditEntry,
    ) -> Result<Answered<u64>, Error>
    where
        AnyPut: From<Put<R>>,
        Key<R>: Subject<Locked = Locked<R>>,
    {
        let key = new.resource.key();
        let decide = move |locked: &Locked<R>| resource::create(locked, new.clone(), audit.clone());
        match self.administer(key, once, decide).await? {
            Administered::Replayed(answer) => Ok(Answered::Replayed(answer)),
            Administered::Done(change) => Ok(Answered::New(change.put().map_or(0, AnyPut::version))),
        }
    }

    /// Changes a resource. `key` has the name that it would get.
    pub(crate) async fn change_resource<R: Resource>(
        &self,
        key: Key<R>,
        precondition: Precondition,
        edit: impl Fn(&R) -> Result<Put<R>, String> + Send + 'static,
        audit: AuditEntry,
    ) -> Result<(), Error>
    where
        AnyPut: From<Put<R>>,
        Key<R>: Subject<Locked = Locked<R>>,
    {
        let decide = move |locked: &Locked<R>| resource::change(locked, &precondition, &edit, audit.clone());
        self.administer(key, None, decide).await?;
        Ok(())
    }

    /// Removes a resource. Removing it again changes nothing.
    pub(crate) async fn remove_resource<R: Resource>(
        &self,
        key: Key<R>,
        precondition: Precondition,
        audit: AuditEntry,
    ) -> Result<(), Error>
    where
        AnyKey: From<Key<R>>,
        Key<R>: Subject<Locked = Locked<R>>,
    {
        let decide = move |locked: &Locked<R>| resource::remove(locked, &precondition, audit.clone());
        self.administer(key, None, decide).await?;
        Ok(())
    }
}
