//! Tracks what a connection is doing and how long it may continue. Times are measured from the start of the server.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The timeouts of the phases of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeouts {
    /// The timeout for the head of a request, from its first byte or from the start of the connection.
    pub(crate) header: Duration,
    /// The timeout between requests.
    pub(crate) idle: Duration,
    /// The timeout from the head of a request to the end of its response, unless the request is authenticated.
    pub(crate) request: Duration,
    /// The time in which a client must take [`LEAST_TAKEN`] bytes of a response while more bytes wait for it.
    pub(crate) write: Duration,
}

/// The number of bytes that a client must take in each [`Timeouts::write`] while bytes wait for it.
pub(crate) const LEAST_TAKEN: u64 = 64 << 10;

/// The phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The head of a request is expected, or has arrived in part.
    Head,
    /// A request is being processed; its body may still arrive.
    Request,
    /// The previous request is complete, and the next has not begun.
    Idle,
}

/// A timeout that has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Expired {
    /// The head of a request has not arrived.
    Header,
    /// No request has begun.
    Idle,
    /// A request without authentication has not completed.
    Request,
    /// The client has not taken the response.
    Write,
}

impl Expired {
    /// Returns the name in the metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Header => "header_timeout",
            Self::Idle => "idle_timeout",
            Self::Request => "request_timeout",
            Self::Write => "write_timeout",
        }
    }
}

/// The phase of a connection with its start, in one number, which is written several times for each request.
#[derive(Debug)]
pub(crate) struct Activity {
    /// The start of the phase in milliseconds, shifted left by two bits, which hold the phase.
    state: AtomicU64,
    /// True if the connection counts as authenticated.
    authenticated: AtomicBool,
    /// True if the current request is authenticated. Later requests on the same connection may come from other clients
    /// of a proxy.
    request_authenticated: AtomicBool,
    /// The time in milliseconds, plus one, since which bytes wait for the client; 0 if none wait.
    waits_since: AtomicU64,
    /// The number of bytes that the client has taken since then.
    taken: AtomicU64,
}

impl Activity {
    /// Returns the activity of a connection that was just accepted.
    pub(crate) fn new(now: Duration) -> Self {
        Self {
            state: AtomicU64::new(pack(Phase::Head, now)),
            authenticated: AtomicBool::new(false),
            request_authenticated: AtomicBool::new(false),
            waits_since: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        }
    }

    pub(crate) fn is_authenticated(&self) -> bool {
        self.authenticated.load(Ordering::Relaxed)
    }

    pub(crate) fn set_authenticated(&self, authenticated: bool) {
        self.authenticated.store(authenticated, Ordering::Relaxed);
    }

    pub(crate) fn set_request_authenticated(&self, authenticated: bool) {
        self.request_authenticated.store(authenticated, Ordering::Relaxed);
    }

    /// Notes that bytes have arrived. Between requests, they are the beginning of a head.
    pub(crate) fn received(&self, now: impl FnOnce() -> Duration) {
        if self.phase() == Phase::Idle {
            self.enter(Phase::Head, now());
        }
    }

    /// Notes that bytes were sent. Between requests, they are the rest of a large response, and extend the idle timeout
    /// of an authenticated connection.
    pub(crate) fn sent(&self, now: impl FnOnce() -> Duration) {
        if self.phase() == Phase::Idle && self.is_authenticated() {
            self.enter(Phase::Idle, now());
        }
    }

    /// Notes that the client did not take bytes that wait for it.
    pub(crate) fn blocked(&self, now: Duration) {
        if self.waits_since.load(Ordering::Relaxed) == 0 {
            self.waits_since.store(millis(now) + 1, Ordering::Relaxed);
        }
    }

    /// Notes that the client has taken bytes. If it has taken enough, its time begins again.
    pub(crate) fn took(&self, bytes: usize, now: impl FnOnce() -> Duration) {
        if self.waits_since.load(Ordering::Relaxed) == 0 {
            return;
        }
        let taken = self.taken.load(Ordering::Relaxed).saturating_add(bytes as u64);
        if taken < LEAST_TAKEN {
            self.taken.store(taken, Ordering::Relaxed);
        } else {
            self.taken.store(0, Ordering::Relaxed);
            self.waits_since.store(millis(now()) + 1, Ordering::Relaxed);
        }
    }

    /// Notes that no bytes wait for the client.
    pub(crate) fn flushed(&self) {
        if self.waits_since.load(Ordering::Relaxed) != 0 {
            self.waits_since.store(0, Ordering::Relaxed);
            self.taken.store(0, Ordering::Relaxed);
        }
    }

    /// Notes that the head of a request is complete.
    pub(crate) fn request_begins(&self, now: Duration) {
        self.set_request_authenticated(false);
        self.enter(Phase::Request, now);
    }

    /// Notes that hyper has taken the whole response.
    pub(crate) fn request_ends(&self, now: Duration) {
        self.enter(Phase::Idle, now);
    }

    /// Returns the time at which to close the connection unless its phase changes, and the timeout that has then
    /// passed.
    pub(crate) fn deadline(&self, timeouts: &Timeouts) -> Option<(Duration, Expired)> {
        let waits_since = self.waits_since.load(Ordering::Relaxed).checked_sub(1).map(Duration::from_millis);
        let write = waits_since.map(|since| (since + timeouts.write, Expired::Write));
        let (phase, since) = unpack(self.state.load(Ordering::Relaxed));
        let of_phase = match phase {
            Phase::Head => Some((since + timeouts.header, Expired::Header)),
            Phase::Idle => Some((since + timeouts.idle, Expired::Idle)),
            Phase::Request if self.request_authenticated.load(Ordering::Relaxed) => None,
            Phase::Request => Some((since + timeouts.request, Expired::Request)),
        };
        of_phase.into_iter().chain(write).min()
    }

    /// Returns whether the connection waits for the head of a request, or for the rest of it.
    pub(crate) fn is_in_head(&self) -> bool {
        self.phase() == Phase::Head
    }

    fn phase(&self) -> Phase {
        unpack(self.state.load(Ordering::Relaxed)).0
    }

    fn enter(&self, phase: Phase, now: Duration) {
        self.state.store(pack(phase, now), Ordering::Relaxed);
    }
}

fn pack(phase: Phase, since: Duration) -> u64 {
    (millis(since) << 2) | phase as u64
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).min(u64::MAX >> 2)
}

fn unpack(state: u64) -> (Phase, Duration) {
    let phase = match state & 3 {
        0 => Phase::Head,
        1 => Phase::Request,
        _ => Phase::Idle,
    };
    (phase, Duration::from_millis(state >> 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUTS: Timeouts = Timeouts {
        header: Duration::from_secs(15),
        idle: Duration::from_secs(75),
        request: Duration::from_secs(60),
        write: Duration::from_secs(30),
    };

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_timeout_of_a_head_begins_with_its_first_byte_and_later_bytes_do_not_extend_it() {
        let activity = Activity::new(at(100));
        assert_eq!(activity.deadline(&TIMEOUTS), Some((at(115), Expired::Header)));
        activity.received(|| at(110));
        assert_eq!(activity.deadline(&TIMEOUTS), Some((at(115), Expired::Header)), "bytes do not extend the timeout");
        activity.request_begins(at(111));
        activity.request_ends(at(112));
        assert_eq!(activity.deadline(&TIMEOUTS), Some((at(187), Expired::Idle)));
        activity.received(|| at(180));
        assert_eq!(activity.deadline(&TIMEOUTS), Some((at(195), Expired::Header)), "a partial head ends the idle time");
    }

    #[test]
    fn a_request_has_a_timeout_until_it_is_authenticated() {
        let activity = Activity::new(at(0));
        activity.request_begins(at(1));
        activity.received(|| at(30));
        activity.sent(|| at(31));
        assert_eq!(activity.deadline(&TIMEOUTS), Some((at(61), Expired::Request)), "a slow body extends no timeout");
        activity.set_request_authenticated(true);
        assert_eq!(activity.deadline(&TIMEOUTS), None, "streams, long polls and pushes have no timeout");
        activity.set_authenticated(true);
        activity.request_ends(at(100));
        activity.request_begins(at(101));
        let next = Some((at(161), Expired::Request));
        assert_eq!(activity.deadline(&TIMEOUTS), next, "the next request may be another client's of the same proxy");
    }

    #[test]
    fn a_client_that_takes_no_bytes_or_too_few_has_a_timeout_in_each_phase() {
        let activity = Activity::new(at(0));
        activity.request_begins(at(1));
        activity.set_request_authenticated(true);
        activity.took(1 << 20, || at(2));
        assert_eq!(activity.deadline(&TIMEOUTS), None, "no byte waits");
        activity.blocked(at(10));
        activity.blocked(at(20));
        assert_eq!(activity.deadline(&TIMEOUTS), Some((at(40), Expired::Write)));
        activity.took(LEAST_TAKEN as usize - 1, || at(30));
        assert_eq!(activity.deadline(&TIMEOUTS), Some((at(40), Expired::Write)), "too few bytes extend no timeout");
        activity.took(1, || at(35));
        assert_eq!(activity.deadline(&TIMEOUTS), Some((at(65), Expired::Write)));
        activity.took(1, || at(50));
        activity.request_ends(at(50));
        assert_eq!(activity.deadline(&TIMEOUTS), Some((at(65), Expired::Write)), "the rest of a response has it too");
        activity.flushed();
        assert_eq!(activity.deadline(&TIMEOUTS), Some((at(125), Expired::Idle)));
        activity.blocked(at(60));
        assert_eq!(activity.deadline(&TIMEOUTS), Some((at(90), Expired::Write)), "the count of bytes begins again");
    }

    #[test]
    fn reading_a_large_response_slowly_is_not_idle_for_an_authenticated_client() {
        let activity = Activity::new(at(0));
        activity.request_begins(at(1));
        activity.request_ends(at(2));
        activity.sent(|| at(50));
        assert_eq!(
            activity.deadline(&TIMEOUTS),
            Some((at(77), Expired::Idle)),
            "slow reading extends no timeout without authentication"
        );
        activity.set_authenticated(true);
        activity.sent(|| at(60));
        assert_eq!(activity.deadline(&TIMEOUTS), Some((at(135), Expired::Idle)));
    }
}
