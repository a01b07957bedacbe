//! The check of an existing pull request that a new job is to work on.

use journeyman_core::job::JobStatus;
use journeyman_core::ports::ForgeError;
use journeyman_core::project::Project;
use journeyman_core::pull::existing::{ExistingPull, NotUsable, PullName, check};
use journeyman_core::run::ReasonCode;

use crate::{Caller, Error, RefusalKind, UseCases};

impl UseCases {
    /// Asks the code host for a pull request, and checks that a new job can work on it.
    pub(crate) async fn existing_pull(
        &self,
        caller: &Caller,
        project: &Project,
        name: &PullName,
    ) -> Result<ExistingPull, Error> {
        let failed = |error| not_asked(project, error);
        let forge = self.parts().forges.of(project).await.map_err(failed)?;
        let repository = forge.repository().await.map_err(failed)?;
        let found = forge.pull(name.number()).await.map_err(failed)?;
        let host = self.parts().forges.code_host(project).await.map_err(failed)?;
        let configured = host.and_then(|host| host.path_of(&project.repository));
        let of = (forge.host(), &repository);
        let existing = check(name, found, of, configured.as_ref(), project).map_err(not_usable)?;
        self.check_free(caller, &existing).await?;
        Ok(existing)
    }

    /// Refuses a pull request that another job works on.
    async fn check_free(&self, caller: &Caller, existing: &ExistingPull) -> Result<(), Error> {
        let (store, pull) = (&self.parts().store, &existing.pull);
        let Some(repository) = pull.repository.clone() else { return Ok(()) };
        let Some(known) = store.indexed_pull(repository, pull.number).await? else { return Ok(()) };
        let Some(job) = store.job(known.job).await? else { return Ok(()) };
        // A job whose pull request was closed and opened again works on another branch.
        let is_its =
            job.pull.as_ref().is_some_and(|own| own.number == pull.number && own.repository == pull.repository);
        if job.status() == JobStatus::Archived || !is_its {
            return Ok(());
        }
        let text = if caller.needs_project(&job.project).is_ok() {
            format!(
                "the job {} of the project {} works on the pull request {}; send it a message, or archive it first",
                job.id, job.project, pull.url
            )
        } else {
            format!("a job of another project works on the pull request {}", pull.url)
        };
        Err(Error::refused(RefusalKind::PullRequestTaken, text))
    }
}

fn not_usable(refusal: NotUsable) -> Error {
    let kind = match refusal {
        NotUsable::NotFound { .. } => RefusalKind::PullRequestNotFound,
        NotUsable::Ended { .. } => RefusalKind::PullRequestEnded,
        NotUsable::Fork { .. } | NotUsable::Protected { .. } | NotUsable::BranchName { .. } => {
            RefusalKind::PullRequestNotWritable
        }
    };
    Error::refused(kind, format!("pullRequest: {refusal}"))
}

/// Returns the error for a code host that did not answer the question.
fn not_asked(project: &Project, error: ForgeError) -> Error {
    let kind = match &error {
        ForgeError::NoPulls(_) => {
            let text = format!(
                "pullRequest: the repository {} has no pull requests that this server can read: its code host is not \
                 known, or there is no credential for it. Add the code host, or give the project a token",
                project.repository
            );
            return Error::refused(RefusalKind::NoPullRequests, text);
        }
        error if error.may_pass() => {
            let text =
                format!("the pull request could not be checked, and nothing was stored; try again later: {error}");
            return Error::refused(RefusalKind::CodeHostUnavailable, text);
        }
        ForgeError::Credential(_) => ReasonCode::CredentialRefused,
        ForgeError::NotFound(_) => ReasonCode::RepositoryNotFound,
        ForgeError::Denied(_) => ReasonCode::PermissionMissing,
        _ => ReasonCode::RepositoryUnreachable,
    };
    Error::refused(RefusalKind::RepositoryUnreadable(kind), format!("the pull request could not be checked: {error}"))
}
