//! Push and pull request. Both can be done again without harm: the commit is known before the first push.

use std::path::Path;

use journeyman_core::ids::Sha;
use journeyman_core::job::command::{Ending, Published};
use journeyman_core::job::{Branch, Job};
use journeyman_core::ports::{Forge, ForgeError};
use journeyman_core::project::Project;
use journeyman_core::pull::{Ensured, NewPull, ensure};
use journeyman_core::run::ReasonCode;
use journeyman_git::{Failure, GitError};

use crate::branch::base_of;
use crate::bundle;
use crate::failure::Stopped;
use crate::mirror::{History, Mirror, look_at, synced};
use crate::tree_size;
use crate::worker::Host;
use crate::workspace::Workspace;

/// How a push ended.
pub(crate) enum Pushed {
    /// The branch holds the commit.
    Done,
    /// People's commits were in the way; ours were put on top of them and are to be reported before the next push.
    Rebased {
        head: Sha,
        commits: Vec<Sha>,
        /// As [`journeyman_core::job::command::Kept`] has it.
        bundle: Option<String>,
    },
}

/// Commits to push.
pub(crate) struct Outgoing<'a> {
    pub(crate) branch: &'a Branch,
    /// The newest commit.
    pub(crate) head: &'a Sha,
    /// The commits of the turn, oldest first.
    pub(crate) commits: &'a [Sha],
    /// The bytes that a tree may use on the disk, if the commits must be rebased.
    pub(crate) disk_bytes: u64,
}

/// Pushes commits to the job's branch, never by force.
pub(crate) async fn push(
    host: &Host,
    mirror: &Mirror,
    workspace: &Workspace,
    job: &Job,
    outgoing: &Outgoing<'_>,
) -> Result<Pushed, Stopped> {
    let Outgoing { branch, head, commits, disk_bytes } = *outgoing;
    let error = match push_to(mirror, &branch.name, head).await {
        Ok(()) => return Ok(Pushed::Done),
        Err(PushError::Git(error)) if error.failure() == Failure::NonFastForward => error,
        Err(error) => return Err(error.into()),
    };
    let mirror = host.mirrors.fetch(mirror.remote.clone()).await?;
    let Some(theirs) = mirror.heads.get(&branch.name).cloned() else { return Err(error.into()) };
    if mirror.contains(&theirs, head).await {
        return Ok(Pushed::Done);
    }
    let from = match commits.first() {
        // Otherwise the rebase includes the unpublished commits of earlier messages.
        Some(first) if job.unpublished.is_empty() => format!("{first}^"),
        _ => branch.base.to_string(),
    };
    let folders = mirror.folders().await?;
    for commit in [head, &theirs] {
        tree_size::check(&mirror, commit, disk_bytes).await?;
    }
    let temporary = workspace.root.join("rebase");
    let rebased = rebase(&mirror, &temporary, &theirs, &from, head).await;
    // Whatever came of it, the temporary tree goes.
    let _ = tokio::fs::remove_dir_all(&temporary).await;
    let _ = mirror.git.at(&mirror.path, ["worktree", "prune"]).run().await;
    let Some(head_now) = rebased? else {
        let kept = format!("{}-conflict-{}", branch.name, &head.as_str()[..8]);
        push_to(&mirror, &kept, head).await?;
        let text = format!(
            "people pushed to {} meanwhile, and their changes contradict the agent's; its commits are kept on the \
             branch {kept}. Merge the two by hand, or send a message that says how",
            branch.name
        );
        return Err(Stopped::failed(ReasonCode::PushConflict, text));
    };
    let commits = mirror.between(&theirs, &head_now).await?;
    mirror.keep(&format!("{}/head", job.id), &head_now).await?;
    synced(folders).await?;
    let bundle = bundle::keep(&*host.blobs, &mirror, workspace, job, &head_now).await?;
    Ok(Pushed::Rebased { head: head_now, commits, bundle })
}

async fn push_to(mirror: &Mirror, branch: &str, head: &Sha) -> Result<(), PushError> {
    let refspec = format!("{head}:refs/heads/{branch}");
    let folders = match mirror.remote.is_ours {
        true => Some(look_at(Path::new(&mirror.remote.url)).await?),
        false => None,
    };
    let route = mirror.git.route(&mirror.remote).await.map_err(PushError::Git)?;
    let arguments = ["push", "--quiet", "--no-verify"].map(str::to_owned).into_iter().chain(route.pushing());
    let address = ["--", route.address(), &refspec].map(str::to_owned);
    let push = mirror.git.at(&mirror.path, arguments.chain(address));
    push.credential(mirror.remote.credential.as_ref()).run().await.map_err(PushError::Git)?;
    if let Some(folders) = folders {
        synced(folders).await.map_err(PushError::Other)?;
    }
    Ok(())
}

/// An error from a push, or from making it durable.
enum PushError {
    Git(GitError),
    Other(Stopped),
}

impl From<Stopped> for PushError {
    fn from(stopped: Stopped) -> Self {
        Self::Other(stopped)
    }
}

impl From<PushError> for Stopped {
    fn from(error: PushError) -> Self {
        match error {
            PushError::Git(error) => error.into(),
            PushError::Other(stopped) => stopped,
        }
    }
}

/// Puts the commits after `from` up to `head` on top of `onto`; `None` if they contradict each other.
async fn rebase(
    mirror: &Mirror,
    temporary: &std::path::Path,
    onto: &Sha,
    from: &str,
    head: &Sha,
) -> Result<Option<Sha>, Stopped> {
    // A tree of the host's own, which no agent touches, with hooks and configuration switched off as always.
    let path = temporary.to_string_lossy().into_owned();
    let add = ["worktree", "add", "--quiet", "--force", "--detach", &path, head.as_str()];
    mirror.git.at(&mirror.path, add).run().await?;
    let inside = |arguments: &[&str]| mirror.git.command(arguments).directory(temporary);
    if let Err(error) = inside(&["rebase", "--quiet", "--onto", onto.as_str(), from]).run().await {
        // A conflict leaves unmerged files; other failures of git leave none.
        let unmerged = inside(&["ls-files", "--unmerged"]).run().await?.text()?;
        return if unmerged.is_empty() { Err(error.into()) } else { Ok(None) };
    }
    Ok(Some(inside(&["rev-parse", "HEAD"]).run().await?.sha()?))
}

/// Makes sure that the branch has its pull request.
pub(crate) async fn pull_request(
    forge: &dyn Forge,
    job: &Job,
    project: &Project,
    history: &dyn History,
    branch: &Branch,
    prompt: &str,
) -> Result<Published, Stopped> {
    let new = NewPull { base: Some(base_of(job, project, history)), ..new_pull(job, project, branch, prompt) };
    match ensure(forge, &new).await {
        Ok(Ensured::Opened(pull)) => Ok(Published::Opened(pull)),
        Ok(Ensured::Found(pull)) => Ok(Published::Updated(pull)),
        Ok(Ensured::NoChanges) => Ok(Published::Nothing),
        Err(ForgeError::NoPulls(reason)) => Ok(Published::NotPossible(reason)),
        Err(error) => Err(error.into()),
    }
}

fn new_pull(job: &Job, project: &Project, branch: &Branch, prompt: &str) -> NewPull {
    let settings = &project.settings.pull_request;
    // Work that is not done is not to be merged by mistake.
    let ending = job.delivery().and_then(|delivery| delivery.progress.ending());
    let is_cut_short = matches!(ending, Some(Ending::CutShort(_)));
    let id = job.id.to_string();
    let values = [("{title}", job.title.as_str()), ("{prompt}", prompt), ("{job}", &id), ("{branch}", &branch.name)];
    let default_body = "{prompt}\n\n---\nMade by Journeyman, job `{job}`.";
    NewPull {
        title: job
            .options
            .title
            .clone()
            .unwrap_or_else(|| fill(settings.title.as_deref().unwrap_or("{title}"), &values)),
        body: fill(settings.body.as_deref().unwrap_or(default_body), &values),
        head: branch.name.clone(),
        base: None,
        draft: is_cut_short || job.options.draft.unwrap_or(settings.draft),
        labels: settings.labels.clone(),
    }
}

/// Replaces placeholders in one pass, so that a prompt that holds `{job}` stays as it is.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some(place) = rest.find('{') {
        text.push_str(&rest[..place]);
        rest = &rest[place..];
        match values.iter().find(|(name, _)| rest.starts_with(name)) {
            Some((name, value)) => {
                text.push_str(value);
                rest = &rest[name.len()..];
            }
            None => {
                text.push('{');
                rest = &rest[1..];
            }
        }
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_filled_in_one_pass() {
        let values = [("{title}", "{job}"), ("{job}", "job_1")];
        assert_eq!(fill("a {title} {job} {other} {", &values), "a {job} job_1 {other} {");
    }
}
