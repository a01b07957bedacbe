//! Use cases about the master keys: which of them the stored secrets need, and their encryption with the current one.

use std::collections::BTreeMap;

use journeyman_core::ports::{SealedCensus, SealedKind, SealedPage};

use crate::{Caller, Error, RefusalKind, UseCases};

/// The number of values that are read at a time, and replaced in one transaction at most.
const AT_ONCE: usize = 100;

/// The maximum number of times that all tables are read. Another pass is needed if requests have changed values
/// meanwhile, or a machine still encrypts with another key.
const PASSES: usize = 5;

/// The result of a rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotated {
    /// The number of values of each kind that were encrypted with the current key.
    pub done: BTreeMap<SealedKind, u64>,
    /// The values afterward.
    pub census: SealedCensus,
}

impl UseCases {
    /// Counts all encrypted values by the master keys that decrypt them.
    ///
    /// # Errors
    /// The caller is not the command line, or the store failed.
    pub async fn sealed_values(&self, caller: &Caller) -> Result<SealedCensus, Error> {
        may_rotate(caller)?;
        Ok(self.parts().store.sealed(SealedKind::ALL.to_vec()).await?)
    }

    /// Encrypts with the current master key all values that another configured key has encrypted, in small transactions.
    /// Services may run meanwhile. If the call is interrupted, another one continues. In the end, if no value needs
    /// another configured key, the database requires the current key at the start of a service.
    ///
    /// # Errors
    /// The caller is not the command line, or the store failed. What was encrypted until then stays so.
    pub async fn rotate_master_key(&self, caller: &Caller) -> Result<Rotated, Error> {
        may_rotate(caller)?;
        let mut done: BTreeMap<SealedKind, u64> = SealedKind::ALL.into_iter().map(|kind| (kind, 0)).collect();
        let mut census = self.sealed_values(caller).await?;
        for _ in 0..PASSES {
            if census.with_other_keys() == 0 {
                break;
            }
            for kind in SealedKind::ALL {
                *done.entry(kind).or_default() += self.rotate_kind(caller, kind).await?;
            }
            census = self.sealed_values(caller).await?;
        }
        // The key that a service needs to start is replaced last: until then, no service starts without the key that
        // some values need.
        if census.with_other_keys() == 0 && census.required.as_ref() != Some(&census.current) {
            let entry = self.audit(caller, "key_encryption.required", "");
            self.parts().store.require_current_key(entry).await?;
            census = self.sealed_values(caller).await?;
        }
        Ok(Rotated { done, census })
    }

    async fn rotate_kind(&self, caller: &Caller, kind: SealedKind) -> Result<u64, Error> {
        let (mut after, mut done) = (None, 0);
        loop {
            let entry = self.audit(caller, "key_encryption.rotated", "");
            let page = SealedPage { kind, after, limit: AT_ONCE };
            let resealed = self.parts().store.reseal(page, entry).await?;
            done += resealed.done;
            match resealed.next {
                Some(next) => after = Some(next),
                None => return Ok(done),
            }
        }
    }
}

fn may_rotate(caller: &Caller) -> Result<(), Error> {
    if matches!(caller.actor, crate::Actor::CommandLine) {
        return Ok(());
    }
    let text = "master keys are rotated only with the command line, on a machine that has the keys";
    Err(Error::refused(RefusalKind::NotAdministrator, text))
}
