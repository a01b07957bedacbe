//! The data of open pages, as their streams need it. Streams of the same page share it, so that many open pages cause no
//! more reads than one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use journeyman_core::ports::StoreError;
use tokio::sync::watch;

/// The digests of the pages that are open.
#[derive(Default)]
pub(crate) struct Digests(Mutex<HashMap<String, Weak<Latest>>>);

/// The latest digest of a page. It is removed with the last stream of the page.
#[derive(Default)]
pub(crate) struct Latest {
    latest: tokio::sync::Mutex<NumberedState>,
    /// The number of changes that this process has made. Wakes the streams of the page.
    changes: watch::Sender<u64>,
}

/// The data that the streams of a page compare and send.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PageState {
    /// The digest of the data on the page. If it has changed, the page is loaded again.
    pub(crate) digest: String,
    /// The parts of the page that are updated in place. If only their digest has changed, their updates are sent.
    pub(crate) parts: Parts,
}

/// Parts of a page that its stream updates in place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    /// The digest of the data that they show.
    pub(crate) digest: String,
    /// The Turbo streams that update them.
    pub(crate) updates: String,
}

impl From<String> for PageState {
    fn from(digest: String) -> Self {
        Self { digest, ..Self::default() }
    }
}

/// The last state of a page that was read.
#[derive(Clone, Default)]
pub(crate) struct NumberedState {
    /// The number of states that were read so far.
    pub(crate) number: u64,
    /// The number of changes by this process before it was read.
    changes: u64,
    pub(crate) state: PageState,
}

impl Digests {
    /// Returns the digest of a page. `page` names its data: pages with the same name have the same data.
    pub(crate) fn of(&self, page: String) -> Arc<Latest> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(latest) = all.get(&page).and_then(Weak::upgrade) {
            return latest;
        }
        all.retain(|_, latest| latest.strong_count() > 0);
        let latest = Arc::new(Latest::default());
        all.insert(page, Arc::downgrade(&latest));
        latest
    }

    /// Wakes the streams of a page after a change of its data, so that they read it without waiting for their interval.
    pub(crate) fn changed(&self, page: &str) {
        let latest = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(page).and_then(Weak::upgrade);
        if let Some(latest) = latest {
            latest.changes.send_modify(|count| *count += 1);
        }
    }
}

impl Latest {
    /// Returns a receiver of the changes from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns a state that was read after the one with the number `seen`, and after the last change by this process: that
    /// of another stream, or otherwise the result of `read`. Without `seen`, it always reads, because the page may be newer
    /// than the last state.
    pub(crate) async fn after(
        &self,
        seen: Option<u64>,
        read: impl Future<Output = Result<impl Into<PageState>, StoreError>>,
    ) -> Result<NumberedState, StoreError> {
        let mut latest = self.latest.lock().await;
        let changes = *self.changes.borrow();
        if seen.is_none_or(|seen| latest.number <= seen) || latest.changes < changes {
            let state = read.await?.into();
            *latest = NumberedState { number: latest.number + 1, changes, state };
        }
        Ok(latest.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[tokio::test]
    async fn streams_of_a_page_share_digests_but_never_get_an_older_one_than_before() {
        let (digests, reads) = (Digests::default(), AtomicU64::new(0));
        let read = async || Ok::<_, StoreError>(reads.fetch_add(1, Ordering::Relaxed).to_string());
        let (one, two) = (digests.of("/".to_owned()), digests.of("/".to_owned()));
        let first = one.after(None, read()).await.unwrap();
        let second = two.after(None, read()).await.unwrap();
        assert_eq!((first.state.digest.as_str(), second.state.digest.as_str()), ("0", "1"), "a new stream reads");
        let shared = one.after(Some(first.number), read()).await.unwrap();
        assert_eq!(
            (shared.number, shared.state.digest.as_str()),
            (second.number, "1"),
            "another stream has read since"
        );
        assert_eq!(two.after(Some(second.number), read()).await.unwrap().state.digest, "2", "no other stream has");
        let other = digests.of("/system".to_owned());
        assert_eq!(other.after(None, read()).await.unwrap().state.digest, "3", "another page has other data");
    }

    #[tokio::test]
    async fn a_failed_read_is_not_shared() {
        let page = Digests::default().of("/".to_owned());
        let failed = page.after(None, async { Err::<String, _>(StoreError::Unavailable("down".to_owned())) }).await;
        assert!(failed.is_err());
        assert_eq!(page.after(Some(0), async { Ok("a".to_owned()) }).await.unwrap().state.digest, "a");
    }

    #[tokio::test]
    async fn a_change_is_read_once_for_all_streams() {
        let (digests, reads) = (Digests::default(), AtomicU64::new(0));
        let read = async || Ok::<_, StoreError>(reads.fetch_add(1, Ordering::Relaxed).to_string());
        let page = digests.of("/".to_owned());
        let first = page.after(None, read()).await.unwrap();
        let second = page.after(None, read()).await.unwrap();
        digests.changed("/");
        // The stream that has the first state must not get the second one, which may be older than the change.
        let changed = page.after(Some(first.number), read()).await.unwrap();
        assert_eq!(changed.state.digest, "2");
        let shared = page.after(Some(second.number), read()).await.unwrap();
        assert_eq!(
            (shared.number, shared.state.digest.as_str()),
            (changed.number, "2"),
            "the other stream reads again"
        );
    }

    #[test]
    fn a_change_wakes_the_streams_of_its_page_only() {
        let digests = Digests::default();
        let (home, system) = (digests.of("/".to_owned()), digests.of("/system".to_owned()));
        let (at_home, at_system) = (home.changes(), system.changes());
        digests.changed("/");
        digests.changed("/jobs");
        assert!(at_home.has_changed().unwrap() && !at_system.has_changed().unwrap());
        assert!(!home.changes().has_changed().unwrap(), "a later stream reads anyway");
    }

    #[test]
    fn the_digest_of_a_closed_page_is_removed() {
        let digests = Digests::default();
        drop(digests.of("/".to_owned()));
        let _open = digests.of("/system".to_owned());
        assert_eq!(digests.0.lock().unwrap().len(), 1);
    }
}
