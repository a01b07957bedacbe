//! The cursors of the feed, and which of them may continue.
//!
//! A cursor is a position in the epoch in which it was made. After a restore, or the promotion of a standby, all earlier
//! cursors are refused for ever: the reader has seen a history that may have been lost, and must know it. The refusal
//! names the cursor after which the reader has seen nothing, so that it neither misses events nor gets them twice
//! (`docs/decisions/0059-epochs.md`).

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use super::FeedEnds;

/// A position in the feed up to which a reader has read.
///
/// Its text is the position. The events of earlier epochs keep their positions, so a cursor at one of them also has the
/// base of the epoch in which the cursor was made: `4711-3755098112345678`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedCursor {
    /// The position of the last event that was read; 0 is the beginning of the feed.
    pub position: u64,
    /// The base of the epoch in which the cursor was made. `None` if the text does not name it.
    pub epoch: Option<u64>,
}

impl FeedCursor {
    /// Returns the cursor at another position that was read in the same epoch.
    #[must_use]
    pub const fn at(self, position: u64) -> Self {
        Self { position, ..self }
    }
}

impl fmt::Display for FeedCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.epoch {
            Some(epoch) if 0 < self.position && self.position < epoch => write!(f, "{}-{epoch}", self.position),
            _ => write!(f, "{}", self.position),
        }
    }
}

impl FromStr for FeedCursor {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        match text.split_once('-') {
            None => Ok(Self { position: text.parse()?, epoch: None }),
            Some((position, epoch)) => Ok(Self { position: position.parse()?, epoch: Some(epoch.parse()?) }),
        }
    }
}

/// The reason why a cursor cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expired {
    /// Events after it may have been removed, or it is of no event.
    Removed,
    /// It was made in another epoch.
    OtherEpoch {
        /// The cursor of this epoch after which the events come that its reader has not seen; `None` if some of them were
        /// removed.
        next: Option<FeedCursor>,
    },
}

impl FeedEnds {
    /// Returns the cursor at a position that was read in the current epoch.
    #[must_use]
    pub fn cursor(&self, position: u64) -> FeedCursor {
        FeedCursor { position, epoch: Some(self.epoch()) }
    }

    /// Returns the position after which a reader with this cursor continues.
    ///
    /// # Errors
    /// The cursor was made in another epoch, or events after it may have been removed.
    pub fn after(&self, cursor: FeedCursor) -> Result<u64, Expired> {
        let FeedCursor { position, epoch } = cursor;
        let base = self.epoch();
        let is_of_another = position > 0 && epoch.map_or(position < base, |epoch| epoch != base);
        if is_of_another {
            let kept = self.kept(position);
            return Err(Expired::OtherEpoch { next: (!self.has_removed(kept)).then(|| self.cursor(kept)) });
        }
        if position > self.newest || self.kept(position) != position || self.has_removed(position) {
            return Err(Expired::Removed);
        }
        Ok(position)
    }

    /// Returns the base of the current epoch.
    fn epoch(&self) -> u64 {
        self.gaps.last().map_or(0, |gap| gap.base)
    }

    /// Returns the last position of the kept history up to which a reader has read that has read up to `position`.
    fn kept(&self, position: u64) -> u64 {
        let gap = self.gaps.iter().find(|gap| gap.last < position && position < gap.base);
        gap.map_or(position, |gap| gap.last)
    }

    /// Returns whether events after a position of the kept history may have been removed.
    fn has_removed(&self, position: u64) -> bool {
        let removed_up_to = self.oldest.map_or(self.newest, |oldest| oldest - 1);
        position > 0 && self.next_end(position) < removed_up_to
    }

    /// Returns the last position at which a reader has read no more than at `position`: nothing lies in a gap.
    fn next_end(&self, position: u64) -> u64 {
        self.gaps.iter().fold(position, |position, gap| if position == gap.last { gap.base } else { position })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoch::Gap;

    fn of(text: &str) -> FeedCursor {
        text.parse().unwrap()
    }

    fn ends(oldest: Option<u64>, newest: u64, gaps: &[(u64, u64)]) -> FeedEnds {
        FeedEnds { oldest, newest, gaps: gaps.iter().map(|&(last, base)| Gap { last, base }).collect() }
    }

    /// Returns the position, or the text of the cursor after which the reader continues.
    fn after(ends: &FeedEnds, text: &str) -> Result<u64, Option<String>> {
        ends.after(of(text)).map_err(|expired| match expired {
            Expired::Removed => None,
            Expired::OtherEpoch { next } => Some(next.map_or_else(|| "removed".to_owned(), |next| next.to_string())),
        })
    }

    #[test]
    fn cursors_are_plain_numbers_unless_their_position_is_of_an_earlier_epoch() {
        let (first, later) = (ends(Some(1), 9, &[]), ends(Some(1), 1009, &[(400, 1000)]));
        for (ends, position, text) in
            [(&first, 0, "0"), (&first, 9, "9"), (&later, 0, "0"), (&later, 9, "9-1000"), (&later, 1000, "1000")]
        {
            let cursor = ends.cursor(position);
            assert_eq!(cursor.to_string(), text);
            assert_eq!(ends.after(of(text)), Ok(position), "{text}: it continues in its epoch");
        }
        for wrong in ["", "x", "-", "4-", "-4", "4-x", "4-5-6"] {
            assert!(wrong.parse::<FeedCursor>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_position_has_expired_if_events_after_it_were_removed() {
        for (oldest, newest, position, expired) in [
            (None, 0, 0, false),
            (Some(1), 5, 0, false),
            (Some(4), 9, 0, false),
            (Some(4), 9, 2, true),
            (Some(4), 9, 3, false),
            (Some(4), 9, 9, false),
            (None, 9, 8, true),
            (None, 9, 9, false),
            (Some(4), 9, 10, true),
            (None, 0, 1, true),
        ] {
            let known = ends(oldest, newest, &[]);
            let expected = if expired { Err(Expired::Removed) } else { Ok(position) };
            assert_eq!(known.after(FeedCursor { position, epoch: None }), expected, "{known:?} {position}");
        }
    }

    #[test]
    fn a_cursor_of_another_epoch_is_refused_for_ever_with_the_one_to_continue_with() {
        let some = |text: &str| Err(Some(text.to_owned()));
        let second = ends(Some(1), 1003, &[(400, 1000)]);
        let third = ends(Some(1), 5002, &[(400, 1000), (1003, 5000)]);
        for (ends, text, expected) in [
            (&second, "0", Ok(0)),
            (&second, "399", some("399-1000")),
            (&second, "400", some("400-1000")),
            (&second, "555", some("400-1000")),
            (&second, "1000", Ok(1000)),
            (&second, "1003", Ok(1003)),
            (&second, "1004", Err(None)),
            (&second, "399-1000", Ok(399)),
            (&second, "555-1000", Err(None)),
            (&third, "399", some("399-5000")),
            (&third, "399-1000", some("399-5000")),
            (&third, "555", some("400-5000")),
            (&third, "1000", some("1000-5000")),
            (&third, "1003", some("1003-5000")),
            (&third, "1500", some("1003-5000")),
            (&third, "5001", Ok(5001)),
            (&third, "1001-5000", Ok(1001)),
            (&third, "399-7777", some("399-5000")),
        ] {
            assert_eq!(after(ends, text), expected, "{text}");
        }
    }

    #[test]
    fn a_refusal_names_no_cursor_whose_next_events_were_removed() {
        let removed = Err(Some("removed".to_owned()));
        let known = ends(Some(1002), 1009, &[(400, 1000)]);
        assert_eq!(
            (after(&known, "399"), after(&known, "400"), after(&known, "1000")),
            (removed.clone(), removed, Err(None))
        );
        assert_eq!(after(&known, "1001"), Ok(1001));
        let kept = ends(Some(1001), 1009, &[(400, 1000)]);
        assert_eq!(after(&kept, "555"), Err(Some("400-1000".to_owned())), "no event after 400 was removed");
        assert_eq!(after(&kept, "400-1000"), Ok(400));
        let empty = ends(None, 1000, &[(400, 1000)]);
        assert_eq!(after(&empty, "555"), Err(Some("400-1000".to_owned())));
    }
}
