//! Identifiers: a prefix for the kind, then a version 7 UUID as 32 hexadecimal digits.
//!
//! Version 7 sorts by creation time, so an index on IDs grows at its end.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// An error for a text that is not an ID of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an id of the form {prefix}_ and 32 hexadecimal digits")]
pub struct InvalidId {
    prefix: &'static str,
    text: String,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// The prefix before the underscore.
            pub const PREFIX: &'static str = $prefix;

            /// Creates an ID from a UUID, which comes from [`crate::time::IdGen`] for new IDs.
            #[must_use]
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// Returns the UUID.
            #[must_use]
            pub const fn uuid(&self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "_{}"), self.0.simple())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            /// Accepts only the canonical form, so that each ID has exactly one spelling.
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let invalid = || InvalidId { prefix: $prefix, text: text.chars().take(80).collect() };
                let digits = text.strip_prefix(concat!($prefix, "_")).ok_or_else(invalid)?;
                let canonical = digits.len() == 32
                    && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
                if !canonical {
                    return Err(invalid());
                }
                Uuid::try_parse(digits).map(Self).map_err(|_| invalid())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id!(
    /// The ID of a job: work on one branch.
    JobId,
    "job"
);
id!(
    /// The ID of a message: one input to a job.
    MessageId,
    "msg"
);
id!(
    /// The ID of a run: one leased attempt at one message.
    RunId,
    "run"
);
id!(
    /// The ID of an API key.
    KeyId,
    "key"
);
id!(
    /// The ID of a worker: a process that carries out runs. It is stored in the worker's data directory.
    WorkerId,
    "wrk"
);
id!(
    /// The ID of a webhook: an endpoint of a project that receives events.
    WebhookId,
    "whk"
);

id!(
    /// The ID of a template: a prompt of a project that people choose when they create a job.
    TemplateId,
    "tpl"
);

id!(
    /// The ID of a trust: a rule about which tokens of an OpenID issuer are exchanged for keys.
    TrustId,
    "trust"
);

id!(
    /// The ID of a connected Slack workspace.
    SlackWorkspaceId,
    "slw"
);

id!(
    /// The ID of a user of the dashboard.
    UserId,
    "usr"
);

impl JobId {
    /// Returns eight hexadecimal digits to show to people, from the random end of the ID. The beginning of the ID is
    /// the time, which is similar for jobs that were created together.
    #[must_use]
    pub fn short(&self) -> String {
        let text = self.0.simple().to_string();
        text.chars().skip(24).collect()
    }
}

/// The ID of a project, as used in URLs: `[a-z0-9][a-z0-9-]{0,62}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProjectId(String);

/// An error for a text that is not a project ID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a project id is 1 to 63 characters of a-z, 0-9 and '-', and begins with a letter or digit")]
pub struct InvalidProjectId;

impl ProjectId {
    /// Returns the ID as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Suggests an ID like the name of a repository, which is given as its address or its path; `None` if the name has no
    /// characters that an ID can have.
    #[must_use]
    pub fn suggest(repository: &str) -> Option<Self> {
        let name = repository.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or_default();
        let name = name.strip_suffix(".git").unwrap_or(name).to_lowercase();
        let id: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let id: String = id.trim_start_matches('-').chars().take(63).collect();
        id.trim_end_matches('-').parse().ok()
    }
}

impl FromStr for ProjectId {
    type Err = InvalidProjectId;

    fn from_str(text: &str) -> Result<Self, InvalidProjectId> {
        let slug = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let valid = (1..=63).contains(&text.len()) && text.bytes().all(slug) && !text.starts_with('-');
        if valid { Ok(Self(text.to_owned())) } else { Err(InvalidProjectId) }
    }
}

impl TryFrom<String> for ProjectId {
    type Error = InvalidProjectId;

    fn try_from(text: String) -> Result<Self, InvalidProjectId> {
        text.parse()
    }
}

impl From<ProjectId> for String {
    fn from(id: ProjectId) -> Self {
        id.0
    }
}

impl fmt::Display for ProjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The full hash of a git commit: 40 hexadecimal digits (SHA-1) or 64 (SHA-256).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha(String);

/// An error for a text that is not a full commit hash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a full commit hash, which has 40 or 64 lower-case hexadecimal digits")]
pub struct InvalidSha(String);

impl Sha {
    /// Returns the hash as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Sha {
    type Err = InvalidSha;

    fn from_str(text: &str) -> Result<Self, InvalidSha> {
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if matches!(text.len(), 40 | 64) && text.bytes().all(hex) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidSha(text.chars().take(80).collect()))
        }
    }
}

impl TryFrom<String> for Sha {
    type Error = InvalidSha;

    fn try_from(text: String) -> Result<Self, InvalidSha> {
        text.parse()
    }
}

impl From<Sha> for String {
    fn from(sha: Sha) -> Self {
        sha.0
    }
}

impl fmt::Display for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_unchanged_after_a_round_trip_through_text() {
        let id = JobId::from_uuid(Uuid::from_u128(0x0193_4567_89ab_7def_8123_4567_89ab_cdef));
        assert_eq!(id.to_string(), "job_0193456789ab7def8123456789abcdef");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.short(), "89abcdef");
    }

    #[test]
    fn an_id_has_one_spelling() {
        for text in ["", "job_", "msg_0193456789ab7def8123456789abcdef", "job_0193456789AB7DEF8123456789ABCDEF"] {
            assert!(text.parse::<JobId>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_name_of_a_repository_suggests_the_id_of_a_project() {
        let long = format!("https://h.example/a/--{}-{}", "x".repeat(62), "y".repeat(9));
        for (repository, id) in [
            ("https://github.com/acme/Shop.git", Some("shop")),
            ("git@github.com:acme/web_app", Some("web-app")),
            ("https://h.example/a/.dot-/", Some("dot")),
            ("https://h.example/a/日本", None),
            ("acme/Shop", Some("shop")),
            ("a/b/web_site.js", Some("web-site-js")),
            ("a/-x", Some("x")),
            ("a/...", None),
            ("", None),
            (long.as_str(), Some("x".repeat(62).as_str())),
        ] {
            assert_eq!(ProjectId::suggest(repository).as_ref().map(ProjectId::as_str), id, "{repository}");
        }
    }

    #[test]
    fn project_ids_are_slugs() {
        for good in ["a", "0", "web-shop", &"a".repeat(63)] {
            assert!(good.parse::<ProjectId>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "A", "a_b", "a/b", "ä", "..", &"a".repeat(64)] {
            assert!(bad.parse::<ProjectId>().is_err(), "{bad}");
        }
    }
}
