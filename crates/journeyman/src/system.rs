//! The adapter of the system's clock and randomness (docs/decisions/0003).

use std::time::{SystemTime, UNIX_EPOCH};

use journeyman_core::time::{Clock, IdGen, Timestamp};
use rand::Rng;
use uuid::Uuid;

/// The clock and the random number generator of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Machine;

impl Clock for Machine {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that other code receives")]
    fn now(&self) -> Timestamp {
        // A machine without a battery-backed clock may start before 1970.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}

impl IdGen for Machine {
    fn uuid(&self, now: Timestamp) -> Uuid {
        let millis = u64::try_from(now.as_micros() / 1000).unwrap_or(0);
        let mut random = [0; 10];
        self.fill(&mut random);
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }

    fn fill(&self, bytes: &mut [u8]) {
        rand::rng().fill_bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_version_7_and_sort_by_time() {
        let (early, late) = (Timestamp::from_micros(1_000_000), Timestamp::from_micros(2_000_000));
        let (first, second) = (Machine.uuid(early), Machine.uuid(late));
        assert_eq!((first.get_version_num(), second.get_version_num()), (7, 7));
        assert!(first < second);
        assert_ne!(Machine.uuid(early), first);
    }
}
