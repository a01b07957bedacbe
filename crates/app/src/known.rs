//! What every request asks for, kept for a moment: the key that it carries and the project that it names.
//!
//! What this process changes is forgotten at once; a change by another (a key that the command line revokes) is seen
//! after [`FRESH`] at the latest. That something is not there is not remembered: a key is good from the moment it is made.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use journeyman_core::ids::ProjectId;
use journeyman_core::key::{ApiKey, KeyHash};
use journeyman_core::ports::{Store, StoreError};
use journeyman_core::project::Project;
use journeyman_core::time::Timestamp;

/// How long an entry is believed.
pub(crate) const FRESH: Duration = Duration::from_secs(1);

/// Entries of each kind; beyond that all are forgotten.
const MOST: usize = 4096;

/// Keys and projects that were asked for a moment ago.
#[derive(Debug, Default)]
pub(crate) struct Known {
    keys: Cache<KeyHash, ApiKey>,
    projects: Cache<ProjectId, Project>,
}

impl Known {
    /// The key with that hash.
    pub(crate) async fn key(
        &self,
        store: &dyn Store,
        hash: KeyHash,
        now: Timestamp,
    ) -> Result<Option<Arc<ApiKey>>, StoreError> {
        if let Some(key) = self.keys.get(&hash, now) {
            return Ok(Some(key));
        }
        let found = store.key_by_hash(hash).await?;
        Ok(found.map(|key| self.keys.put(hash, key, now)))
    }

    /// The project with that id.
    pub(crate) async fn project(
        &self,
        store: &dyn Store,
        id: ProjectId,
        now: Timestamp,
    ) -> Result<Option<Arc<Project>>, StoreError> {
        if let Some(project) = self.projects.get(&id, now) {
            return Ok(Some(project));
        }
        let found = store.project(id.clone()).await?;
        Ok(found.map(|project| self.projects.put(id, project, now)))
    }

    /// A key or a project was changed here.
    pub(crate) fn forget(&self) {
        self.keys.entries().clear();
        self.projects.entries().clear();
    }
}

#[derive(Debug)]
struct Cache<K, V>(Mutex<HashMap<K, (Timestamp, Arc<V>)>>);

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq, V> Cache<K, V> {
    fn entries(&self) -> MutexGuard<'_, HashMap<K, (Timestamp, Arc<V>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, key: &K, now: Timestamp) -> Option<Arc<V>> {
        let entries = self.entries();
        let (at, value) = entries.get(key)?;
        // A clock that was set back makes no entry last.
        (*at <= now && now.since(*at) < FRESH).then(|| Arc::clone(value))
    }

    fn put(&self, key: K, value: V, now: Timestamp) -> Arc<V> {
        let value = Arc::new(value);
        let mut entries = self.entries();
        if entries.len() >= MOST {
            entries.clear();
        }
        entries.insert(key, (now, Arc::clone(&value)));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_believed_for_a_second() {
        let cache = Cache::<u8, u8>::default();
        let now = Timestamp::from_micros(5_000_000);
        cache.put(1, 7, now);
        assert_eq!(cache.get(&1, now + Duration::from_millis(999)).as_deref(), Some(&7));
        assert_eq!(cache.get(&1, now + FRESH), None);
        assert_eq!(cache.get(&1, now - FRESH), None, "the clock was set back");
    }

    #[test]
    fn there_are_never_too_many() {
        let cache = Cache::<usize, u8>::default();
        for key in 0..=MOST {
            cache.put(key, 0, Timestamp::default());
        }
        assert_eq!(cache.entries().len(), 1);
    }
}
