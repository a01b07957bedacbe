//! The space that a repository of the built-in code host takes, and when it is measured and its objects of Git LFS are
//! cleaned up.

use std::time::Duration;

use crate::time::Timestamp;

/// The file in a repository with its [`StorageRecord`].
pub const RECORD: &str = "journeyman-storage";

/// The shortest time between two measurements of a repository.
const MEASURE: Duration = Duration::from_secs(3600);

/// The shortest time between two searches of a repository for objects that nothing names.
const PRUNE: Duration = Duration::from_secs(7 * 24 * 3600);

/// The shortest time for which an object that no pointer names is kept after it was uploaded, or after a client was told
/// that it exists. The push with its pointer comes later.
const KEEP: Duration = Duration::from_secs(14 * 24 * 3600);

/// The age from which an object is renewed if a client is told that it exists.
const RENEW: Duration = Duration::from_secs(24 * 3600);

/// The space that a repository takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostedStorage {
    /// The bytes of its git directory.
    pub git_bytes: u64,
    /// The bytes of its objects of Git LFS.
    pub lfs_bytes: u64,
    /// The number of its objects of Git LFS.
    pub lfs_objects: u64,
}

impl std::ops::AddAssign for HostedStorage {
    fn add_assign(&mut self, other: Self) {
        self.git_bytes = self.git_bytes.saturating_add(other.git_bytes);
        self.lfs_bytes = self.lfs_bytes.saturating_add(other.lfs_bytes);
        self.lfs_objects = self.lfs_objects.saturating_add(other.lfs_objects);
    }
}

/// The last measurement of a repository, and the last search for objects that nothing names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorageRecord {
    /// The space that it takes.
    pub storage: HostedStorage,
    /// The time of the measurement.
    pub measured_at: Timestamp,
    /// The time of the search; `None` if there was none.
    pub pruned_at: Option<Timestamp>,
}

impl StorageRecord {
    /// Reads a record from [`StorageRecord::text`]; `None` if the text is not complete.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut next = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let measured = next("measured")?.parse().ok()?;
        let pruned: i64 = next("pruned")?.parse().ok()?;
        let (git_bytes, lfs_bytes) = (next("git")?.parse().ok()?, next("lfs")?.parse().ok()?);
        let lfs_objects = next("objects")?.parse().ok()?;
        let pruned_at = Some(Timestamp::from_micros(pruned)).filter(|at| *at != Timestamp::default());
        (lines.next() == Some("end")).then_some(Self {
            storage: HostedStorage { git_bytes, lfs_bytes, lfs_objects },
            measured_at: Timestamp::from_micros(measured),
            pruned_at,
        })
    }

    /// Returns the text that is stored in the repository. Times are microseconds since 1970.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { storage: HostedStorage { git_bytes, lfs_bytes, lfs_objects }, measured_at, pruned_at } = self;
        let (measured, pruned) = (measured_at.as_micros(), pruned_at.unwrap_or_default().as_micros());
        format!("measured {measured}\npruned {pruned}\ngit {git_bytes}\nlfs {lfs_bytes}\nobjects {lfs_objects}\nend\n")
    }

    /// Returns whether a repository with this record is measured now.
    #[must_use]
    pub fn is_due(record: Option<&Self>, now: Timestamp) -> bool {
        record.is_none_or(|record| is_past(record.measured_at, now, MEASURE))
    }

    /// Returns whether a search for objects that nothing names is due, if there are old enough ones.
    #[must_use]
    pub fn prunes(record: Option<&Self>, now: Timestamp) -> bool {
        record.and_then(|record| record.pruned_at).is_none_or(|at| is_past(at, now, PRUNE))
    }
}

/// Returns the time before which an object must have been written or renewed, to be removed now if nothing names it.
#[must_use]
pub fn removed_before(now: Timestamp) -> Timestamp {
    now - KEEP
}

/// Returns whether an object that was written or renewed at `at` must be renewed to be kept for long enough.
#[must_use]
pub fn needs_renewal(at: Timestamp, now: Timestamp) -> bool {
    is_past(at, now, RENEW)
}

/// Returns whether `at` is at least `period` ago. A time in the future is too: the clock was set back.
fn is_past(at: Timestamp, now: Timestamp, period: Duration) -> bool {
    at > now || now.since(at) >= period
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(hours: u32) -> Timestamp {
        Timestamp::from_micros(1_000_000_000_000_000) + HOUR * hours
    }

    fn record(measured_at: Timestamp, pruned_at: Option<Timestamp>) -> StorageRecord {
        let storage = HostedStorage { git_bytes: 1, lfs_bytes: 2, lfs_objects: 3 };
        StorageRecord { storage, measured_at, pruned_at }
    }

    #[test]
    fn a_repository_is_measured_hourly_and_searched_weekly() {
        let known = record(at(0), Some(at(0)));
        assert!(StorageRecord::is_due(None, at(0)) && StorageRecord::prunes(None, at(0)));
        for (hours, expected) in
            [(0, (false, false)), (1, (true, false)), (7 * 24 - 1, (true, false)), (168, (true, true))]
        {
            let due = (StorageRecord::is_due(Some(&known), at(hours)), StorageRecord::prunes(Some(&known), at(hours)));
            assert_eq!(due, expected, "after {hours} hours");
        }
        assert!(StorageRecord::prunes(Some(&record(at(0), None)), at(0)));
        let later = record(at(500), Some(at(500)));
        assert!(StorageRecord::is_due(Some(&later), at(0)), "the clock was set back");
    }

    #[test]
    fn objects_are_kept_for_two_weeks_and_renewed_after_a_day() {
        assert_eq!(at(14 * 24).since(removed_before(at(14 * 24))), HOUR * 24 * 14);
        assert!(!needs_renewal(at(0), at(23)) && needs_renewal(at(0), at(24)));
    }

    #[test]
    fn what_is_written_is_read_and_what_is_cut_is_not() {
        for record in [record(at(1), None), record(at(1), Some(at(2)))] {
            let text = record.text();
            assert_eq!(StorageRecord::read(&text), Some(record));
            assert!((0..text.len() - 1).all(|length| StorageRecord::read(&text[..length]).is_none()));
        }
    }
}
