//! A cache of API keys and projects, which almost every request needs.
//!
//! A change by this process clears the cache. A change by another process, such as the command line, takes effect here
//! within [`FRESH`]. Missing keys and projects are not cached, so a key is valid as soon as it exists.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use journeyman_core::ids::ProjectId;
use journeyman_core::key::{ApiKey, KeyHash};
use journeyman_core::ports::{Store, StoreError};
use journeyman_core::project::Project;
use journeyman_core::time::Timestamp;

/// The time for which a cached entry is used.
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
    /// Returns the key with this hash; `None` if there is none, or if a key that it descends from has ended.
    ///
    /// # Errors
    /// The store failed.
    pub async fn key(
        &self,
        store: &dyn Store,
        hash: KeyHash,
        now: Timestamp,
    ) -> Result<Option<Arc<ApiKey>>, StoreError> {
        let version = match self.keys.get(&hash, now) {
            Ok(key) => return Ok(Some(key)),
            Err(version) => version,
        };
        let Some(found) = store.key_by_hash(hash).await? else { return Ok(None) };
        if !is_alive(store, &found, now).await? {
            return Ok(None);
        }
        Ok(Some(self.keys.put(version, hash, found, now)))
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
        let version = match self.projects.get(&id, now) {
            Ok(project) => return Ok(Some(project)),
            Err(version) => version,
        };
        let found = store.project(id.clone()).await?;
        Ok(found.map(|project| self.projects.put(version, id, project, now)))
    }

    /// Removes all entries, after this process has changed a key or a project.
    pub fn forget(&self) {
        self.keys.clear();
        self.projects.clear();
    }
}

/// Returns whether the keys that a key descends from have not ended: a key ends with the one that has created it.
///
/// # Errors
/// The store failed.
pub(crate) async fn is_alive(store: &dyn Store, key: &ApiKey, now: Timestamp) -> Result<bool, StoreError> {
    let mut next = key.parent();
    // A key is created after its parent, so there is no circle.
    while let Some(parent) = next {
        match store.key(parent).await? {
            Some(parent) if !parent.has_ended(now) => next = parent.parent(),
            _ => return Ok(false),
        }
    }
    Ok(true)
}

#[derive(Debug)]
struct Cache<K, V>(Mutex<Entries<K, V>>);

#[derive(Debug)]
struct Entries<K, V> {
    /// The number of times that the cache was cleared. A value that was read before that is not stored after it.
    version: u64,
    values: HashMap<K, (Timestamp, Arc<V>)>,
}

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self(Mutex::new(Entries { version: 0, values: HashMap::new() }))
    }
}

impl<K: Hash + Eq, V> Cache<K, V> {
    fn entries(&self) -> MutexGuard<'_, Entries<K, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a value, or the version for [`Cache::put`] if there is none.
    fn get(&self, key: &K, now: Timestamp) -> Result<Arc<V>, u64> {
        let entries = self.entries();
        let Some((at, value)) = entries.values.get(key) else { return Err(entries.version) };
        // If the clock is set back, entries expire too.
        if *at <= now && now.since(*at) < FRESH { Ok(Arc::clone(value)) } else { Err(entries.version) }
    }

    /// Stores a value that was read from the database, unless the cache was cleared since `version` was returned.
    fn put(&self, version: u64, key: K, value: V, now: Timestamp) -> Arc<V> {
        let value = Arc::new(value);
        let mut entries = self.entries();
        if entries.version == version {
            if entries.values.len() >= MAX_ENTRIES {
                entries.values.clear();
            }
            entries.values.insert(key, (now, Arc::clone(&value)));
        }
        value
    }

    fn clear(&self) {
        let mut entries = self.entries();
        entries.version += 1;
        entries.values.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_used_for_a_second() {
        let cache = Cache::<u8, u8>::default();
        let now = Timestamp::from_micros(5_000_000);
        cache.put(0, 1, 7, now);
        assert_eq!(cache.get(&1, now + Duration::from_millis(999)).as_deref(), Ok(&7));
        assert_eq!(cache.get(&1, now + FRESH), Err(0));
        assert_eq!(cache.get(&1, now - FRESH), Err(0), "the clock was set back");
    }

    #[test]
    fn a_value_that_was_read_before_a_change_is_not_stored_after_it() {
        let (cache, now) = (Cache::<u8, u8>::default(), Timestamp::default());
        let Err(version) = cache.get(&1, now) else { unreachable!("the cache is empty") };
        cache.clear();
        assert_eq!(*cache.put(version, 1, 7, now), 7, "the request that read the value uses it");
        assert_eq!(cache.get(&1, now), Err(1));
    }

    #[test]
    fn the_number_of_entries_is_limited() {
        let cache = Cache::<usize, u8>::default();
        for key in 0..=MAX_ENTRIES {
            cache.put(0, key, 0, Timestamp::default());
        }
        assert_eq!(cache.entries().values.len(), 1);
    }
}
