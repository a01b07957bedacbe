//! Rate limits for attempts to sign in: by address, by name, and by both.
//!
//! Each process has separate counters, which is enough: passwords have at least twelve characters, and hashing one
//! takes 20 ms.

use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota};

/// The rate limiters of one process.
pub(crate) struct Throttle {
    pair: DefaultKeyedRateLimiter<(IpAddr, String)>,
    address: DefaultKeyedRateLimiter<IpAddr>,
    name: DefaultKeyedRateLimiter<String>,
}

impl Default for Throttle {
    fn default() -> Self {
        let per_minute = |number: u32, burst: u32| {
            let [number, burst] = [number, burst].map(|number| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN));
            Quota::per_minute(number).allow_burst(burst)
        };
        Self {
            // A person who does not remember the password.
            pair: DefaultKeyedRateLimiter::keyed(per_minute(6, 10)),
            // An office with one public address.
            address: DefaultKeyedRateLimiter::keyed(per_minute(30, 60)),
            // Many addresses that try one name. The limit is high, so that a few attackers cannot lock out the user.
            name: DefaultKeyedRateLimiter::keyed(per_minute(300, 600)),
        }
    }
}

impl Throttle {
    /// Counts a request by its address.
    ///
    /// # Errors
    /// Returns the number of seconds to wait if the address has made too many.
    pub(crate) fn ask(&self, address: Option<IpAddr>) -> Result<(), u64> {
        prune(&self.address);
        let now = DefaultClock::default().now();
        self.address.check_key(&network(address, 48)).map_err(|until| until.wait_time_from(now).as_secs() + 1)
    }

    /// Counts an attempt to sign in.
    ///
    /// # Errors
    /// Returns the number of seconds to wait if there were too many.
    pub(crate) fn attempt(&self, address: Option<IpAddr>, name: &str) -> Result<(), u64> {
        prune(&self.pair);
        prune(&self.name);
        self.ask(address)?;
        let address = network(address, 64);
        let now = DefaultClock::default().now();
        let wait = |until: governor::NotUntil<_>| until.wait_time_from(now).as_secs() + 1;
        self.pair.check_key(&(address, name.to_owned())).map_err(wait)?;
        self.name.check_key(&name.to_owned()).map_err(wait)
    }
}

/// The number of entries above which those that no longer limit anything are removed.
const MAX_ENTRIES: usize = 10_000;

/// Removes the entries that no longer limit anything, if there are many.
fn prune<K: Clone + Eq + Hash>(limiter: &DefaultKeyedRateLimiter<K>) {
    if limiter.len() > MAX_ENTRIES {
        limiter.retain_recent();
    }
}

/// Masks an IPv6 address to its network of `bits`. The owner of one IPv6 address has its whole /64, and often the /48.
fn network(address: Option<IpAddr>, bits: u32) -> IpAddr {
    match address.map(|address| address.to_canonical()) {
        Some(IpAddr::V6(address)) => IpAddr::V6(Ipv6Addr::from(u128::from(address) >> (128 - bits) << (128 - bits))),
        Some(other) => other,
        None => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_attempts_are_allowed_for_each_pair_of_network_and_name() {
        let throttle = Throttle::default();
        let from = |text: &str| Some(text.parse::<IpAddr>().expect("an address"));
        for number in 0..10 {
            assert_eq!(throttle.attempt(from("2001:db8::1"), "ada"), Ok(()), "{number}");
        }
        assert!(throttle.attempt(from("2001:db8::1"), "ada").is_err());
        assert!(throttle.attempt(from("2001:db8::2"), "ada").is_err(), "the same network");
        assert_eq!(throttle.attempt(from("2001:db8:0:1::1"), "ada"), Ok(()));
        assert_eq!(throttle.attempt(from("2001:db8::1"), "bob"), Ok(()));
    }

    #[test]
    fn attempts_with_many_names_are_limited_by_address() {
        let throttle = Throttle::default();
        let allowed = (0..200).filter(|number| throttle.attempt(None, &number.to_string()).is_ok()).count();
        assert_eq!(allowed, 60);
    }

    #[test]
    fn entries_of_requests_that_no_longer_limit_anything_are_removed() {
        // After a request, an entry limits nothing after two milliseconds.
        let quota = Quota::per_second(NonZeroU32::new(1000).expect("a number"));
        let throttle = Throttle {
            pair: DefaultKeyedRateLimiter::keyed(quota),
            address: DefaultKeyedRateLimiter::keyed(quota),
            name: DefaultKeyedRateLimiter::keyed(quota),
        };
        let last = u32::try_from(MAX_ENTRIES).expect("a number");
        for number in 0..=last {
            throttle.ask(Some(IpAddr::from(number.to_be_bytes()))).expect("allowed");
        }
        assert!(throttle.address.len() > MAX_ENTRIES);
        std::thread::sleep(std::time::Duration::from_millis(20));
        throttle.ask(None).expect("allowed");
        assert_eq!(throttle.address.len(), 1);
    }
}
