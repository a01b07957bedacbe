//! Times on pages: to the minute for people, in full for machines. Always UTC, for a page knows no clock and no zone.

use journeyman_core::time::Timestamp;

/// A time, ready for `<time>`.
pub(crate) struct Moment {
    /// For the attribute `datetime`.
    pub(crate) iso: String,
    /// `2026-11-21 01:25 UTC`.
    pub(crate) text: String,
}

impl From<Timestamp> for Moment {
    fn from(at: Timestamp) -> Self {
        let iso = at.to_string();
        let text = match iso.split_once('T') {
            Some((date, time)) => format!("{date} {} UTC", time.get(..5).unwrap_or(time)),
            None => iso.clone(),
        };
        Self { iso, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_read_to_the_minute() {
        let moment = Moment::from(Timestamp::from_micros(1_795_224_330_123_456));
        assert_eq!(moment.iso, "2026-11-21T01:25:30.123Z");
        assert_eq!(moment.text, "2026-11-21 01:25 UTC");
    }
}
