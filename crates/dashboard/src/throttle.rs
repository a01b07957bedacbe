//! How often somebody may try to sign in: by address, by name, and by both.
//!
//! Each process counts for itself, which is enough: passwords have twelve characters, and hashing one takes 20 ms.

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota};

/// Limits of one process.
pub(crate) struct Throttle {
    pair: DefaultKeyedRateLimiter<(IpAddr, String)>,
    address: DefaultKeyedRateLimiter<IpAddr>,
    name: DefaultKeyedRateLimiter<String>,
}

impl Default for Throttle {
    fn default() -> Self {
        let a_minute = |number: u32, burst: u32| {
            let [number, burst] = [number, burst].map(|number| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN));
            Quota::per_minute(number).allow_burst(burst)
        };
        Self {
            // Somebody who does not remember.
            pair: DefaultKeyedRateLimiter::keyed(a_minute(6, 10)),
            // An office behind one address.
            address: DefaultKeyedRateLimiter::keyed(a_minute(30, 60)),
            // Many addresses that try one name; so many that nobody is locked out by a few.
            name: DefaultKeyedRateLimiter::keyed(a_minute(300, 600)),
        }
    }
}

impl Throttle {
    /// Counts a question that somebody makes us ask; the seconds to wait where there were too many.
    pub(crate) fn ask(&self, address: Option<IpAddr>) -> Result<(), u64> {
        let now = DefaultClock::default().now();
        self.address.check_key(&network(address, 48)).map_err(|until| until.wait_time_from(now).as_secs() + 1)
    }

    /// Counts an attempt; the seconds to wait where there were too many.
    pub(crate) fn attempt(&self, address: Option<IpAddr>, name: &str) -> Result<(), u64> {
        self.ask(address)?;
        let address = network(address, 64);
        let now = DefaultClock::default().now();
        let wait = |until: governor::NotUntil<_>| until.wait_time_from(now).as_secs() + 1;
        self.pair.check_key(&(address, name.to_owned())).map_err(wait)?;
        self.name.check_key(&name.to_owned()).map_err(wait)?;
        if self.pair.len() > MOST {
            self.pair.retain_recent();
            self.address.retain_recent();
            self.name.retain_recent();
        }
        Ok(())
    }
}

/// Entries above which those that have recovered are dropped.
const MOST: usize = 10_000;

/// Of IPv6, whoever has one address has its network of 64 bits, and often that of 48.
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
    fn ten_in_a_row_are_let_and_another_name_or_address_still_is() {
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
    fn one_address_does_not_try_all_names() {
        let throttle = Throttle::default();
        let let_in = (0..200).filter(|number| throttle.attempt(None, &number.to_string()).is_ok()).count();
        assert_eq!(let_in, 60);
    }
}
