//! Refusals of changes: what is refused, about what, and why. The status and the code that clients see derive from them.

use std::time::Duration;

use crate::idempotency::KeyReused;

/// What a refusal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceKind {
    /// A project.
    Project,
    /// A job.
    Job,
    /// A webhook of a project.
    Webhook,
    /// A template of a project.
    Template,
    /// A code host.
    CodeHost,
    /// A trust.
    Trust,
    /// A token that is exchanged for a key.
    Token,
    /// An API key.
    Key,
    /// A user.
    User,
    /// An administrator who may sign in.
    Administrator,
    /// The account of a user at the OpenID provider.
    Identity,
    /// The password of a user.
    Password,
    /// The second factor of a user.
    SecondFactor,
    /// A code of a second factor.
    Code,
    /// A passkey of a user.
    Passkey,
    /// A sign-in link.
    Link,
    /// A Slack workspace.
    SlackWorkspace,
    /// A code that connects an account of Slack with a user.
    SlackCode,
    /// A pull request of the built-in code host.
    PullRequest,
    /// A comment on a line of a pull request.
    Comment,
    /// A review of a pull request.
    Review,
    /// An idempotency key.
    IdempotencyKey,
}

impl ResourceKind {
    /// Returns the name in codes, and in the rows that remember deletions.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Job => "job",
            Self::Webhook => "webhook",
            Self::Template => "template",
            Self::CodeHost => "code_host",
            Self::Trust => "trust",
            Self::Token => "token",
            Self::Key => "key",
            Self::User => "user",
            Self::Administrator => "administrator",
            Self::Identity => "identity",
            Self::Password => "password",
            Self::SecondFactor => "second_factor",
            Self::Code => "code",
            Self::Passkey => "passkey",
            Self::Link => "link",
            Self::SlackWorkspace => "slack_workspace",
            Self::SlackCode => "slack_code",
            Self::PullRequest => "pull_request",
            Self::Comment => "comment",
            Self::Review => "review",
            Self::IdempotencyKey => "idempotency_key",
        }
    }

    /// Returns the noun for people.
    #[must_use]
    pub fn noun(self) -> String {
        self.name().replace('_', " ").replace("slack", "Slack")
    }
}

/// The kind of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// The resource does not exist.
    NotFound,
    /// The resource exists already, or another one has its name.
    Exists,
    /// The resource would have a value that is not valid.
    Invalid,
    /// There are as many as are allowed.
    TooMany,
    /// The resource works at the moment.
    Busy,
    /// Something else refers to the resource.
    Used,
    /// The resource has ended, so that it cannot be changed or used.
    Ended,
    /// The resource is disabled.
    Disabled,
    /// The resource is missing that the change needs, or would be missing after it.
    Missing,
    /// The resource was changed at the same time.
    Changed,
    /// The resource has another version or state than the request requires.
    VersionMismatch,
    /// The resource does not permit the change.
    Forbidden,
    /// The resource was used too often; another attempt may succeed after this time.
    TooOften(Duration),
    /// The idempotency key belongs to another request.
    KeyReused,
}

/// A refusal of a change. Nothing was stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Refusal {
    /// The kind.
    pub kind: RefusalKind,
    /// What it is about.
    pub resource: ResourceKind,
    /// The reason and what to do about it, for people.
    pub detail: String,
}

impl Refusal {
    /// Returns a refusal.
    #[must_use]
    pub fn new(kind: RefusalKind, resource: ResourceKind, detail: impl Into<String>) -> Self {
        Self { kind, resource, detail: detail.into() }
    }

    /// Returns the refusal for something that does not exist.
    #[must_use]
    pub fn not_found(resource: ResourceKind) -> Self {
        Self::new(RefusalKind::NotFound, resource, format!("there is no such {}", resource.noun()))
    }

    /// Returns the refusal for a value that is not valid. `detail` names the field.
    #[must_use]
    pub fn invalid(resource: ResourceKind, detail: impl Into<String>) -> Self {
        Self::new(RefusalKind::Invalid, resource, detail)
    }

    /// Returns the refusal for another version than the request requires.
    #[must_use]
    pub fn version_mismatch(resource: ResourceKind) -> Self {
        let detail = "the resource has changed since you read it; read it again, and repeat the change";
        Self::new(RefusalKind::VersionMismatch, resource, detail)
    }

    /// Returns whether the refusal is of this kind, and about this.
    #[must_use]
    pub fn is(&self, kind: RefusalKind, resource: ResourceKind) -> bool {
        self.kind == kind && self.resource == resource
    }

    /// Returns whether the resource has another version than the request requires.
    #[must_use]
    pub const fn is_version_mismatch(&self) -> bool {
        matches!(self.kind, RefusalKind::VersionMismatch)
    }

    /// Returns the code that clients see.
    #[must_use]
    pub fn code(&self) -> String {
        let name = self.resource.name();
        let suffix = match (self.kind, self.resource) {
            (RefusalKind::Invalid, _) => return "invalid_body".to_owned(),
            (RefusalKind::VersionMismatch, _) => return "precondition_failed".to_owned(),
            (RefusalKind::Changed, _) => return "changed_meanwhile".to_owned(),
            (RefusalKind::KeyReused, _) => return "idempotency_key_reused".to_owned(),
            (RefusalKind::TooOften(_), _) => return "too_many_exchanges".to_owned(),
            (RefusalKind::TooMany, _) => return format!("too_many_{name}s"),
            (RefusalKind::Forbidden, ResourceKind::Key) => return "key_limited".to_owned(),
            (RefusalKind::Forbidden, _) => return "token_not_trusted".to_owned(),
            (RefusalKind::Missing, ResourceKind::Administrator) => return "last_administrator".to_owned(),
            (RefusalKind::NotFound, _) => "not_found",
            (RefusalKind::Exists, _) => "exists",
            (RefusalKind::Busy, _) => "busy",
            (RefusalKind::Used, _) => "used",
            (RefusalKind::Ended, _) => "ended",
            (RefusalKind::Disabled, _) => "disabled",
            (RefusalKind::Missing, _) => "missing",
        };
        format!("{name}_{suffix}")
    }

    /// Returns the status of an HTTP response with this refusal (RFC 9110, RFC 6585).
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self.kind {
            RefusalKind::Invalid => 400,
            RefusalKind::Forbidden => 403,
            RefusalKind::NotFound => 404,
            RefusalKind::VersionMismatch => 412,
            RefusalKind::KeyReused => 422,
            RefusalKind::TooOften(_) => 429,
            RefusalKind::Exists
            | RefusalKind::TooMany
            | RefusalKind::Busy
            | RefusalKind::Used
            | RefusalKind::Ended
            | RefusalKind::Disabled
            | RefusalKind::Missing
            | RefusalKind::Changed => 409,
        }
    }
}

impl From<KeyReused> for Refusal {
    fn from(error: KeyReused) -> Self {
        Self::new(RefusalKind::KeyReused, ResourceKind::IdempotencyKey, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_and_the_status_derive_from_the_kind_and_the_resource() {
        for (kind, resource, code, status) in [
            (RefusalKind::NotFound, ResourceKind::SlackWorkspace, "slack_workspace_not_found", 404),
            (RefusalKind::Exists, ResourceKind::CodeHost, "code_host_exists", 409),
            (RefusalKind::TooMany, ResourceKind::Template, "too_many_templates", 409),
            (RefusalKind::Invalid, ResourceKind::Trust, "invalid_body", 400),
            (RefusalKind::Used, ResourceKind::CodeHost, "code_host_used", 409),
            (RefusalKind::Busy, ResourceKind::Job, "job_busy", 409),
            (RefusalKind::Ended, ResourceKind::Key, "key_ended", 409),
            (RefusalKind::Disabled, ResourceKind::User, "user_disabled", 409),
            (RefusalKind::Missing, ResourceKind::Identity, "identity_missing", 409),
            (RefusalKind::Missing, ResourceKind::Administrator, "last_administrator", 409),
            (RefusalKind::Changed, ResourceKind::Project, "changed_meanwhile", 409),
            (RefusalKind::VersionMismatch, ResourceKind::Job, "precondition_failed", 412),
            (RefusalKind::Forbidden, ResourceKind::Key, "key_limited", 403),
            (RefusalKind::Forbidden, ResourceKind::Trust, "token_not_trusted", 403),
            (RefusalKind::TooOften(Duration::ZERO), ResourceKind::Token, "too_many_exchanges", 429),
        ] {
            let refusal = Refusal::new(kind, resource, "x");
            assert_eq!((refusal.code().as_str(), refusal.status()), (code, status), "{kind:?} {resource:?}");
        }
        let reused = Refusal::from(KeyReused);
        assert_eq!((reused.code().as_str(), reused.status()), ("idempotency_key_reused", 422));
    }
}
