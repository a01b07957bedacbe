//! How many streams somebody has open: each costs memory and a place among the server's connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use journeyman_core::ids::UserId;

/// Streams of one user in one process. A browser opens six to a server, and has few profiles.
const MOST: usize = 40;

/// Those that are open.
#[derive(Debug, Clone, Default)]
pub(crate) struct Streams(Arc<Mutex<HashMap<UserId, usize>>>);

/// One that is. Dropped, it is closed.
pub(crate) struct Stream {
    all: Streams,
    user: UserId,
}

impl Streams {
    /// Opens one; `None` where there are too many.
    pub(crate) fn open(&self, user: UserId) -> Option<Stream> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(user).or_default();
        if *count >= MOST {
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
    fn one_user_has_so_many_and_closed_ones_make_room() {
        let streams = Streams::default();
        let (ada, bob) = (UserId::from_uuid(Uuid::from_u128(1)), UserId::from_uuid(Uuid::from_u128(2)));
        let mut open: Vec<_> = (0..MOST).filter_map(|_| streams.open(ada)).collect();
        assert_eq!(open.len(), MOST);
        assert!(streams.open(ada).is_none() && streams.open(bob).is_some());
        open.pop();
        assert!(streams.open(ada).is_some());
        drop(open);
        assert!(streams.0.lock().expect("the map").is_empty());
    }
}
