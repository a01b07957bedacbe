//! Rate limits of code hosts, as their answers describe them. A limit stops only the requests that it counts:
//!
//! | answer | what stops |
//! |---|---|
//! | none is left (`X-RateLimit-Remaining` or `RateLimit-Remaining` is 0) | the group of operations, otherwise the host |
//! | 429 with the text "Retry later" | the host |
//! | a secondary limit, for a change | all changes |
//! | every other 429, and a secondary limit for a read | the operation |
//! | a success with `Retry-After` | the operation |
//!
//! `X-RateLimit-Resource` and `RateLimit-Name` name the group. The sources are "Rate limits for the REST API" (GitHub; its
//! secondary limits count the creation of content), "User and IP rate limits" (GitLab; "Retry later" is its answer when all
//! requests of a user are limited), and "API request limits" (Bitbucket Cloud).
//!
//! The same headers are read on success, so that the service stops before it is refused.

use std::collections::HashMap;
use std::time::Duration;

use http::{Method, StatusCode};
use journeyman_core::poll::Quota;
use journeyman_core::time::Timestamp;

use super::answer::Answer;

/// The time to wait after a rate limit if the host does not say.
const DEFAULT_WAIT: Duration = Duration::from_secs(60);

/// The longest time to wait after a rate limit.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// The maximum number of operations and groups that are remembered.
const MOST: usize = 1000;

/// The time for which polls wait when Bitbucket Cloud says that less than a fifth of the requests of an hour is left. The
/// hour moves with each minute, so that requests come back.
const NEAR_LIMIT: Duration = Duration::from_secs(600);

/// The number of requests that Bitbucket Cloud accepts in an hour, if it does not say.
const BITBUCKET_LIMIT: u64 = 1000;

/// An operation: the method, and the path without the parts that name a repository, a number or the like.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Operation(String);

impl Operation {
    /// Returns the operation of a request. `path` is the path of the URL without that of the interface.
    pub(super) fn of(method: &Method, path: &str) -> Self {
        let mut text = method.as_str().to_owned();
        // The number of names that follow.
        let mut names = 0_usize;
        for segment in path.split('/').filter(|segment| !segment.is_empty()) {
            let is_name = names > 0
                || segment.len() > 30
                || segment.contains(|c: char| !c.is_ascii_alphabetic() && !"-_".contains(c));
            text.push('/');
            text.push_str(if is_name { "*" } else { segment });
            names = match segment {
                _ if names > 0 => names - 1,
                "repos" if !text.contains("/projects/") => 2,
                "repositories" => 2,
                "repos" | "projects" | "users" | "orgs" | "groups" | "branches" | "collaborators" => 1,
                _ => 0,
            };
        }
        Self(text)
    }

    fn is_change(&self) -> bool {
        !self.0.starts_with("GET/")
    }
}

/// What a rate limit stops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scope {
    /// All requests.
    Host,
    /// All requests that change something.
    Changes,
    /// The operations of a group, by its name.
    Group(String),
    /// The operation.
    Operation,
}

/// The operations that a host accepts only later.
#[derive(Default)]
pub(super) struct Stopped {
    host: Option<Timestamp>,
    changes: Option<Timestamp>,
    groups: HashMap<String, Timestamp>,
    operations: HashMap<Operation, Timestamp>,
    /// The groups of operations, as far as answers have named them.
    group_of: HashMap<Operation, String>,
}

impl Stopped {
    /// Returns the time until which the host accepts no requests of an operation. A time that is too far ahead was
    /// recorded before the clock was set back, and does not count.
    pub(super) fn until(&self, operation: &Operation, now: Timestamp) -> Option<Timestamp> {
        let group = self.group_of.get(operation).and_then(|group| self.groups.get(group)).copied();
        let changes = self.changes.filter(|_| operation.is_change());
        let own = self.operations.get(operation).copied();
        let all = [self.host, changes, group, own].into_iter().flatten();
        all.filter(|until| *until > now && *until <= now + LONGEST_WAIT).max()
    }

    /// Records what an answer says, and returns the time to wait if the answer is a refusal.
    pub(super) fn record(&mut self, operation: &Operation, answer: &Answer, now: Timestamp) -> Option<Duration> {
        if self.groups.len() + self.operations.len() + self.group_of.len() > MOST {
            self.groups.retain(|_, until| *until > now);
            self.operations.retain(|_, until| *until > now);
            self.group_of.clear();
        }
        if let Some(group) = answer.group() {
            self.group_of.insert(operation.clone(), group.to_owned());
        }
        let (scope, wait, is_refused) = match answer.refused(operation, now) {
            Some((scope, wait)) => (scope, wait, true),
            None => {
                let (scope, wait) = answer.announced(now)?;
                (scope, wait, false)
            }
        };
        let until = now + wait;
        match scope {
            Scope::Host => self.host = Some(until),
            Scope::Changes => self.changes = Some(until),
            Scope::Group(group) => drop(self.groups.insert(group, until)),
            Scope::Operation => drop(self.operations.insert(operation.clone(), until)),
        }
        is_refused.then_some(wait)
    }
}

impl Answer {
    fn number(&self, name: &str) -> Option<i64> {
        self.header(name).and_then(|text| text.trim().parse().ok())
    }

    /// Returns the name of the group of operations that share the rate limit.
    fn group(&self) -> Option<&str> {
        let name = self.header("x-ratelimit-resource").or_else(|| self.header("ratelimit-name"));
        name.map(str::trim).filter(|name| !name.is_empty() && name.len() <= 100)
    }

    /// Returns the number of requests that are left.
    fn remaining(&self) -> Option<i64> {
        self.number("x-ratelimit-remaining").or_else(|| self.number("ratelimit-remaining"))
    }

    /// Returns the time until the number of requests is reset. Hosts write a time in seconds since 1970, and drafts of the
    /// IETF a number of seconds.
    fn reset(&self, now: Timestamp) -> Option<Duration> {
        let reset = self.number("x-ratelimit-reset").or_else(|| self.number("ratelimit-reset"))?;
        let seconds = if reset > 1_000_000_000 { reset - now.as_micros() / 1_000_000 } else { reset };
        Some(bounded(seconds))
    }

    /// Returns what stops for how long because the answer refuses a request for a rate limit.
    fn refused(&self, operation: &Operation, now: Timestamp) -> Option<(Scope, Duration)> {
        let is_refusal = matches!(self.status, StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS);
        if !is_refusal {
            return None;
        }
        let text = String::from_utf8_lossy(&self.body).to_lowercase();
        let has_none_left = self.remaining() == Some(0);
        let retry_after = self.number("retry-after");
        let says_so = text.contains("rate limit");
        if self.status == StatusCode::FORBIDDEN && !(retry_after.is_some() || has_none_left || says_so) {
            return None;
        }
        let scope = if has_none_left {
            self.group().map_or(Scope::Host, |group| Scope::Group(group.to_owned()))
        } else if text.trim_start().starts_with("retry later") {
            Scope::Host
        } else if text.contains("secondary rate limit") && operation.is_change() {
            Scope::Changes
        } else {
            Scope::Operation
        };
        let reset = || self.reset(now).filter(|_| has_none_left);
        Some((scope, retry_after.map(bounded).or_else(reset).unwrap_or(DEFAULT_WAIT)))
    }

    /// Returns what stops for how long because a success says that the next request would be refused.
    fn announced(&self, now: Timestamp) -> Option<(Scope, Duration)> {
        if !(self.status.is_success() || self.status == StatusCode::NOT_MODIFIED) {
            return None;
        }
        if self.remaining() == Some(0) {
            let scope = self.group().map_or(Scope::Host, |group| Scope::Group(group.to_owned()));
            return self.reset(now).map(|wait| (scope, wait));
        }
        let seconds = self.number("retry-after").filter(|seconds| *seconds > 0)?;
        Some((Scope::Operation, bounded(seconds)))
    }

    /// Returns the rate limit of an hour for polls, as far as the answer describes it; `Some(None)` if the answer says that
    /// the limit is far.
    pub(super) fn quota(&self, now: Timestamp) -> Option<Option<Quota>> {
        let number = |name: &str| self.number(name).and_then(|number| u64::try_from(number).ok());
        if let Some(near) = self.header("x-ratelimit-nearlimit") {
            let limit = number("x-ratelimit-limit").unwrap_or(BITBUCKET_LIMIT);
            let quota = Quota { limit, remaining: limit / 5, resets_at: now + NEAR_LIMIT };
            return Some(near.trim().eq_ignore_ascii_case("true").then_some(quota));
        }
        if let (Some(limit), Some(remaining), Some(reset)) =
            (number("x-ratelimit-limit"), number("x-ratelimit-remaining"), self.number("x-ratelimit-reset"))
        {
            let resets_at = Timestamp::from_micros(reset.checked_mul(1_000_000)?);
            return Some(Some(Quota { limit, remaining, resets_at }));
        }
        let (limit, remaining) = (number("ratelimit-limit")?, number("ratelimit-remaining")?);
        let reset = self.reset(now)?;
        // GitLab counts the requests of a minute by default.
        let scale = if reset <= Duration::from_secs(60) { 60 } else { 1 };
        let quota = Quota {
            limit: limit.saturating_mul(scale),
            remaining: remaining.saturating_mul(scale),
            resets_at: now + reset,
        };
        Some(Some(quota))
    }
}

/// Returns a number of seconds as the time to wait.
fn bounded(seconds: i64) -> Duration {
    Duration::from_secs(seconds.max(1).unsigned_abs()).min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, HeaderName};

    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn now() -> Timestamp {
        Timestamp::from_micros(NOW * 1_000_000)
    }

    fn answer(status: u16, headers: &[(&str, &str)], body: &'static str) -> Answer {
        let headers: HeaderMap =
            headers.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect();
        Answer { status: StatusCode::from_u16(status).unwrap(), headers, body: Bytes::from_static(body.as_bytes()) }
    }

    fn operation(method: &Method, path: &str) -> Operation {
        Operation::of(method, path)
    }

    #[test]
    fn an_operation_has_no_names_and_numbers() {
        for (path, expected) in [
            ("/repos/acme/shop/pulls/7", "GET/repos/*/*/pulls/*"),
            ("/repos/acme/issues/issues", "GET/repos/*/*/issues"),
            ("/projects/5/merge_requests/7/notes", "GET/projects/*/merge_requests/*/notes"),
            (
                "/api/latest/projects/ACME/repos/shop/commits/abc1/builds",
                "GET/api/latest/projects/*/repos/*/commits/*/builds",
            ),
            ("/repositories/acme/shop/commit/aaaa1111/statuses", "GET/repositories/*/*/commit/*/statuses"),
            ("/users/ada", "GET/users/*"),
            ("/user", "GET/user"),
        ] {
            assert_eq!(operation(&Method::GET, path).0, expected, "{path}");
        }
    }

    /// Returns which of three requests are stopped after an answer to a read of notes: another read of notes, another read,
    /// and a change.
    fn stopped(method: &Method, answers: &[&Answer]) -> [Option<u64>; 3] {
        let notes = operation(method, "/projects/1/notes");
        let mut stopped = Stopped::default();
        let others = [operation(&Method::GET, "/projects/1/issues"), operation(&Method::POST, "/projects/1/issues")];
        for other in &others {
            stopped.group_of.insert(other.clone(), "core".to_owned());
        }
        for answer in answers {
            stopped.record(&notes, answer, now());
        }
        let again = operation(method, "/projects/2/notes");
        [&again, &others[0], &others[1]].map(|one| stopped.until(one, now()).map(|until| until.since(now()).as_secs()))
    }

    #[test]
    fn a_limit_stops_only_what_it_counts() {
        let (get, post) = (&Method::GET, &Method::POST);
        let reset = (NOW + 90).to_string();
        let reset = reset.as_str();
        for (method, what, expected) in [
            (get, answer(429, &[("retry-after", "30")], "{}"), [Some(30), None, None]),
            (get, answer(429, &[], "{}"), [Some(60), None, None]),
            (get, answer(429, &[], "Retry later\n"), [Some(60); 3]),
            (get, answer(403, &[], "You have exceeded a secondary rate limit."), [Some(60), None, None]),
            (post, answer(403, &[("retry-after", "9")], "a secondary rate limit"), [Some(9), None, Some(9)]),
            (get, answer(403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", reset)], ""), [Some(90); 3]),
            (
                get,
                answer(
                    429,
                    &[("ratelimit-remaining", "0"), ("ratelimit-name", "files"), ("ratelimit-reset", reset)],
                    "",
                ),
                [Some(90), None, None],
            ),
            (
                get,
                answer(
                    200,
                    &[("x-ratelimit-remaining", "0"), ("x-ratelimit-resource", "core"), ("x-ratelimit-reset", reset)],
                    "",
                ),
                [Some(90); 3],
            ),
            (get, answer(200, &[("ratelimit-remaining", "0"), ("ratelimit-reset", "40")], ""), [Some(40); 3]),
            (get, answer(202, &[("retry-after", "5")], ""), [Some(5), None, None]),
            (get, answer(429, &[("retry-after", "999999")], ""), [Some(3600), None, None]),
            (get, answer(403, &[], "{\"message\": \"no access\"}"), [None; 3]),
            (get, answer(200, &[("x-ratelimit-remaining", "1"), ("x-ratelimit-reset", reset)], ""), [None; 3]),
            (get, answer(404, &[("retry-after", "5")], ""), [None; 3]),
        ] {
            assert_eq!(stopped(method, &[&what]), expected, "{} {:?} {:?}", what.status, what.headers, what.body);
        }
    }

    #[test]
    fn only_a_refusal_is_an_error() {
        let mut stopped = Stopped::default();
        let user = operation(&Method::GET, "/user");
        let announced = answer(200, &[("ratelimit-remaining", "0"), ("ratelimit-reset", "40")], "");
        assert_eq!(stopped.record(&user, &announced, now()), None);
        assert!(stopped.until(&user, now()).is_some());
        let refused = answer(429, &[("retry-after", "30")], "");
        assert_eq!(stopped.record(&user, &refused, now()), Some(Duration::from_secs(30)));
        assert_eq!(stopped.until(&user, now() + Duration::from_secs(41)), None);
        // The clock was set back.
        assert_eq!(stopped.until(&user, Timestamp::from_micros((NOW - 7200) * 1_000_000)), None);
    }

    #[test]
    fn polls_get_the_limit_of_an_hour() {
        let after = |seconds: u64| now() + Duration::from_secs(seconds);
        let reset = (NOW + 50).to_string();
        let github = answer(
            200,
            &[("x-ratelimit-limit", "5000"), ("x-ratelimit-remaining", "7"), ("x-ratelimit-reset", &reset)],
            "",
        );
        assert_eq!(github.quota(now()), Some(Some(Quota { limit: 5000, remaining: 7, resets_at: after(50) })));
        let gitlab = answer(
            200,
            &[("ratelimit-limit", "2000"), ("ratelimit-remaining", "100"), ("ratelimit-reset", &reset)],
            "",
        );
        let quota = Quota { limit: 120_000, remaining: 6000, resets_at: after(50) };
        assert_eq!(gitlab.quota(now()), Some(Some(quota)));
        let near = answer(200, &[("x-ratelimit-nearlimit", "true"), ("x-ratelimit-limit", "1000")], "");
        assert_eq!(near.quota(now()), Some(Some(Quota { limit: 1000, remaining: 200, resets_at: after(600) })));
        assert_eq!(answer(200, &[("x-ratelimit-nearlimit", "false")], "").quota(now()), Some(None));
        assert_eq!(answer(200, &[], "").quota(now()), None);
    }
}
