//! The choice of the branch that a turn works on.

use journeyman_core::branch::branch_name;
use journeyman_core::ids::Sha;
use journeyman_core::job::Job;
use journeyman_core::job::command::TurnBegun;
use journeyman_core::ports::Forge;
use journeyman_core::project::Project;
use journeyman_core::pull::PullState;
use journeyman_core::run::ReasonCode;

use crate::failure::Stopped;
use crate::mirror::History;

/// Which branch the next turn works on, and from which commit.
pub(crate) async fn choose_branch(
    job: &Job,
    project: &Project,
    history: &dyn History,
    forge: &dyn Forge,
) -> Result<TurnBegun, Stopped> {
    let wanted = |generation: u32| match (&job.options.branch, generation) {
        (Some(name), 1) => name.clone(),
        (Some(name), generation) => format!("{name}-{generation}"),
        (None, generation) => branch_name(&job.title, &job.id, generation),
    };
    let Some(branch) = &job.branch else {
        let start = history.resolve(&job.source.reference).await?;
        let (name, base) = (wanted(1), base_of(job, project, history));
        if name == base {
            let text =
                format!("the job's branch {name:?} is the one that its pull request would go into; choose another");
            return Err(Stopped::failed(ReasonCode::PushRefused, text));
        }
        return Ok(begin(name, 1, start, history));
    };
    let ended = match &job.pull {
        Some(pull) => matches!(forge.pull_state(pull.number).await?, Some(PullState::Merged | PullState::Closed)),
        None => false,
    };
    if ended {
        let generation = branch.generation + 1;
        let base = history.resolve(&base_of(job, project, history)).await?;
        return Ok(begin(wanted(generation), generation, base, history));
    }
    let pushed = history.heads().get(&branch.name).cloned();
    let head = match &pushed {
        // What people pushed is built upon; what we have not pushed yet goes on top of what is there.
        Some(theirs) if !history.has(&branch.head).await || !history.contains(&branch.head, theirs).await => {
            theirs.clone()
        }
        _ if history.has(&branch.head).await => branch.head.clone(),
        _ => branch.base.clone(),
    };
    let (branch, generation, base) = (branch.name.clone(), branch.generation, branch.base.clone());
    Ok(TurnBegun { branch, generation, base, head, pushed })
}

/// A branch that this job has not used: from `base`, or from where it is if the code host has it.
fn begin(branch: String, generation: u32, base: Sha, history: &dyn History) -> TurnBegun {
    let pushed = history.heads().get(&branch).cloned();
    let head = pushed.clone().unwrap_or_else(|| base.clone());
    TurnBegun { branch, generation, base, head, pushed }
}

/// The branch that a job's work is to be merged into: as the project says, else where the job started from. A tag or a
/// commit cannot be merged into: then the default branch.
pub(crate) fn base_of(job: &Job, project: &Project, history: &dyn History) -> String {
    let started = || Some(&job.source.reference).filter(|reference| history.heads().contains_key(*reference));
    let base = project.settings.pull_request.base.as_ref().or_else(started);
    base.map_or_else(|| history.default_branch().to_owned(), Clone::clone)
}
