//! The beginning of a turn that reviews a pull request.

use journeyman_core::job::Job;
use journeyman_core::job::turn::TurnBegun;
use journeyman_core::ports::Forge;
use journeyman_core::project::{Project, SecretUse};
use journeyman_core::pull::reviewed::ReviewedPull;
use journeyman_core::run::ReasonCode;
use journeyman_repository::branch::begin_review;
use journeyman_repository::{Mirror, ProjectMirrors};

use crate::error::RunError;

/// Begins a turn at the newest commit of the pull request, which is fetched if it is in another repository.
pub(super) async fn begin(
    job: &Job,
    reviewed: &ReviewedPull,
    (mirrors, mirror): (&ProjectMirrors, &Mirror),
    forge: &dyn Forge,
) -> Result<TurnBegun, RunError> {
    let ReviewedPull { number, head, is_from_fork, .. } = reviewed;
    let newest = match (is_from_fork, forge.pull_ref(*number)) {
        (true, Some(reference)) => mirrors.fetch_reviewed(mirror, job.id, &reference).await?,
        (true, None) => {
            let text =
                "the branch of the pull request is in another repository, whose commits the code host does not show";
            return Err(RunError::failed(ReasonCode::UnknownRef, text));
        }
        (false, _) => match mirror.heads.get(head) {
            Some(newest) => newest.clone(),
            None => {
                let text = format!("the branch {head:?} of the pull request does not exist any more");
                return Err(RunError::failed(ReasonCode::UnknownRef, text));
            }
        },
    };
    Ok(begin_review(job, reviewed, newest, mirror).await?)
}

/// Returns the project as a review gets it. The code that is reviewed may be anyone's, so that it gets no secrets, and no
/// setup command runs in it.
pub(crate) fn without_secrets(mut project: Project) -> Project {
    project.settings.setup = None;
    for name in &project.secret_names {
        let uses = project.settings.secret_uses.get(name).into_iter().flatten();
        let kept = uses.copied().filter(|process| *process == SecretUse::Model).collect();
        project.settings.secret_uses.insert(name.clone(), kept);
    }
    project
}

#[cfg(test)]
mod tests {
    use journeyman_core::time::Timestamp;

    use super::*;

    #[test]
    fn a_review_gets_keys_for_models_and_nothing_else() {
        let mut project = Project::new("shop".parse().unwrap(), "local:shop", Timestamp::default());
        project.settings.setup = Some("npm ci".to_owned());
        project.secret_names = ["NPM_TOKEN", "DATABASE", "MODEL_KEY"].map(str::to_owned).into();
        let uses = &mut project.settings.secret_uses;
        uses.insert("DATABASE".to_owned(), [SecretUse::Agent, SecretUse::Setup].into());
        uses.insert("MODEL_KEY".to_owned(), [SecretUse::Model, SecretUse::Agent].into());
        let project = without_secrets(project);
        assert_eq!(project.settings.setup, None);
        for name in ["NPM_TOKEN", "DATABASE", "MODEL_KEY"] {
            for (process, expected) in
                [(SecretUse::Setup, false), (SecretUse::Agent, false), (SecretUse::Model, name == "MODEL_KEY")]
            {
                assert_eq!(project.settings.secret_is_for(name, process), expected, "{name} {process:?}");
            }
        }
    }
}
