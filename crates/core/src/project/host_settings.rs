//! The settings of a project for its code host: pull requests, comments, issues, and checks.

use serde::{Deserialize, Serialize};

use crate::code_host::{CodeHostId, HostKind};
use crate::pattern;

/// The kind of a code host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CodeHostKind {
    /// The built-in code host.
    Local,
    /// A git remote without pull requests.
    Plain,
    /// GitHub.
    Github,
    /// GitLab.
    Gitlab,
    /// Gitea.
    Gitea,
    /// Forgejo.
    Forgejo,
    /// Bitbucket Cloud.
    Bitbucket,
    /// Bitbucket Data Center.
    BitbucketDataCenter,
}

impl CodeHostKind {
    /// Returns the software of the code host; `None` for the built-in one and for plain remotes.
    #[must_use]
    pub const fn host_kind(self) -> Option<HostKind> {
        match self {
            Self::Local | Self::Plain => None,
            Self::Github => Some(HostKind::Github),
            Self::Gitlab => Some(HostKind::Gitlab),
            Self::Gitea => Some(HostKind::Gitea),
            Self::Forgejo => Some(HostKind::Forgejo),
            Self::Bitbucket => Some(HostKind::Bitbucket),
            Self::BitbucketDataCenter => Some(HostKind::BitbucketDataCenter),
        }
    }
}

/// The settings of the code host of a project's repository. The credential is a secret named [`CODE_HOST_TOKEN`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CodeHostSettings {
    /// The kind of the code host; `None` means that it is found by the repository's address.
    pub kind: Option<CodeHostKind>,
    /// The code host of the installation; `None` means that it is found by the repository's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<CodeHostId>,
    /// The user name for git over HTTP, together with the token.
    pub username: Option<String>,
    /// `true` if pushes may overwrite commits of the default branch on the built-in code host.
    #[serde(skip_serializing_if = "is_default")]
    pub allow_force_push: bool,
}

/// The name of the secret with a project's credential for its code host. No environment variable can have this name.
pub const CODE_HOST_TOKEN: &str = "code-host.token";

/// The name of the secret with which the code host signs the webhooks of this project only.
pub const WEBHOOK_SECRET: &str = "code-host.webhook-secret";

/// The properties of the pull requests of a project. [`crate::pull::body`] fills the templates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PullRequestSettings {
    /// `true` if pull requests are drafts.
    pub draft: bool,
    /// The branch to merge into; `None` means the project's ref if that is a branch, otherwise the default branch.
    pub base: Option<String>,
    /// The template of the title; `None` means `{title}`.
    pub title: Option<String>,
    /// The template of the body; `None` means [`crate::pull::body::DEFAULT_BODY`].
    pub body: Option<String>,
    /// The labels.
    pub labels: Vec<String>,
    /// The users, and teams as `owner/team`, to ask for a review.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reviewers: Vec<String>,
    /// The users to assign.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assignees: Vec<String>,
    /// The policy for commits that change files of CI pipelines.
    #[serde(skip_serializing_if = "is_default")]
    pub ci_files: CiFiles,
    /// More files of CI pipelines: patterns of paths ([`crate::code_host::ci_files::CiFileNames`]).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ci_paths: Vec<String>,
    /// The branches that jobs never push to, in addition to those that work is merged into: patterns of names
    /// ([`crate::pattern::matches`]).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protected_branches: Vec<String>,
    /// `true` if a job is archived when its pull request is merged.
    #[serde(skip_serializing_if = "is_default")]
    pub archive_on_merge: bool,
    /// The reaction to new commits of the base branch.
    #[serde(skip_serializing_if = "is_default")]
    pub keep_up_to_date: KeepUpToDate,
    /// `true` if the code host is asked to merge a new pull request when all requirements are met.
    #[serde(skip_serializing_if = "is_default")]
    pub auto_merge: bool,
}

impl PullRequestSettings {
    /// Returns whether a branch is one that jobs never push to by `protected_branches`.
    #[must_use]
    pub fn protects(&self, branch: &str) -> bool {
        self.protected_branches.iter().any(|pattern| pattern::matches(pattern, branch))
    }
}

/// The properties of the commits that the service makes. [`crate::commit`] makes their messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommitSettings {
    /// The template of the subject ([`crate::commit::subject::filled`]); `None` means `{subject}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// `true` if commits name the person at the code host who asked for the work as a co-author.
    pub co_authors: bool,
}

impl Default for CommitSettings {
    fn default() -> Self {
        Self { subject: None, co_authors: true }
    }
}

/// The reaction to new commits of the branch that an open pull request is merged into.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeepUpToDate {
    /// There is none.
    #[default]
    Off,
    /// If the pull request conflicts with them, they become a message to the job.
    Conflicts,
    /// They always become a message to the job.
    Always,
}

/// The policy for commits that change files of CI pipelines ([`crate::code_host::ci_files`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CiFiles {
    /// The commits are not pushed, and the message fails.
    #[default]
    Refuse,
    /// The commits are pushed.
    Allow,
}

/// The default time after the last comment until comments become one message, in seconds.
pub const DEFAULT_SETTLE_SECONDS: u32 = 20;

/// The longest time that a comment waits for others, in seconds.
pub const LONGEST_SETTLE_SECONDS: u32 = 120;

/// The settings for comments on pull requests and issues of the code host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommentSettings {
    /// The reviews that become messages.
    #[serde(flatten, with = "stored_reviews")]
    pub reviews: Reviews,
    /// The name to mention, without `@`; `None` means the names of the service's user on the code host. People can also
    /// mention `journeyman`.
    pub mention: Option<String>,
    /// The time after the last comment until comments become one message, in seconds; `None` means
    /// [`DEFAULT_SETTLE_SECONDS`], and 0 on the built-in code host.
    pub settle_seconds: Option<u32>,
    /// The label that makes a job of an issue; `None` means `journeyman`, and an empty text none.
    pub issue_label: Option<String>,
    /// What people are told whose comments led to nothing.
    #[serde(skip_serializing_if = "is_default")]
    pub answers: Answers,
    /// The people who may ask for a review of a pull request.
    #[serde(skip_serializing_if = "is_default")]
    pub review_requests: ReviewRequests,
    /// The threads that the service marks as resolved.
    #[serde(skip_serializing_if = "is_default")]
    pub resolve: Resolve,
}

impl CommentSettings {
    /// Returns the label that makes a job of an issue, if there is one.
    #[must_use]
    pub fn issue_label(&self) -> Option<&str> {
        Some(self.issue_label.as_deref().unwrap_or("journeyman")).filter(|label| !label.is_empty())
    }
}

/// The reviews that become messages: submitted reviews, and comments on lines on code hosts that report no submitted
/// reviews ([`HostKind::reports_reviews`](crate::code_host::HostKind::reports_reviews)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reviews {
    /// All reviews that have a text or comments.
    #[default]
    All,
    /// Reviews that mention the service.
    Mentioned,
    /// None. Comments in the conversation still become messages.
    Off,
}

/// The form in which [`Reviews`] is stored. Versions up to 0.9 do not know `off`, and read `mentioned`.
mod stored_reviews {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Reviews;

    #[derive(Default, Serialize, Deserialize)]
    #[serde(default)]
    struct Stored {
        reviews: Reviews,
        #[serde(skip_serializing_if = "Option::is_none")]
        newer_reviews: Option<Reviews>,
    }

    pub(super) fn serialize<S: Serializer>(reviews: &Reviews, serializer: S) -> Result<S::Ok, S::Error> {
        let stored = match reviews {
            Reviews::Off => Stored { reviews: Reviews::Mentioned, newer_reviews: Some(Reviews::Off) },
            known => Stored { reviews: *known, newer_reviews: None },
        };
        stored.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Reviews, D::Error> {
        let Stored { reviews, newer_reviews } = Stored::deserialize(deserializer)?;
        Ok(newer_reviews.unwrap_or(reviews))
    }
}

/// The people who may ask for a review of a pull request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewRequests {
    /// People who may push to the repository.
    #[default]
    Write,
    /// People who may read the repository. For a public one, this is everyone.
    Read,
    /// No one: a mention that asks for a review is an ordinary task.
    Off,
}

/// The threads of comments that the service marks as resolved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolve {
    /// None.
    #[default]
    Never,
    /// Those in which the service has replied, if commits answer the comments.
    Answered,
}

/// What people are told whose comments led to nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answers {
    /// The service reacts to the comment, and writes the reason once for each person, conversation and kind of reason. It
    /// also shows the progress of the messages that comments led to.
    #[default]
    Full,
    /// The service only reacts to the comment, and writes nothing before a message has ended.
    Quiet,
}

/// The default limit on automatic attempts to repair failed checks of one pull request.
pub const DEFAULT_CHECK_ATTEMPTS: u32 = 3;

/// The default time for which all checks must be finished before the job acts on them, in seconds.
pub const DEFAULT_CHECK_SETTLE_SECONDS: u32 = 600;

/// The settings for the checks of pull requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckSettings {
    /// The reaction to failed checks.
    pub mode: CheckMode,
    /// The limit on automatic attempts for one pull request; `None` means [`DEFAULT_CHECK_ATTEMPTS`].
    pub attempts: Option<u32>,
    /// The longest time to wait for checks that have not begun, in seconds; `None` means
    /// [`DEFAULT_CHECK_SETTLE_SECONDS`].
    pub settle_seconds: Option<u32>,
    /// The names of the checks that count; empty means all. `*` stands for any text.
    pub only: Vec<String>,
    /// The names of the checks that do not count. `*` stands for any text.
    pub ignore: Vec<String>,
}

/// The reaction to failed checks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckMode {
    /// Checks are not read.
    Off,
    /// The result is shown.
    #[default]
    Report,
    /// Failed checks become a message to the job.
    Fix,
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_versions_can_read_stored_settings_of_reviews() {
        for (reviews, known) in [(Reviews::All, "all"), (Reviews::Mentioned, "mentioned"), (Reviews::Off, "mentioned")]
        {
            let settings = CommentSettings { reviews, ..CommentSettings::default() };
            let stored = serde_json::to_value(&settings).unwrap();
            assert_eq!(stored["reviews"], known);
            assert_eq!(serde_json::from_value::<CommentSettings>(stored).unwrap(), settings);
        }
        let empty: CommentSettings = serde_json::from_str("{}").unwrap();
        assert_eq!(empty, CommentSettings::default());
    }
}
