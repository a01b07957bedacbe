//! A limit on the open event streams of a user: each takes memory and one of the server's connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use journeyman_core::ids::UserId;

/// The maximum number of streams of one user in one process. A browser opens six connections to a server, and people
/// have few profiles.
const MAX_STREAMS: usize = 40;

/// The number of open streams of each user.
#[derive(Debug, Clone, Default)]
pub(crate) struct Streams(Arc<Mutex<HashMap<UserId, usize>>>);

/// An open stream. Dropping it frees its slot.
pub(crate) struct Stream {
    all: Streams,
    user: UserId,
}

impl Streams {
    /// Opens a stream; returns `None` if the user already has the maximum number.
    pub(crate) fn open(&self, user: UserId) -> Option<Stream> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(user).or_default();
        if *count >= MAX_STREAMS {
            return None;
        }
        *count += 1;
        Some(Stream { all: self.clone(), user })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut open = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn streams_are_limited_by_user_and_closing_one_frees_a_slot() {
        let streams = Streams::default();
        let (ada, bob) = (UserId::from_uuid(Uuid::from_u128(1)), UserId::from_uuid(Uuid::from_u128(2)));
        let mut open: Vec<_> = (0..MAX_STREAMS).filter_map(|_| streams.open(ada)).collect();
        assert_eq!(open.len(), MAX_STREAMS);
        assert!(streams.open(ada).is_none() && streams.open(bob).is_some());
        open.pop();
        assert!(streams.open(ada).is_some());
        drop(open);
        assert!(streams.0.lock().expect("the map").is_empty());
    }
}
