//! The end of credentials, and the credentials that the service watches.

use std::time::Duration;

use super::CodeHostId;
use crate::finding::{Finding, Health};
use crate::ids::ProjectId;
use crate::time::Timestamp;

/// The name of the test of the end of a credential.
pub const EXPIRY: &str = "expiry";

/// The time before the end of a credential from which people are warned.
pub const WARNED: Duration = Duration::from_secs(14 * DAY);

const DAY: u64 = 24 * 3600;

/// The end of a credential, as its code host tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// The time from which the code host refuses the credential.
    At(Timestamp),
    /// The credential has no end, such as the private key of an app.
    Never,
    /// The code host does not tell.
    Unknown,
}

impl Expiry {
    /// Returns the finding about the end of a credential; `None` if there is no known end.
    #[must_use]
    pub fn finding(self, now: Timestamp) -> Option<Finding> {
        let Self::At(at) = self else { return None };
        let finding = |health, text: String| Finding { at: Some(at), ..Finding::new(EXPIRY, health, text) };
        if at <= now {
            let text = "create a new token and set it: the code host refuses this one, which expired";
            return Some(finding(Health::Failure, text.to_owned()));
        }
        let left = at.since(now);
        if left > WARNED {
            return Some(finding(Health::Ok, "the token expires".to_owned()));
        }
        let within = match left.as_secs() / DAY {
            0 => "today".to_owned(),
            1 => "within a day".to_owned(),
            days => format!("within {days} days"),
        };
        let text = format!("create a new token {within} and set it: jobs stop when this one expires");
        Some(finding(Health::Warning, text))
    }
}

/// The owner of a watched credential.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum CredentialOwner {
    /// A code host.
    Host(CodeHostId),
    /// A project with its own token, and its code host.
    Project(ProjectId, CodeHostId),
}

impl CredentialOwner {
    /// Returns the code host of the credential.
    #[must_use]
    pub const fn host(&self) -> &CodeHostId {
        match self {
            Self::Host(host) | Self::Project(_, host) => host,
        }
    }
}

/// A credential, as its last test has described it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedCredential {
    /// The owner.
    pub owner: CredentialOwner,
    /// The version of the owner when the credential was tested. Another version may have another credential.
    pub version: u64,
    /// The time of the test.
    pub tested_at: Timestamp,
    /// The time from which the code host refuses the credential, if it has told one.
    pub expires_at: Option<Timestamp>,
    /// The findings that people must act on, without those about its end, which depend on the current time.
    pub problems: Vec<Finding>,
}

impl WatchedCredential {
    /// Returns the findings that people must act on now.
    #[must_use]
    pub fn warnings(&self, now: Timestamp) -> Vec<Finding> {
        let expiry = self.expires_at.and_then(|at| Expiry::At(at).finding(now));
        let expiry = expiry.filter(|finding| finding.health != Health::Ok);
        expiry.into_iter().chain(self.problems.iter().cloned()).collect()
    }
}

/// Returns the parts of a test of a code host that the watch of its credential keeps: the end of the credential, and the
/// other findings that people must act on. Failures that may pass, such as a server that does not answer, are not among
/// them.
#[must_use]
pub fn watched(findings: Vec<Finding>) -> (Option<Timestamp>, Vec<Finding>) {
    let expires_at = findings.iter().find(|finding| finding.check == EXPIRY).and_then(|finding| finding.at);
    let is_kept = |finding: &Finding| match finding.check.as_str() {
        "credential" => finding.health == Health::Failure,
        "permissions" | "installations" => finding.health != Health::Ok,
        _ => false,
    };
    (expires_at, findings.into_iter().filter(is_kept).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(number: u64) -> Timestamp {
        Timestamp::from_micros(1_800_000_000_000_000) + Duration::from_secs(number * DAY)
    }

    #[test]
    fn people_are_warned_for_two_weeks_before_the_end() {
        let now = day(100);
        let table = [
            (day(115), Health::Ok, "the token expires"),
            (day(114) + Duration::from_secs(1), Health::Ok, "the token expires"),
            (day(114), Health::Warning, "within 14 days"),
            (day(102) + Duration::from_secs(7200), Health::Warning, "within 2 days"),
            (day(101), Health::Warning, "within a day"),
            (day(100) + Duration::from_secs(3600), Health::Warning, "a new token today"),
            (day(100), Health::Failure, "refuses this one"),
            (day(99), Health::Failure, "refuses this one"),
        ];
        for (at, health, text) in table {
            let finding = Expiry::At(at).finding(now).unwrap();
            assert_eq!((finding.health, finding.at), (health, Some(at)), "{finding:?}");
            assert!(finding.text.contains(text), "{finding:?}");
        }
        for unknown in [Expiry::Never, Expiry::Unknown] {
            assert_eq!(unknown.finding(now), None);
        }
    }

    #[test]
    fn the_watch_keeps_what_people_must_act_on() {
        let findings = vec![
            Finding::failure("address", "no answer"),
            Finding::warning("credential", "access tokens have no user"),
            Finding::failure("credential", "refused"),
            Finding { at: Some(day(3)), ..Finding::ok(EXPIRY, "the token expires") },
            Finding::failure("permissions", "missing"),
            Finding::ok("installations", "installed by acme"),
            Finding::warning("installations", "suspended"),
        ];
        let (expires_at, problems) = watched(findings);
        let texts: Vec<&str> = problems.iter().map(|finding| finding.text.as_str()).collect();
        assert_eq!((expires_at, texts), (Some(day(3)), vec!["refused", "missing", "suspended"]));
    }

    #[test]
    fn the_warnings_of_a_credential_depend_on_the_time() {
        let owner = CredentialOwner::Host("github".parse().unwrap());
        let problems = vec![Finding::warning("installations", "suspended")];
        let credential =
            WatchedCredential { owner, version: 1, tested_at: day(0), expires_at: Some(day(20)), problems };
        let checks = |now| {
            let found = credential.warnings(now);
            found.iter().map(|finding| (finding.check.clone(), finding.health)).collect::<Vec<_>>()
        };
        let suspended = ("installations".to_owned(), Health::Warning);
        assert_eq!(checks(day(1)), std::slice::from_ref(&suspended));
        assert_eq!(checks(day(10)), [(EXPIRY.to_owned(), Health::Warning), suspended.clone()]);
        assert_eq!(checks(day(21)), [(EXPIRY.to_owned(), Health::Failure), suspended]);
    }
}
