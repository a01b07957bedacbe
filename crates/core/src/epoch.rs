//! Epochs of a database: what keeps identities unique after the database was turned back.
//!
//! Positions of the feed, sequence numbers of logs, versions, revisions, and fencing tokens come from counters in the database. A
//! restored backup, or a standby that lacked the last transactions of its primary, has counters that other events have
//! already used. Therefore each such turn begins an epoch: the counters continue after the base of the epoch, a number
//! that no earlier history has reached. Numbers between the end of the known history and the base are a [`Gap`]: they
//! were, or may have been, given to events that are lost (`docs/decisions/0059-epochs.md`).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// The number of bits of a base below the seconds since 1970. A second has about two million numbers, so no history
/// reaches the base of a later epoch. Bases are below 2^53 until the year 2106, so JSON numbers can hold them.
const BITS: u32 = 21;

/// The number of random bits of a base, which separate epochs that begin in the same second.
const RANDOM_BITS: u32 = 20;

/// The last second whose base fits into the numbers of JSON.
const LAST_SECOND: u64 = (1 << 32) - 1;

/// 2026-01-01. No database is older, so a clock that shows an earlier time is wrong.
const FIRST_SECOND: u64 = 1_767_225_600;

/// The number of bits of a base that the number of a pull request leaves out, so that people can read it: a second has
/// eight numbers.
const PULL_BITS: u32 = BITS - 3;

/// The numbers by which a base is after the known ones if the clock is behind: about twelve days, so that the numbers of
/// pull requests are after the known ones too.
const STEP: u64 = 1 << 41;

/// The time by which the clocks of processes may differ.
const SKEW: Duration = Duration::from_secs(10);

/// Numbers that a lost history may have used: those after `last`, up to and including `base`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// The last number of the history that was kept.
    pub last: u64,
    /// The base of the epoch that follows; its numbers are greater.
    pub base: u64,
}

/// The current epoch of a database. The first one has the base 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// The number after which the numbers of this epoch come.
    pub base: u64,
    /// The time at which the epoch began.
    pub began: Timestamp,
    /// The unused positions of the feed, in ascending order.
    #[serde(default)]
    pub gaps: Vec<Gap>,
}

impl Epoch {
    /// Returns the epoch that begins at `now`, after the position `last` of the feed. `random` separates it from other
    /// epochs that begin in the same second, also in other copies of the database.
    #[must_use]
    pub fn next(&self, last: u64, now: Timestamp, random: u32) -> Self {
        let random = u64::from(random) & ((1 << RANDOM_BITS) - 1);
        let second = u64::try_from(now.as_micros() / 1_000_000).unwrap_or(0);
        let by_clock = (second.clamp(FIRST_SECOND, LAST_SECOND) << BITS) | random;
        let known = last.max(self.base);
        // If the clock is behind, the random part alone keeps the new numbers apart from lost ones.
        let base = if by_clock > known { by_clock } else { known + STEP + random };
        let mut gaps = self.gaps.clone();
        gaps.push(Gap { last, base });
        Self { base, began: now, gaps }
    }

    /// Returns the least number that a counter of something from `created_at` may continue after, if it is `last` now.
    /// Something that was created in this epoch has used no number that is lost.
    #[must_use]
    pub fn continued(&self, last: u64, created_at: Timestamp) -> u64 {
        if created_at < self.old_before() { last.max(self.base) } else { last }
    }

    /// Returns the number after which the numbers of new pull requests come, on the built-in code host, also in a new
    /// repository: a lost history may have had a repository with its name. No repository gets eight pull requests in a
    /// second, so this is less than the base, and has 11 digits.
    #[must_use]
    pub const fn pulls_after(&self) -> u64 {
        self.base >> PULL_BITS
    }

    /// Returns the time before which things are from an earlier epoch, as far as the clocks of processes agree.
    #[must_use]
    pub fn old_before(&self) -> Timestamp {
        if self.base == 0 { self.began } else { self.began + SKEW }
    }
}

/// Returns the number from which a reader that has read up to `number` continues; `None` if a lost history gave the
/// number to something else.
#[must_use]
pub fn after_gaps(gaps: &[Gap], number: u64) -> Option<u64> {
    gaps.iter().try_fold(number, |number, gap| match number {
        // Nothing lies between the end of the known history and the base.
        last if last == gap.last => Some(gap.base),
        lost if lost > gap.last && lost < gap.base => None,
        other => Some(other),
    })
}

/// The epoch to which the numbers of one thing (a job) have been moved, and the numbers that were left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbering {
    /// The base of the epoch.
    pub epoch: u64,
    /// The unused sequence numbers, in ascending order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
}

impl Numbering {
    /// Returns whether no epoch but the first has begun.
    #[must_use]
    pub fn is_first(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the number that is `count` used numbers before `number`, or 0.
    #[must_use]
    pub fn back(&self, number: u64, count: u64) -> u64 {
        let (mut number, mut count) = (number, count);
        for gap in self.gaps.iter().rev() {
            if gap.last >= number {
                continue;
            }
            // The numbers from the base on belong to the same stretch.
            let stretch = number.saturating_sub(gap.base);
            if count <= stretch {
                return number - count;
            }
            count -= stretch;
            number = gap.last;
        }
        number.saturating_sub(count)
    }

    /// Returns the number that is `count` used numbers after `number`.
    #[must_use]
    pub fn forward(&self, number: u64, count: u64) -> u64 {
        let (mut number, mut count) = (number, count);
        for gap in &self.gaps {
            if gap.base <= number {
                continue;
            }
            let stretch = gap.last.saturating_sub(number);
            if count <= stretch {
                break;
            }
            count -= stretch;
            number = gap.base;
        }
        number.saturating_add(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    #[test]
    fn numbers_of_an_epoch_are_greater_than_all_earlier_ones_and_fit_into_json() {
        let first = Epoch::default();
        let second = first.next(400, at(1_790_000_000), u32::MAX);
        assert!(second.base > 400 && second.base < 1 << 53, "{second:?}");
        assert_eq!(second.gaps, [Gap { last: 400, base: second.base }]);
        let third = second.next(second.base + 3, at(1_790_000_001), 0);
        assert!(third.base > second.base + 3, "{third:?}");
        assert_eq!(third.gaps.len(), 2);
        let distant = first.next(1, at(300_000_000_000), 7);
        assert!(distant.base < 1 << 53, "{distant:?}");
    }

    #[test]
    fn a_clock_that_was_turned_back_does_not_turn_numbers_back() {
        let epoch = Epoch::default().next(5, at(1_790_000_000), 1);
        let (one, other) = (epoch.next(epoch.base + 9, at(5), 17), epoch.next(epoch.base + 9, at(5), 4_711));
        assert!(one.base > epoch.base + 9 && other.base > epoch.base + 9);
        assert!(one.base.abs_diff(other.base) > 1000, "two restored copies: {one:?} {other:?}");
        assert!(one.pulls_after() > epoch.pulls_after() + 1_000_000, "{one:?} after {epoch:?}");
        let without_clock = Epoch::default().next(5, at(5), 1);
        assert!(
            without_clock.pulls_after() > 14_000_000_000,
            "a machine whose clock begins in 1970: {without_clock:?}"
        );
    }

    #[test]
    fn numbers_of_pull_requests_continue_after_those_of_a_lost_history() {
        assert_eq!(Epoch::default().pulls_after(), 0, "nothing changes before the first restore");
        let first = Epoch::default().next(5, at(1_790_000_000), u32::MAX);
        let later = first.next(first.base, at(1_790_000_060), 0);
        assert!(first.pulls_after() > 14_000_000_000 && later.pulls_after() < 100_000_000_000, "{first:?} {later:?}");
        assert_eq!(later.pulls_after() - first.pulls_after(), 8 * 60 - 3, "eight in a second, without the random part");
    }

    #[test]
    fn only_numbers_of_the_kept_history_continue() {
        let gaps = [Gap { last: 400, base: 1000 }, Gap { last: 1003, base: 5000 }];
        for (number, expected) in [
            (0, Some(0)),
            (399, Some(399)),
            (400, Some(1000)),
            (401, None),
            (999, None),
            (1000, Some(1000)),
            (1003, Some(5000)),
            (1004, None),
            (5001, Some(5001)),
        ] {
            assert_eq!(after_gaps(&gaps, number), expected, "{number}");
        }
        let empty = [Gap { last: 400, base: 1000 }, Gap { last: 1000, base: 5000 }];
        assert_eq!(after_gaps(&empty, 400), Some(5000), "an epoch without events");
    }

    #[test]
    fn windows_of_numbers_skip_gaps() {
        let numbering =
            Numbering { epoch: 5000, gaps: vec![Gap { last: 10, base: 1000 }, Gap { last: 1002, base: 5000 }] };
        // The used numbers: 1 to 10, 1001, 1002, 5001, 5002, ….
        for (number, count, expected) in
            [(5003, 1, 5002), (5003, 3, 5000), (5003, 4, 1001), (5003, 5, 1000), (5003, 6, 9)]
        {
            assert_eq!(numbering.back(number, count), expected, "{number} - {count}");
        }
        assert_eq!((numbering.back(8, 3), numbering.back(8, 30)), (5, 0));
        for (number, count, expected) in [(8, 2, 10), (8, 3, 1001), (8, 5, 5001), (1001, 2, 5001)] {
            assert_eq!(numbering.forward(number, count), expected, "{number} + {count}");
        }
        assert_eq!(Numbering::default().back(8, 3), 5);
        assert!(Numbering::default().is_first() && !numbering.is_first());
    }

    #[test]
    fn only_things_from_before_an_epoch_skip_numbers() {
        let epoch = Epoch { base: 1000, began: at(100), gaps: Vec::new() };
        assert_eq!(
            (epoch.continued(7, at(99)), epoch.continued(7, at(109)), epoch.continued(7, at(111))),
            (1000, 1000, 7)
        );
    }
}
