//! A cache of API keys and projects, which almost every request needs.
//!
//! A change by this process clears the cache; a change by another process (a key that the command line revokes) is seen
//! after [`FRESH`] at the latest. Missing keys and projects are not cached, so a key is valid as soon as it exists.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use journeyman_core::ids::ProjectId;
use journeyman_core::key::{ApiKey, KeyHash};
use journeyman_core::ports::{Store, StoreError};
use journeyman_core::project::Project;
use journeyman_core::time::Timestamp;

/// The time for which an entry is used.
pub const FRESH: Duration = Duration::from_secs(1);

/// The maximum number of entries of each kind. When a new entry would exceed it, all others are removed.
const MAX_ENTRIES: usize = 4096;

/// The keys and projects of recent requests.
#[derive(Debug, Default)]
pub struct Known {
    keys: Cache<KeyHash, ApiKey>,
    projects: Cache<ProjectId, Project>,
}

impl Known {
    /// Returns the key with this hash.
    ///
    /// # Errors
    /// The store failed.
    pub async fn key(
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

    /// Returns the project with this ID.
    ///
    /// # Errors
    /// The store failed.
    pub async fn project(
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

    /// Removes all entries, after this process has changed a key or a project.
    pub fn forget(&self) {
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
        // If the clock is set back, entries expire too.
        (*at <= now && now.since(*at) < FRESH).then(|| Arc::clone(value))
    }

    fn put(&self, key: K, value: V, now: Timestamp) -> Arc<V> {
        let value = Arc::new(value);
        let mut entries = self.entries();
        if entries.len() >= MAX_ENTRIES {
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
    fn an_entry_is_used_for_a_second() {
        let cache = Cache::<u8, u8>::default();
        let now = Timestamp::from_micros(5_000_000);
        cache.put(1, 7, now);
        assert_eq!(cache.get(&1, now + Duration::from_millis(999)).as_deref(), Some(&7));
        assert_eq!(cache.get(&1, now + FRESH), None);
        assert_eq!(cache.get(&1, now - FRESH), None, "the clock was set back");
    }

    #[test]
    fn the_number_of_entries_is_limited() {
        let cache = Cache::<usize, u8>::default();
        for key in 0..=MAX_ENTRIES {
            cache.put(key, 0, Timestamp::default());
        }
        assert_eq!(cache.entries().len(), 1);
    }
}
