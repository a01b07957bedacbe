//! Answers of code hosts that are used again for a short time.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use journeyman_core::ports::ForgeError;
use tokio::time::Instant;

/// The time for which an answer is used again.
const FRESH: Duration = Duration::from_secs(60);

/// The maximum number of answers. When a new one would exceed it, all others are removed.
const MOST: usize = 10_000;

/// Answers by what was asked.
pub(crate) struct Cache<K, V>(Mutex<HashMap<K, (V, Instant)>>);

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq, V: Clone> Cache<K, V> {
    /// Returns the answer from the cache, or asks for it. Errors are not cached.
    pub(crate) async fn get<F: Future<Output = Result<V, ForgeError>>>(
        &self,
        key: K,
        ask: impl FnOnce() -> F,
    ) -> Result<V, ForgeError> {
        self.get_within(FRESH, key, ask).await
    }

    /// Returns the answer from the cache if it is younger than `time`, or asks for it.
    pub(crate) async fn get_within<F: Future<Output = Result<V, ForgeError>>>(
        &self,
        time: Duration,
        key: K,
        ask: impl FnOnce() -> F,
    ) -> Result<V, ForgeError> {
        let known = self.entries().get(&key).filter(|(_, at)| at.elapsed() < time).map(|(value, _)| value.clone());
        if let Some(known) = known {
            return Ok(known);
        }
        let value = ask().await?;
        let mut entries = self.entries();
        if entries.len() >= MOST {
            entries.clear();
        }
        entries.insert(key, (value.clone(), Instant::now()));
        Ok(value)
    }

    /// Returns the answer from the cache, without asking.
    pub(crate) fn known(&self, key: &K) -> Option<V> {
        self.entries().get(key).filter(|(_, at)| at.elapsed() < FRESH).map(|(value, _)| value.clone())
    }

    /// Removes all answers.
    pub(crate) fn forget(&self) {
        self.entries().clear();
    }

    fn entries(&self) -> std::sync::MutexGuard<'_, HashMap<K, (V, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
