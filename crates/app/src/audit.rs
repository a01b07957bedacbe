//! The use case about the audit log.

use std::collections::HashMap;

use journeyman_core::ports::AuditLine;

use crate::{Caller, Error, RefusalKind, UseCases};

impl UseCases {
    /// Returns at most `limit` entries of the audit log, newest first. If `before` is given, returns only entries with a
    /// lower number.
    ///
    /// # Errors
    /// The caller is not an administrator, or the store failed.
    pub async fn audit_log(&self, caller: &Caller, before: Option<u64>, limit: usize) -> Result<Vec<AuditLine>, Error> {
        if !caller.is_administrator() {
            let text = "the audit log is about all projects; reading it requires a key for all projects";
            return Err(Error::refused(RefusalKind::NotAdministrator, text));
        }
        Ok(self.parts().store.audit(before, limit).await?)
    }

    /// Returns the names of users, keys and trusts by their IDs, which entries of the audit log have.
    ///
    /// # Errors
    /// The store failed.
    pub async fn names(&self) -> Result<HashMap<String, String>, Error> {
        let store = &self.parts().store;
        let users = store.users().await?.into_iter().map(|user| (user.id.to_string(), user.name));
        let keys = store.keys().await?.into_iter().map(|key| (key.id.to_string(), key.name));
        let trusts = store.trusts().await?.into_iter().map(|trust| (trust.id.to_string(), trust.settings.name));
        Ok(users.chain(keys).chain(trusts).collect())
    }
}
