//! Time and random identifiers as parameters: nothing in this crate reads the system's clock.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// A point in time, as microseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Creates a timestamp from microseconds since the epoch.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Returns the first microsecond of the same millisecond. Clients see times with milliseconds.
    #[must_use]
    pub const fn start_of_millisecond(self) -> Self {
        Self(self.0.div_euclid(1000).saturating_mul(1000))
    }

    /// Returns the last microsecond of the same millisecond.
    #[must_use]
    pub const fn end_of_millisecond(self) -> Self {
        Self(self.start_of_millisecond().0.saturating_add(999))
    }

    /// Returns the microseconds since the epoch.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Returns the time from `earlier` to this timestamp; zero if `earlier` is later, because clocks can be set back.
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
    /// Formats the timestamp as ISO 8601 in UTC with milliseconds: `2026-11-21T01:25:30.123Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.div_euclid(1000);
        match jiff::Timestamp::from_millisecond(millis) {
            Ok(moment) => write!(f, "{moment:.3}"),
            // The year is not between -9999 and 9999. No clock shows such a time.
            Err(_) => write!(f, "{millis}ms"),
        }
    }
}

/// An error for a text that is not an ISO 8601 date-time with a time zone.
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

/// The serialization of fields of stored state, which keep the full microseconds: `#[serde(with = "micros")]`.
pub mod micros {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Timestamp};

    /// Writes the timestamp as a number of microseconds.
    ///
    /// # Errors
    /// Returns the errors of the serializer.
    pub fn serialize<S: Serializer>(moment: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        moment.0.serialize(serializer)
    }

    /// Reads a number of microseconds.
    ///
    /// # Errors
    /// Returns an error if the value is not a whole number.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        i64::deserialize(deserializer).map(Timestamp)
    }
}

/// A source of the current time: the system's clock in the binary, a clock that is set by hand in tests.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// Generates identifiers and secrets.
pub trait IdGen: Send + Sync {
    /// Generates a version 7 UUID for an object that is created at `now`.
    fn uuid(&self, now: Timestamp) -> Uuid;

    /// Fills `bytes` with random data that is suitable for secrets.
    fn fill(&self, bytes: &mut [u8]);

    /// Returns a random number from 0 to 999, for jitter.
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
    fn a_clock_that_is_set_back_gives_no_negative_duration() {
        let (early, late) = (Timestamp::from_micros(5), Timestamp::from_micros(9));
        assert_eq!(late.since(early), Duration::from_micros(4));
        assert_eq!(early.since(late), Duration::ZERO);
    }
}
