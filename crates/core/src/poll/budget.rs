//! Limits the requests of polls to a code host to a share of its rate limit.

use std::time::Duration;

use super::{Cost, Quota};
use crate::code_host::HostKind;
use crate::time::Timestamp;

/// The part of a rate limit that polls use: one quarter.
pub const SHARE: u64 = 4;

/// The microseconds of an hour.
const HOUR: i64 = 3_600_000_000;

/// The part of an hour's requests that may be sent at once, as a divisor: those of one minute.
const BURST: u64 = 60;

/// The numbers of requests that a code host accepts in an hour, from one credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// All requests.
    pub requests: u64,
    /// Those that count against the rate limit.
    pub charged: u64,
}

impl Allowance {
    /// Returns the numbers of a product that does not say them in its answers. GitHub accepts 5,000 requests in an hour,
    /// apart from unchanged answers, and 900 of any kind in a minute. Bitbucket Cloud accepts 1,000 in an hour, and
    /// gitlab.com 2,000 in a minute. Other servers have no limit by default.
    #[must_use]
    pub const fn of(kind: HostKind) -> Self {
        match kind {
            HostKind::Github => Self { requests: 54_000, charged: 5_000 },
            HostKind::Bitbucket => Self { requests: 1_000, charged: 1_000 },
            HostKind::Gitlab => Self { requests: 54_000, charged: 54_000 },
            HostKind::Gitea | HostKind::Forgejo | HostKind::BitbucketDataCenter => {
                Self { requests: 20_000, charged: 20_000 }
            }
        }
    }
}

/// A number of requests that grows with time, up to a limit. Each request takes one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Bucket {
    per_hour: i64,
    most: i64,
    /// Requests, in parts of [`HOUR`]. Negative after a poll that needed more than was left.
    level: i64,
    at: Timestamp,
}

impl Bucket {
    fn new(limit: u64, now: Timestamp) -> Self {
        let mut bucket = Self { per_hour: 0, most: 0, level: 0, at: now };
        bucket.set_limit(limit);
        bucket
    }

    /// Sets the number of requests in an hour of which polls get a share. The burst is part of the share.
    fn set_limit(&mut self, limit: u64) {
        let share = (limit / SHARE).clamp(2, 1_000_000);
        let most = (share / BURST).max(1);
        self.per_hour = i64::try_from(share - most).unwrap_or(1).max(1);
        self.most = i64::try_from(most).unwrap_or(1).saturating_mul(HOUR);
        self.level = self.level.min(self.most);
    }

    fn refill(&mut self, now: Timestamp) {
        let micros = i64::try_from(now.since(self.at).as_micros()).unwrap_or(i64::MAX).min(HOUR);
        self.level = self.level.saturating_add(micros.saturating_mul(self.per_hour)).min(self.most);
        self.at = now;
    }

    const fn available(&self) -> i64 {
        self.level.div_euclid(HOUR)
    }

    fn take(&mut self, requests: i64) {
        self.level = self.level.saturating_sub(requests.saturating_mul(HOUR));
    }
}

/// The requests that polls may send to a code host now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    requests: Bucket,
    charged: Bucket,
    blocked_until: Option<Timestamp>,
}

impl Budget {
    /// Returns the budget of a code host, which is empty at first, so that restarts do not add up.
    #[must_use]
    pub fn new(kind: HostKind, now: Timestamp) -> Self {
        let Allowance { requests, charged } = Allowance::of(kind);
        Self { requests: Bucket::new(requests, now), charged: Bucket::new(charged, now), blocked_until: None }
    }

    /// Returns the number of repositories that may be polled now.
    #[must_use]
    pub fn available(&mut self, now: Timestamp) -> usize {
        self.requests.refill(now);
        self.charged.refill(now);
        if self.blocked_until.is_some_and(|until| until > now) {
            return 0;
        }
        self.blocked_until = None;
        usize::try_from(self.requests.available().min(self.charged.available())).unwrap_or(0)
    }

    /// Subtracts the requests of a poll.
    pub fn spend(&mut self, cost: Cost) {
        self.requests.take(cost.requests.into());
        self.charged.take(cost.charged.into());
    }

    /// Adapts the budget to the rate limit that the code host describes. If others have used so much that less than the
    /// share of polls is left, polls wait until the limit is reset.
    pub fn observe(&mut self, quota: Quota, now: Timestamp) {
        self.charged.set_limit(quota.limit);
        if quota.remaining < quota.limit / SHARE {
            self.block(quota.resets_at.min(now + Duration::from_secs(3600)));
        }
    }

    /// Sends nothing before a time.
    pub fn block(&mut self, until: Timestamp) {
        self.blocked_until = Some(self.blocked_until.map_or(until, |known| known.max(until)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    const ONE: Cost = Cost { requests: 1, charged: 1 };

    #[test]
    fn a_quarter_of_the_limit_is_used_in_an_hour() {
        for (kind, limit) in [(HostKind::Github, 5_000), (HostKind::Bitbucket, 1_000), (HostKind::Gitea, 20_000)] {
            let (mut budget, mut sent) = (Budget::new(kind, at(0)), 0);
            assert_eq!(budget.available(at(0)), 0, "a restart gives no requests");
            for second in 0..3600 {
                for _ in 0..budget.available(at(second)) {
                    budget.spend(ONE);
                    sent += 1;
                }
            }
            assert!(sent <= limit / 4 && sent > limit / 5, "{kind:?} {sent}");
        }
    }

    #[test]
    fn unchanged_answers_do_not_count_against_the_limit() {
        let (mut budget, mut sent) = (Budget::new(HostKind::Github, at(0)), 0);
        for second in 0..3600 {
            for _ in 0..budget.available(at(second)) {
                budget.spend(Cost { requests: 1, charged: 0 });
                sent += 1;
            }
        }
        assert!((10_000..=54_000 / 4).contains(&sent), "{sent}");
    }

    #[test]
    fn a_poll_that_needs_more_is_paid_back() {
        let mut budget = Budget::new(HostKind::Bitbucket, at(0));
        budget.spend(Cost { requests: 20, charged: 20 });
        assert_eq!((budget.available(at(200)), budget.available(at(600)) > 0), (0, true));
        // A clock that is set back gives nothing.
        budget.spend(ONE);
        let before = budget.clone().available(at(600));
        assert_eq!(budget.available(at(0)), before);
    }

    #[test]
    fn the_described_limit_counts() {
        let mut budget = Budget::new(HostKind::Github, at(0));
        let quota = |remaining: u64| Quota { limit: 12_500, remaining, resets_at: at(900) };
        budget.observe(quota(12_000), at(0));
        assert!(budget.available(at(60)) > 50);
        // Others use the credential too.
        budget.observe(quota(3_000), at(60));
        assert_eq!((budget.available(at(899)), budget.available(at(900)) > 0), (0, true));
        budget.block(at(1000));
        budget.block(at(950));
        assert_eq!((budget.available(at(960)), budget.available(at(1000)) > 0), (0, true));
    }
}
