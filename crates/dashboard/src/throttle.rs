//! Rate limits for attempts to sign in: by address, by name, and by both.
//!
//! Each process has separate counters, which is enough: passwords have at least twelve characters, and hashing one
//! takes 20 ms.

use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;

use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};

/// A rate limiter for each key.
type Limiter<K, C> = RateLimiter<K, DashMapStateStore<K>, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// The rate limiters of one process.
pub(crate) struct Throttle<C: Clock = DefaultClock> {
    pair: Limiter<(IpAddr, String), C>,
    address: Limiter<IpAddr, C>,
    name: Limiter<String, C>,
}

impl Default for Throttle {
    fn default() -> Self {
        Self::new(&DefaultClock::default())
    }
}

impl<C: Clock + Clone> Throttle<C> {
    /// Creates the rate limiters, which read the time from this clock.
    fn new(clock: &C) -> Self {
        let per_minute = |number: u32, burst: u32| {
            let [number, burst] = [number, burst].map(|number| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN));
            Quota::per_minute(number).allow_burst(burst)
        };
        Self {
            // A person who does not remember the password.
            pair: RateLimiter::dashmap_with_clock(per_minute(6, 10), clock.clone()),
            // An office with one public address.
            address: RateLimiter::dashmap_with_clock(per_minute(30, 60), clock.clone()),
            // Many addresses that try one name. The limit is high, so that a few attackers cannot lock out the user.
            name: RateLimiter::dashmap_with_clock(per_minute(300, 600), clock.clone()),
        }
    }

    /// Counts a request by its address.
    ///
    /// # Errors
    /// Returns the number of seconds to wait if the address has made too many.
    pub(crate) fn ask(&self, address: Option<IpAddr>) -> Result<(), u64> {
        prune(&self.address);
        let now = self.address.clock().now();
        self.address.check_key(&network(address, 48)).map_err(|until| until.wait_time_from(now).as_secs() + 1)
    }

    /// Counts an attempt to sign in.
    ///
    /// # Errors
    /// Returns the number of seconds to wait if there were too many.
    pub(crate) fn attempt(&self, address: Option<IpAddr>, name: &str) -> Result<(), u64> {
        self.ask(address)?;
        self.attempt_asked(address, name)
    }

    /// Counts an attempt to sign in whose request was counted by [`Self::ask`] before its name was known.
    ///
    /// # Errors
    /// Returns the number of seconds to wait if there were too many.
    pub(crate) fn attempt_asked(&self, address: Option<IpAddr>, name: &str) -> Result<(), u64> {
        prune(&self.pair);
        prune(&self.name);
        let address = network(address, 64);
        let now = self.pair.clock().now();
        let wait = |until: governor::NotUntil<_>| until.wait_time_from(now).as_secs() + 1;
        self.pair.check_key(&(address, name.to_owned())).map_err(wait)?;
        self.name.check_key(&name.to_owned()).map_err(wait)
    }
}

/// The number of entries above which those that no longer limit anything are removed.
const MAX_ENTRIES: usize = 10_000;

/// Removes the entries that no longer limit anything, if there are many.
fn prune<K: Clone + Eq + Hash, C: Clock>(limiter: &Limiter<K, C>) {
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
    use std::time::Duration;

    use governor::clock::FakeRelativeClock;

    use super::*;

    #[test]
    fn ten_attempts_are_allowed_for_each_pair_of_network_and_name() {
        let clock = FakeRelativeClock::default();
        let throttle = Throttle::new(&clock);
        let from = |text: &str| Some(text.parse::<IpAddr>().expect("an address"));
        for number in 0..10 {
            assert_eq!(throttle.attempt(from("2001:db8::1"), "ada"), Ok(()), "{number}");
        }
        assert!(throttle.attempt(from("2001:db8::1"), "ada").is_err());
        assert!(throttle.attempt(from("2001:db8::2"), "ada").is_err(), "the same network");
        assert_eq!(throttle.attempt(from("2001:db8:0:1::1"), "ada"), Ok(()));
        assert_eq!(throttle.attempt(from("2001:db8::1"), "bob"), Ok(()));
        clock.advance(Duration::from_secs(10));
        assert_eq!(throttle.attempt(from("2001:db8::1"), "ada"), Ok(()), "six attempts in a minute");
        assert!(throttle.attempt(from("2001:db8::1"), "ada").is_err());
    }

    #[test]
    fn attempts_with_many_names_are_limited_by_address() {
        let throttle = Throttle::new(&FakeRelativeClock::default());
        let allowed = (0..200).filter(|number| throttle.attempt(None, &number.to_string()).is_ok()).count();
        assert_eq!(allowed, 60);
    }

    #[test]
    fn a_request_is_counted_once_if_its_name_is_known_later() {
        let throttle = Throttle::new(&FakeRelativeClock::default());
        let is_allowed =
            |number: &u32| throttle.ask(None).and_then(|()| throttle.attempt_asked(None, &number.to_string())).is_ok();
        assert_eq!((0..200).filter(is_allowed).count(), 60);
    }

    #[test]
    fn entries_of_requests_that_no_longer_limit_anything_are_removed() {
        // After a request, an entry limits nothing after two milliseconds.
        let quota = Quota::per_second(NonZeroU32::new(1000).expect("a number"));
        let clock = FakeRelativeClock::default();
        let throttle = Throttle {
            pair: RateLimiter::dashmap_with_clock(quota, clock.clone()),
            address: RateLimiter::dashmap_with_clock(quota, clock.clone()),
            name: RateLimiter::dashmap_with_clock(quota, clock.clone()),
        };
        let last = u32::try_from(MAX_ENTRIES).expect("a number");
        for number in 0..=last {
            throttle.ask(Some(IpAddr::from(number.to_be_bytes()))).expect("allowed");
        }
        assert!(throttle.address.len() > MAX_ENTRIES);
        clock.advance(Duration::from_millis(20));
        throttle.ask(None).expect("allowed");
        assert_eq!(throttle.address.len(), 1);
    }
}
