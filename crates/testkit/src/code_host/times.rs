//! The times at which things on a stand-in were created and changed. They are those of the stand-in's own clock, which
//! moves by a second when a request finds something changed.

use std::collections::BTreeMap;

use journeyman_core::time::Timestamp;

/// The start of the stand-in's clock, 2027-01-15T08:00:00Z, in seconds since 1970.
const START: i64 = 1_800_000_000;

/// The times at which things were created and changed.
#[derive(Debug, Clone)]
pub(super) struct Times {
    now: i64,
    known: BTreeMap<String, Known>,
}

#[derive(Debug, Clone)]
struct Known {
    created: i64,
    updated: i64,
    content: String,
}

impl Default for Times {
    fn default() -> Self {
        Self { now: START, known: BTreeMap::new() }
    }
}

impl Times {
    /// Compares everything with its content at the last request.
    pub(super) fn record(&mut self, mut contents: Vec<(String, String)>) {
        contents.retain(|(key, content)| self.known.get(key).is_none_or(|known| known.content != *content));
        self.now += i64::from(!contents.is_empty());
        for (key, content) in contents {
            let created = self.known.get(&key).map_or(self.now, |known| known.created);
            self.known.insert(key, Known { created, updated: self.now, content });
        }
    }

    /// Returns the times at which something was created and changed, in seconds since 1970.
    pub(super) fn of(&self, key: &str) -> (i64, i64) {
        self.known.get(key).map_or((START, START), |known| (known.created, known.updated))
    }

    /// Returns the times at which a comment was created and changed, in seconds since 1970.
    pub(super) fn of_comment(&self, comment: u64) -> (i64, i64) {
        self.of(&format!("comment/{comment}"))
    }

    /// Returns the times at which a pull request was created and changed, in seconds since 1970.
    pub(super) fn of_pull(&self, repository: u64, number: u64) -> (i64, i64) {
        self.of(&format!("{repository}/{number}"))
    }

    /// Returns the times at which something was created and changed, with milliseconds. The next request records what
    /// is new.
    pub(super) fn exact(&self, key: &str) -> (String, String) {
        let (created, updated) =
            self.known.get(key).map_or((self.now + 1, self.now + 1), |known| (known.created, known.updated));
        let exact = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000).to_string();
        (exact(created), exact(updated))
    }
}
