//! Time and identity as parameters: nothing in this crate asks the system what time it is.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// A moment: microseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From microseconds since the epoch.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Returns the first moment of this millisecond: times are shown with milliseconds.
    #[must_use]
    pub const fn start_of_millisecond(self) -> Self {
        Self(self.0.div_euclid(1000).saturating_mul(1000))
    }

    /// Returns the last moment of this millisecond.
    #[must_use]
    pub const fn end_of_millisecond(self) -> Self {
        Self(self.start_of_millisecond().0.saturating_add(999))
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The time from `earlier` to this moment; zero where `earlier` is later (clocks jump).
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for Timestamp {
    /// ISO 8601 in UTC with milliseconds: `2026-11-21T01:25:30.123Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.div_euclid(1000);
        match jiff::Timestamp::from_millisecond(millis) {
            Ok(moment) => write!(f, "{moment:.3}"),
            // Outside of the years -9999 to 9999, which no clock gives.
            Err(_) => write!(f, "{millis}ms"),
        }
    }
}

/// The text is not an ISO 8601 date-time with a zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an ISO 8601 date-time such as 2026-11-21T01:25:30Z")]
pub struct InvalidTimestamp(String);

impl FromStr for Timestamp {
    type Err = InvalidTimestamp;

    fn from_str(text: &str) -> Result<Self, InvalidTimestamp> {
        text.parse::<jiff::Timestamp>()
            .map(|moment| Self(moment.as_microsecond()))
            .map_err(|_| InvalidTimestamp(text.chars().take(80).collect()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// For fields of stored state, where the full microseconds must survive: `#[serde(with = "micros")]`.
pub mod micros {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Timestamp};

    /// Writes the moment as a number of microseconds.
    ///
    /// # Errors
    /// Only what the serializer reports.
    pub fn serialize<S: Serializer>(moment: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        moment.0.serialize(serializer)
    }

    /// Reads a number of microseconds.
    ///
    /// # Errors
    /// Anything but a whole number.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        i64::deserialize(deserializer).map(Timestamp)
    }
}

/// Tells the time. The system's clock lives in the binary, a hand-set one in the tests.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// Makes identifiers and secrets.
pub trait IdGen: Send + Sync {
    /// A fresh UUID version 7 for something made at `now`.
    fn uuid(&self, now: Timestamp) -> Uuid;

    /// Fills `bytes` from a source fit for secrets.
    fn fill(&self, bytes: &mut [u8]);

    /// A number from 0 to 999, for jitter.
    fn permille(&self) -> u32 {
        let mut bytes = [0; 4];
        self.fill(&mut bytes);
        u32::from_le_bytes(bytes) % 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_iso_8601_with_milliseconds() {
        assert_eq!(Timestamp::from_micros(1_795_224_330_123_456).to_string(), "2026-11-21T01:25:30.123Z");
        assert_eq!(Timestamp::from_micros(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::from_micros(-1).to_string(), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn a_timestamp_is_read_with_any_offset() {
        assert_eq!("1970-01-01T01:00:00+01:00".parse(), Ok(Timestamp::from_micros(0)));
        assert!("yesterday".parse::<Timestamp>().is_err());
    }

    #[test]
    fn a_jump_of_the_clock_gives_no_negative_duration() {
        let (early, late) = (Timestamp::from_micros(5), Timestamp::from_micros(9));
        assert_eq!(late.since(early), Duration::from_micros(4));
        assert_eq!(early.since(late), Duration::ZERO);
    }
}
