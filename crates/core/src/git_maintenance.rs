//! When git repositories of the service are packed, and when what nothing refers to is removed from them.

use std::time::Duration;

use crate::time::Timestamp;

/// The shortest time between two packings of a repository.
const PACK: Duration = Duration::from_secs(3600);

/// The shortest time between two searches of a repository for refs that nothing needs.
const SWEEP: Duration = Duration::from_secs(24 * 3600);

/// The shortest time between two complete packings of a repository, which find unreachable objects.
const REPACK: Duration = Duration::from_secs(7 * 24 * 3600);

/// The shortest time for which an object is kept after it was first found unreachable. A turn, a push, and a workspace
/// that refer to it end earlier.
const KEEP: Duration = Duration::from_secs(14 * 24 * 3600);

/// The number of files from which a repository is packed.
const FILES: usize = 50;

/// When a repository was last packed, swept and repacked. Attempts count, so that one that fails is not repeated at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Maintenance {
    /// The time of the last packing; `None` if there was none.
    pub packed_at: Option<Timestamp>,
    /// The time of the last search for refs that nothing needs.
    pub swept_at: Timestamp,
    /// The time of the last complete packing.
    pub repacked_at: Timestamp,
}

/// What a repository contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// The number of files that packing can remove: single objects, packs, and files of refs.
    pub files: usize,
    /// True if it has a pack with unreachable objects.
    pub has_unreachable: bool,
}

/// What is due in a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Due {
    /// Its new objects and refs are packed.
    pub pack: bool,
    /// Refs that nothing needs are removed.
    pub sweep: bool,
    /// All objects are packed, and those that were unreachable for long enough are removed.
    pub repack: bool,
}

impl Due {
    /// Returns whether anything is due.
    #[must_use]
    pub const fn is_some(self) -> bool {
        self.pack || self.sweep || self.repack
    }
}

impl Maintenance {
    /// Returns the record of a repository that has none yet.
    #[must_use]
    pub const fn new(now: Timestamp) -> Self {
        Self { packed_at: None, swept_at: now, repacked_at: now }
    }

    /// Reads a record from [`Maintenance::text`]; `None` if the text is not complete.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut next = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
        let (packed, swept, repacked, end) = (next("packed")?, next("swept")?, next("repacked")?, lines.next());
        let at = Timestamp::from_micros;
        let packed_at = Some(at(packed)).filter(|at| *at != Timestamp::default());
        (end == Some("end")).then_some(Self { packed_at, swept_at: at(swept), repacked_at: at(repacked) })
    }

    /// Returns the text that is stored in the repository. Times are microseconds since 1970.
    #[must_use]
    pub fn text(&self) -> String {
        let packed = self.packed_at.unwrap_or_default().as_micros();
        let (swept, repacked) = (self.swept_at.as_micros(), self.repacked_at.as_micros());
        format!("packed {packed}\nswept {swept}\nrepacked {repacked}\nend\n")
    }

    /// Returns whether the size of the repository matters: it was packed long enough ago. Otherwise nothing is due.
    #[must_use]
    pub fn may_be_due(&self, now: Timestamp) -> bool {
        self.packed_at.is_none_or(|at| is_past(at, now, PACK)) || is_past(self.swept_at, now, SWEEP)
    }

    /// Returns what is due, and the record after it.
    #[must_use]
    pub fn due(&self, now: Timestamp, size: Size) -> (Due, Self) {
        let can_pack = self.packed_at.is_none_or(|at| is_past(at, now, PACK));
        let sweep = is_past(self.swept_at, now, SWEEP);
        let has_changed = size.has_unreachable || self.packed_at.is_some_and(|at| at > self.repacked_at);
        let repack = can_pack && has_changed && is_past(self.repacked_at, now, REPACK);
        let pack = can_pack && (size.files >= FILES || repack);
        let after = Self {
            packed_at: if pack { Some(now) } else { self.packed_at },
            swept_at: if sweep { now } else { self.swept_at },
            repacked_at: if repack { now } else { self.repacked_at },
        };
        (Due { pack, sweep, repack }, after)
    }
}

/// Returns the time before which an object must have been found unreachable, to be removed now.
#[must_use]
pub fn removed_before(now: Timestamp) -> Timestamp {
    now - KEEP
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

    const FULL: Size = Size { files: FILES, has_unreachable: false };
    const SMALL: Size = Size { files: FILES - 1, has_unreachable: false };

    #[test]
    fn a_repository_is_packed_at_most_once_an_hour_and_only_if_it_has_files() {
        let new = Maintenance::new(at(0));
        assert_eq!(new.due(at(0), SMALL), (Due::default(), new));
        let (due, packed) = new.due(at(0), FULL);
        assert_eq!((due, packed.packed_at), (Due { pack: true, ..Due::default() }, Some(at(0))));
        assert!(!packed.due(at(1) - Duration::from_secs(1), FULL).0.is_some());
        assert!(!packed.may_be_due(at(1) - Duration::from_secs(1)) && packed.may_be_due(at(1)));
        assert!(packed.due(at(1), FULL).0.pack && !packed.due(at(1), SMALL).0.is_some());
    }

    #[test]
    fn a_repository_is_repacked_once_a_week_if_it_has_changed_or_has_unreachable_objects() {
        let (week, unreachable) = (at(7 * 24), Size { files: 0, has_unreachable: true });
        let unchanged = Maintenance::new(at(0));
        assert!(!unchanged.due(week, SMALL).0.repack && unchanged.due(week, unreachable).0.repack);
        let changed = Maintenance { packed_at: Some(at(1)), ..unchanged };
        assert!(!changed.due(week - HOUR, SMALL).0.repack);
        let (due, after) = changed.due(week, SMALL);
        assert_eq!(due, Due { pack: true, sweep: true, repack: true });
        assert_eq!(after, Maintenance { packed_at: Some(week), swept_at: week, repacked_at: week });
        assert!(!after.due(week + HOUR * 7 * 24, SMALL).0.repack, "nothing has changed since");
    }

    #[test]
    fn a_repository_is_swept_once_a_day() {
        let new = Maintenance::new(at(0));
        assert!(!new.due(at(23), SMALL).0.sweep && new.due(at(24), SMALL).0.sweep);
    }

    #[test]
    fn a_clock_that_was_set_back_stops_nothing() {
        let later = Maintenance { packed_at: Some(at(500)), swept_at: at(500), repacked_at: at(499) };
        assert_eq!(later.due(at(0), FULL).0, Due { pack: true, sweep: true, repack: true });
    }

    #[test]
    fn what_is_written_is_read_and_what_is_cut_is_not() {
        for record in
            [Maintenance::new(at(1)), Maintenance { packed_at: Some(at(2)), swept_at: at(3), repacked_at: at(4) }]
        {
            let text = record.text();
            assert_eq!(Maintenance::read(&text), Some(record));
            assert!((0..text.len() - 1).all(|length| Maintenance::read(&text[..length]).is_none()));
        }
    }

    #[test]
    fn unreachable_objects_are_kept_for_two_weeks() {
        assert_eq!(at(14 * 24).since(removed_before(at(14 * 24))), HOUR * 24 * 14);
    }
}
