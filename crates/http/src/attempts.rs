//! The limit of refused exchanges of tokens, by address. Each process has separate counters.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use journeyman_core::time::Timestamp;

/// The number of refused attempts of one address in a [`WINDOW`].
const MOST: u32 = 30;

/// The time in which attempts are counted, from the first one.
const WINDOW: Duration = Duration::from_mins(10);

/// The number of addresses above which those whose time has ended are removed.
const MAX_ADDRESSES: usize = 10_000;

/// The number of refused attempts of each address.
#[derive(Default)]
pub(crate) struct Attempts(Mutex<HashMap<IpAddr, (Timestamp, u32)>>);

impl Attempts {
    /// Counts an attempt before it is carried out, so that parallel ones count too.
    ///
    /// # Errors
    /// Returns the time to wait if the address has made too many.
    pub(crate) fn begin(&self, address: Option<IpAddr>, now: Timestamp) -> Result<(), Duration> {
        let mut counts = self.counts();
        if counts.len() >= MAX_ADDRESSES {
            counts.retain(|_, (begun, _)| is_running(*begun, now));
            if counts.len() >= MAX_ADDRESSES {
                // A limit per address does not stop an attack from so many addresses. Memory must stay bounded.
                counts.clear();
            }
        }
        let count = counts.entry(network(address)).or_insert((now, 0));
        if !is_running(count.0, now) {
            *count = (now, 0);
        }
        if count.1 >= MOST {
            return Err(WINDOW.saturating_sub(now.since(count.0)));
        }
        count.1 += 1;
        Ok(())
    }

    /// Removes an attempt from the count, because it was not refused.
    pub(crate) fn forgive(&self, address: Option<IpAddr>) {
        if let Some((_, count)) = self.counts().get_mut(&network(address)) {
            *count = count.saturating_sub(1);
        }
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<IpAddr, (Timestamp, u32)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_running(begun: Timestamp, now: Timestamp) -> bool {
    now.since(begun) < WINDOW && begun <= now
}

/// Masks an IPv6 address to its network of 64 bits, which its owner has as a whole.
pub(crate) fn network(address: Option<IpAddr>) -> IpAddr {
    match address.map(|address| address.to_canonical()) {
        Some(IpAddr::V6(address)) => IpAddr::V6(Ipv6Addr::from(u128::from(address) >> 64 << 64)),
        Some(other) => other,
        None => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_micros(1_000_000_000);

    fn from(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("an address"))
    }

    #[test]
    fn refused_attempts_of_an_address_are_limited_until_the_time_ends() {
        let attempts = Attempts::default();
        for number in 0..MOST {
            assert_eq!(attempts.begin(from("2001:db8::1"), START), Ok(()), "{number}");
        }
        let later = START + Duration::from_secs(60);
        assert_eq!(attempts.begin(from("2001:db8::2"), later), Err(WINDOW - Duration::from_secs(60)), "same network");
        assert_eq!(attempts.begin(from("192.0.2.1"), later), Ok(()));
        assert_eq!(attempts.begin(from("2001:db8::1"), START + WINDOW), Ok(()));
    }

    #[test]
    fn attempts_that_succeed_do_not_count() {
        let attempts = Attempts::default();
        for _ in 0..1000 {
            assert_eq!(attempts.begin(from("192.0.2.1"), START), Ok(()));
            attempts.forgive(from("192.0.2.1"));
        }
    }

    #[test]
    fn memory_is_limited() {
        let attempts = Attempts::default();
        for number in 0..25_000_u32 {
            attempts.begin(Some(IpAddr::from(number.to_be_bytes())), START).expect("allowed");
        }
        assert!(attempts.counts().len() <= MAX_ADDRESSES);
    }
}
