//! The pace of requests that write content, for code hosts that limit how much one account writes.
//!
//! | host | limit | source |
//! |---|---|---|
//! | GitHub | 80 in a minute and 500 in an hour | "Rate limits for the REST API" (secondary limits) |
//! | GitLab | 60 notes in a minute on gitlab.com; 300 by default elsewhere | "GitLab.com settings", "Content creation rate limits" |
//! | others | none that they publish | |
//!
//! A request waits until it is within the limits. Pull requests, comments, replies, and their changes count. Reactions and
//! statuses do not: they are not content, and count towards the limits that [`super::limits`] reads.

use std::collections::VecDeque;
use std::time::Duration;

use http::Method;
use journeyman_core::code_host::HostKind;
use journeyman_core::time::Timestamp;

/// The longest time that a request waits. A longer wait is the error of a rate limit, and its caller tries again later.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A limit: so many requests in so much time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit(usize, Duration);

/// The limits of GitHub, less a few requests: people write as the same account, and requests do not all take the same time.
const GITHUB: &[Limit] = &[Limit(75, Duration::from_secs(60)), Limit(470, Duration::from_secs(3600))];

/// The limit of gitlab.com, less a few requests.
const GITLAB: &[Limit] = &[Limit(55, Duration::from_secs(60))];

/// The requests of one credential that write content.
#[derive(Debug)]
pub(super) struct Pace {
    limits: &'static [Limit],
    /// The times of the last requests, oldest first, also of those that still wait.
    sent: VecDeque<Timestamp>,
}

impl Pace {
    /// Returns the pace for a kind of code host.
    pub(super) const fn of(kind: HostKind) -> Self {
        let limits: &'static [Limit] = match kind {
            HostKind::Github => GITHUB,
            HostKind::Gitlab => GITLAB,
            HostKind::Gitea | HostKind::Forgejo | HostKind::Bitbucket | HostKind::BitbucketDataCenter => &[],
        };
        Self { limits, sent: VecDeque::new() }
    }

    /// Returns how long a request must wait before it is sent. Requests are sent in the order of these calls.
    ///
    /// # Errors
    /// The request would have to wait for longer than [`LONGEST_WAIT`]. It does not count.
    pub(super) fn reserve(&mut self, method: &Method, path: &str, now: Timestamp) -> Result<Duration, Duration> {
        if self.limits.is_empty() || !is_content(method, path) {
            return Ok(Duration::ZERO);
        }
        // Later times were recorded before the clock was set back.
        if self.sent.back().is_some_and(|last| *last > now + LONGEST_WAIT) {
            self.sent.clear();
        }
        let earliest = self.limits.iter().filter_map(|Limit(most, time)| {
            let index = self.sent.len().checked_sub(*most)?;
            self.sent.get(index).map(|sent| *sent + *time)
        });
        let at = earliest.chain(self.sent.back().copied()).fold(now, Timestamp::max);
        let wait = at.since(now);
        if wait > LONGEST_WAIT {
            return Err(wait);
        }
        self.sent.push_back(at);
        let most = self.limits.iter().map(|Limit(most, _)| *most).max().unwrap_or_default();
        while self.sent.len() > most {
            self.sent.pop_front();
        }
        Ok(wait)
    }

    /// Returns whether half of a limit is used, so that what may wait leaves the rest to others.
    pub(super) fn is_half_used(&self, now: Timestamp) -> bool {
        self.limits.iter().any(|Limit(most, time)| {
            self.sent.iter().rev().take_while(|sent| **sent + *time > now).take(most / 2 + 1).count() > most / 2
        })
    }
}

/// Returns whether a request writes content: a pull request, a comment or a reply.
fn is_content(method: &Method, path: &str) -> bool {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let kinds = ["comments", "replies", "notes", "pulls", "merge_requests", "issues", "reviews"];
    match (method, segments.as_slice()) {
        (&Method::POST, [.., last]) => kinds.contains(last),
        (&Method::PATCH | &Method::PUT, [.., kind, id]) => {
            kinds.contains(kind) && id.starts_with(|c: char| c.is_ascii_digit())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMENTS: &str = "/repos/acme/shop/issues/7/comments";

    fn second(second: u64) -> Timestamp {
        Timestamp::from_micros(1_800_000_000_000_000) + Duration::from_secs(second)
    }

    #[test]
    fn two_hundred_jobs_that_end_at_once_stay_within_the_limits() {
        for (kind, minute, hour) in [(HostKind::Github, 80, 500), (HostKind::Gitlab, 60, usize::MAX)] {
            let mut pace = Pace::of(kind);
            // Each writes its summary and two replies. Those that would wait too long come again later.
            let (mut waiting, mut sent, mut now) = (600, Vec::new(), 0);
            while waiting > 0 {
                match pace.reserve(&Method::POST, COMMENTS, second(now)) {
                    Ok(wait) => {
                        sent.push(second(now) + wait);
                        waiting -= 1;
                    }
                    Err(wait) => {
                        assert!(wait > LONGEST_WAIT, "{wait:?}");
                        now += 7;
                    }
                }
            }
            assert!(sent.is_sorted());
            for (most, time) in [(minute, 60), (hour, 3600)] {
                for start in &sent {
                    let within = |at: &&Timestamp| **at >= *start && **at < *start + Duration::from_secs(time);
                    assert!(sent.iter().filter(within).count() <= most, "{kind:?}");
                }
            }
            let took = sent.last().unwrap().since(second(0)).as_secs();
            assert!(took < if kind == HostKind::Github { 3800 } else { 700 }, "{kind:?}: {took} s");
        }
    }

    #[test]
    fn what_may_wait_leaves_half_of_the_limits() {
        let mut pace = Pace::of(HostKind::Github);
        for _ in 0..38 {
            assert!(!pace.is_half_used(second(0)));
            pace.reserve(&Method::POST, COMMENTS, second(0)).unwrap();
        }
        assert!(pace.is_half_used(second(59)));
        assert!(!pace.is_half_used(second(60)));
    }

    #[test]
    fn only_content_waits() {
        let mut pace = Pace::of(HostKind::Github);
        for _ in 0..75 {
            assert_eq!(pace.reserve(&Method::POST, COMMENTS, second(0)), Ok(Duration::ZERO));
        }
        let (post, patch, minute) = (&Method::POST, &Method::PATCH, Duration::from_secs(60));
        for (method, path, expected) in [
            (&Method::GET, COMMENTS, Duration::ZERO),
            (post, "/repos/acme/shop/issues/comments/5/reactions", Duration::ZERO),
            (post, "/repos/acme/shop/statuses/0123", Duration::ZERO),
            (post, "/graphql", Duration::ZERO),
            (post, "/repos/acme/shop/issues/7/labels", Duration::ZERO),
            (patch, "/repos/acme/pulls", Duration::ZERO),
            (post, COMMENTS, minute),
            (post, "/repos/acme/shop/pulls", minute),
            (post, "/repos/acme/shop/pulls/7/comments/5/replies", minute),
            (patch, "/repos/acme/shop/issues/comments/5", minute),
            (patch, "/repos/acme/shop/pulls/7", minute),
        ] {
            assert_eq!(pace.reserve(method, path, second(0)), Ok(expected), "{method} {path}");
        }
        assert_eq!(pace.reserve(post, COMMENTS, second(50)), Ok(Duration::from_secs(10)));
        assert_eq!(Pace::of(HostKind::Gitea).reserve(post, COMMENTS, second(0)), Ok(Duration::ZERO));
        // The clock was set back.
        let before = Timestamp::from_micros(1_000_000);
        assert_eq!(pace.reserve(post, COMMENTS, before), Ok(Duration::ZERO));
    }
}
