//! The headings of failures, and the settings that mend them.

use journeyman_core::run::ReasonCode;

/// The heading of a failure, and where to mend its cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Remedy {
    /// The failure in a few words.
    pub(super) heading: &'static str,
    /// The setting that mends it.
    pub(super) link: Option<Link>,
}

/// A link to a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    /// A section of the project's settings, with the name of the field, and the text of the link.
    Setting(&'static str, &'static str),
    /// The page of the system.
    System,
}

const REPOSITORY: Option<Link> = Some(Link::Setting("repository", "Open the repository settings"));
const AGENT: Option<Link> = Some(Link::Setting("agent", "Open the agent settings"));
const MODEL: Option<Link> = Some(Link::Setting("agent#model", "Use another model"));
const SECRETS: Option<Link> = Some(Link::Setting("environment#secret-name", "Open the secrets"));
const LIMITS: Option<Link> = Some(Link::Setting("limits", "Open the limits"));
const SANDBOX: Option<Link> = Some(Link::Setting("sandbox", "Open the sandbox settings"));
const PULLS: Option<Link> = Some(Link::Setting("pull-requests", "Open the pull request settings"));
const SYSTEM: Option<Link> = Some(Link::System);

impl Remedy {
    /// Returns the heading and the remedy for a reason.
    pub(super) const fn of(code: ReasonCode) -> Self {
        use ReasonCode as Code;
        let (heading, link) = match code {
            Code::Cancelled => ("The job was canceled", None),
            Code::Interrupted => ("Another message replaced this one", None),
            Code::HandedBack => ("The worker shut down", None),
            Code::WorkerLost => ("The worker was lost", SYSTEM),
            Code::TimedOut => ("The run took too long", Some(Link::Setting("limits#runSeconds", "Open the limits"))),
            Code::SandboxUnsafe => ("The sandbox lacks a guarantee", SYSTEM),
            Code::SandboxUnavailable => ("The sandbox does not answer", SYSTEM),
            Code::ImageRefused => ("The container image cannot be used", SANDBOX),
            Code::OutOfMemory => ("The run needed too much memory", LIMITS),
            Code::TooManyProcesses => ("The run started too many processes", LIMITS),
            Code::DiskLimit => ("The workspace needs too much disk space", LIMITS),
            Code::OutputLimit => ("The agent wrote too much output", None),
            Code::AgentNotStarted => ("The agent did not start", AGENT),
            Code::AgentExited => ("The agent ended during its turn", None),
            Code::AgentFailed => ("The agent failed", None),
            Code::AgentProtocol => ("The agent did not answer as expected", None),
            Code::AgentRefused => ("The model refused to continue", MODEL),
            Code::TurnCutShort => ("The turn was cut short", None),
            Code::PermissionRefused => ("A permission was refused", SANDBOX),
            Code::UnsupportedPolicy => ("The agent does not ask for permissions", SANDBOX),
            Code::ModelNotConfigured => ("The model is not configured", MODEL),
            Code::ModelUnauthorized => ("The model provider refused the key", SECRETS),
            Code::ModelRateLimited => ("The model provider limits the calls", MODEL),
            Code::ModelUnavailable => ("The model provider cannot be reached", MODEL),
            Code::ModelTimedOut => ("The model did not answer in time", MODEL),
            Code::ModelCut => ("The answer of the model was incomplete", None),
            Code::ModelRefused => ("The model provider rejected the call", MODEL),
            Code::OverBudget => ("The budget is used up", Some(Link::Setting("limits#jobMicros", "Open the budgets"))),
            Code::UnknownAgent => ("The agent is not configured", AGENT),
            Code::SetupFailed => {
                ("The setup command failed", Some(Link::Setting("agent#setup", "Open the setup command")))
            }
            Code::RepositoryUnreachable => ("The repository cannot be reached", REPOSITORY),
            Code::RepositoryNotFound => ("The repository does not exist", REPOSITORY),
            Code::RepositoryEmpty => ("The repository has no commits", Some(Link::Setting("use", "Show how to push"))),
            Code::RepositoryUnsupported => ("The repository cannot be used by jobs", REPOSITORY),
            Code::UnknownRef => ("The starting point does not exist", REPOSITORY),
            Code::CredentialRefused => ("The repository refused the credential", REPOSITORY),
            Code::PushRefused => ("The code host refused the push", REPOSITORY),
            Code::PushConflict => ("The commits conflict with those of people", None),
            Code::PullRequestFailed => ("The pull request could not be opened", PULLS),
            Code::NoCodeHost => ("The repository has no pull requests", REPOSITORY),
            Code::PullRequestIncomplete => ("The pull request is incomplete", PULLS),
            Code::PermissionMissing => ("The credential lacks a permission", REPOSITORY),
            Code::RepositoryArchived => ("The repository is archived", REPOSITORY),
            Code::CodeHostRateLimited => ("The code host limits the requests", None),
            Code::CiFilesChanged => ("The commits change files of CI pipelines", PULLS),
            Code::PullRequestNotWritable => ("The branch of the pull request is read-only", None),
            Code::RepositoryChanged => ("The project has another repository now", REPOSITORY),
            Code::DiskFull => ("The disk is full", SYSTEM),
            Code::StorageUnavailable => ("The storage cannot be used", SYSTEM),
            Code::WorkspaceRefused => ("The changes were refused", None),
            Code::UnresolvedConflicts => ("Conflicts are not resolved", None),
            Code::Internal => ("The service failed", SYSTEM),
            Code::Unknown => ("The job failed", None),
        };
        Self { heading, link }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_leads_to_the_setting() {
        let cases = [
            (ReasonCode::ModelUnauthorized, "The model provider refused the key", SECRETS),
            (
                ReasonCode::OverBudget,
                "The budget is used up",
                Some(Link::Setting("limits#jobMicros", "Open the budgets")),
            ),
            (ReasonCode::AgentFailed, "The agent failed", None),
        ];
        for (code, heading, link) in cases {
            assert_eq!(Remedy::of(code), Remedy { heading, link });
        }
    }
}
