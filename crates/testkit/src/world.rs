//! The environment of a test: time, IDs and randomness under its control.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use journeyman_core::time::{Clock, IdGen, Timestamp};
use uuid::Uuid;

/// The start time, 2027-01-15T08:00:00Z, in microseconds since 1970.
const START: i64 = 1_800_000_000_000_000;

/// A clock that a test moves, IDs that count from 1, and repeatable random bytes.
#[derive(Debug)]
pub struct World {
    micros: AtomicI64,
    count: AtomicU64,
    bytes: AtomicU64,
    /// Set if the clock also runs by itself.
    since: Option<Instant>,
}

impl World {
    /// Returns a world at 2027-01-15T08:00:00Z whose clock is stopped.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Self::at(Timestamp::from_micros(START))
    }

    /// Returns a world at this time whose clock is stopped.
    #[must_use]
    pub fn at(now: Timestamp) -> Arc<Self> {
        Arc::new(Self::starting(now, None))
    }

    /// Returns a world whose clock runs, for tests with real processes.
    #[must_use]
    pub fn running() -> Arc<Self> {
        Arc::new(Self::starting(Timestamp::from_micros(START), Some(Instant::now())))
    }

    fn starting(now: Timestamp, since: Option<Instant>) -> Self {
        let (micros, count, bytes) = (now.as_micros().into(), AtomicU64::new(1), AtomicU64::new(1));
        Self { micros, count, bytes, since }
    }

    /// Moves the clock forward.
    pub fn advance(&self, time: Duration) {
        self.micros.fetch_add(micros(time), Ordering::SeqCst);
    }

    /// Moves the clock back, as an operator or a time server may do.
    pub fn set_back(&self, time: Duration) {
        self.micros.fetch_sub(micros(time), Ordering::SeqCst);
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

impl Clock for World {
    fn now(&self) -> Timestamp {
        let run = self.since.map_or(0, |since| micros(since.elapsed()));
        Timestamp::from_micros(self.micros.load(Ordering::SeqCst) + run)
    }
}

impl IdGen for World {
    fn uuid(&self, _: Timestamp) -> Uuid {
        Uuid::from_u128(u128::from(self.count.fetch_add(1, Ordering::SeqCst)))
    }

    fn fill(&self, bytes: &mut [u8]) {
        // A linear congruential generator with the constants of Knuth's MMIX.
        let seed = self.bytes.fetch_add(1, Ordering::SeqCst);
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for byte in bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = state.to_be_bytes()[0];
        }
    }
}
