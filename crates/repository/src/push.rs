//! Pushes commits to a job's branch, never by force. If people have pushed to the branch meanwhile, the job's commits
//! are rebased onto theirs. A push can be repeated without harm, because the commits are recorded before the first
//! push.

use std::path::Path;

use journeyman_core::branch::READ_ONLY;
use journeyman_core::diff_stat::TurnDiff;
use journeyman_core::ids::Sha;
use journeyman_core::job::{Branch, Job};
use journeyman_core::left_out::LeftOut;
use journeyman_core::ports::{Blobs, Remote};
use journeyman_core::project::CiFiles;
use journeyman_core::run::ReasonCode;
use journeyman_git::{Failure, Folders, GitError, Merged, Repeated, Route, Service};

use crate::ci_files::{self, CiCheck};
use crate::diff_stat::{Range, turn_diff};
use crate::sync::{folders_of, sync};
use crate::{History, Mirror, ProjectMirrors, RepositoryError, Scratch, bundle};

/// The result of a push.
#[derive(Debug)]
pub enum Pushed {
    /// The branch holds the commits.
    Done,
    /// The job's commits were replaced: people had pushed to the branch, only the sum of the commits may be pushed, or
    /// they had no signature.
    /// The caller records the new commits and pushes again.
    Rebased {
        /// The new head.
        head: Sha,
        /// The commits of the turn and of unpublished earlier turns, oldest first.
        commits: Vec<Sha>,
        /// The key of their bundle, as in [`journeyman_core::job::command::TurnArtifacts`].
        bundle: Option<String>,
        /// The sizes of the changes; `None` if they could not be counted.
        diff: Option<Box<TurnDiff>>,
    },
}

/// Commits to push.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// The branch.
    pub branch: &'a Branch,
    /// The newest commit.
    pub head: &'a Sha,
    /// The commits of the turn, oldest first.
    pub commits: &'a [Sha],
    /// What the turn changed, but the commits do not have.
    pub left_out: &'a [LeftOut],
    /// The branch that people merge the commits into.
    pub base: &'a str,
    /// The policy for commits that change files of CI pipelines. The built-in code host runs no pipelines, so the
    /// policy does not apply to it.
    pub ci_files: CiFiles,
    /// The project's patterns of more such files.
    pub ci_paths: &'a [String],
}

/// The resources of a push.
pub struct Push<'a> {
    /// The mirrors of the project.
    pub mirrors: &'a ProjectMirrors,
    /// The mirror of the job's repository.
    pub mirror: &'a Mirror,
    /// The repository, with a credential that was obtained for this push.
    pub remote: &'a Remote,
    /// The blob store.
    pub blobs: &'a dyn Blobs,
    /// The folder for temporary files.
    pub scratch: &'a Scratch,
}

impl Push<'_> {
    /// Pushes commits to the job's branch.
    ///
    /// # Errors
    /// The code host refused the push, the commits change files of CI pipelines, they conflict with those of people, or
    /// git failed.
    pub async fn run(&self, job: &Job, outgoing: &Outgoing<'_>) -> Result<Pushed, RepositoryError> {
        let Outgoing { branch, head, .. } = *outgoing;
        if outgoing.ci_files == CiFiles::Refuse && !self.remote.is_ours {
            match ci_files::check(self.mirror, branch, head, outgoing.base, outgoing.ci_paths).await? {
                CiCheck::Unchanged => {}
                CiCheck::Changed(reason) => return Err(reason.into()),
                CiCheck::OnlyBetween { from } => {
                    let folders = self.mirror.folders().await?;
                    let sum = ci_files::sum_of(self.mirror, &from, head).await?;
                    return self.replaced(self.mirror, (job, outgoing), folders, sum).await;
                }
            }
        }
        if self.mirror.signer.is_some() {
            let folders = self.mirror.folders().await?;
            // The server may have got its key after the commits were made.
            let signed = self.mirror.sign_rest(head).await?.commit(head);
            if signed != *head {
                return self.replaced(self.mirror, (job, outgoing), folders, signed).await;
            }
        }
        let error = match push(self.mirror, self.remote, &branch.name, head).await {
            Ok(()) => return Ok(Pushed::Done),
            Err(PushError::Git(error)) if error.failure() == Failure::NonFastForward => error,
            Err(error) => return Err(error.into()),
        };
        let mirror = self.mirrors.fetch(self.remote.clone()).await?;
        let Some(theirs) = mirror.heads.get(&branch.name).cloned() else {
            return Err(RepositoryError::of_push(&error));
        };
        if mirror.contains(&theirs, head).await {
            return Ok(Pushed::Done);
        }
        self.rebase(&mirror, job, outgoing, &theirs).await
    }

    async fn rebase(
        &self,
        mirror: &Mirror,
        job: &Job,
        outgoing: &Outgoing<'_>,
        theirs: &Sha,
    ) -> Result<Pushed, RepositoryError> {
        let Outgoing { branch, head, commits, .. } = *outgoing;
        let from = match commits.first() {
            // Otherwise the rebase includes the unpublished commits of earlier messages.
            Some(first) if job.unpublished.is_empty() => format!("{first}^"),
            _ => branch.base.to_string(),
        };
        let folders = mirror.folders().await?;
        let Some(head_now) = rebase(mirror, theirs, &from, head).await? else {
            let conflict_branch = format!("{}-conflict-{}", branch.name, &head.as_str()[..8]);
            push(mirror, self.remote, &conflict_branch, head).await?;
            let text = format!(
                "people pushed to {} meanwhile, and their changes conflict with the agent's; its commits are on the \
                 branch {conflict_branch}. Merge the two by hand, or send a message that says how",
                branch.name
            );
            return Err(RepositoryError::failed(ReasonCode::PushConflict, text));
        };
        self.replaced(mirror, (job, outgoing), folders, head_now).await
    }

    /// Stores the commits up to `head` that the code host does not have, which replace those of the job. `folders` were
    /// recorded before the new commits were written.
    async fn replaced(
        &self,
        mirror: &Mirror,
        (job, outgoing): (&Job, &Outgoing<'_>),
        folders: Folders,
        head: Sha,
    ) -> Result<Pushed, RepositoryError> {
        let head = mirror.sign_rest(&head).await?.commit(&head);
        let commits = mirror.unpublished(&head).await?;
        mirror.keep(&format!("{}/head", job.id), &head).await?;
        sync(folders).await?;
        let bundle = bundle::store(self.blobs, mirror, self.scratch, job, &head).await?;
        let start = mirror.parent(commits.first()).await.unwrap_or_else(|| outgoing.branch.base.clone());
        let upstream = mirror.heads.get(outgoing.base);
        let range = Range { base: &outgoing.branch.base, start: &start, head: &head, upstream };
        let diff = turn_diff(mirror, range, outgoing.left_out.to_vec()).await;
        Ok(Pushed::Rebased { head, commits, bundle, diff })
    }
}

async fn push(mirror: &Mirror, remote: &Remote, branch: &str, head: &Sha) -> Result<(), PushError> {
    let refspec = format!("{head}:refs/heads/{branch}");
    let folders = match remote.is_ours {
        true => Some(folders_of(Path::new(&remote.url)).await?),
        false => None,
    };
    let push = |route: &Route| {
        let arguments = ["push", "--quiet", "--no-verify"].map(str::to_owned).into_iter().chain(route.pushing());
        let address = ["--", route.address(), &refspec].map(str::to_owned);
        mirror.git.at(&mirror.path, arguments.chain(address))
    };
    mirror.git.ask(remote, Service::Write, push).await.map_err(PushError::Git)?;
    if let Some(folders) = folders {
        sync(folders).await?;
    }
    Ok(())
}

/// Checks that the credential may push a commit to a branch of the remote, without pushing it.
///
/// # Errors
/// The remote refuses to receive anything, or cannot be reached.
pub async fn check_push(mirror: &Mirror, remote: &Remote, branch: &str, head: &Sha) -> Result<(), RepositoryError> {
    if remote.is_ours {
        return Ok(());
    }
    let (route, refspec) = (mirror.git.route(remote).await?, format!("{head}:refs/heads/{branch}"));
    if route.is_read_only() {
        return Err(RepositoryError::failed(ReasonCode::PermissionMissing, READ_ONLY));
    }
    let push = |route: &Route| {
        let arguments = ["push", "--dry-run", "--quiet", "--no-verify"].map(str::to_owned).into_iter();
        let address = ["--", route.address(), &refspec].map(str::to_owned);
        mirror.git.at(&mirror.path, arguments.chain(route.pushing()).chain(address))
    };
    match mirror.git.ask(remote, Service::Write, push).await {
        // Whether the branch may be created shows only with the push.
        Err(error) if error.failure() != Failure::NonFastForward => Err(RepositoryError::of_push(&error)),
        _ => Ok(()),
    }
}

/// An error from a push, or from making it durable.
enum PushError {
    Git(GitError),
    Other(RepositoryError),
}

impl From<RepositoryError> for PushError {
    fn from(error: RepositoryError) -> Self {
        Self::Other(error)
    }
}

impl From<PushError> for RepositoryError {
    fn from(error: PushError) -> Self {
        match error {
            PushError::Git(error) => Self::of_push(&error),
            PushError::Other(error) => error,
        }
    }
}

/// Repeats the commits after `from` up to `head` on top of `onto`, and returns the new head; `None` if they conflict. If
/// there is a merge among the commits, they are merged with `onto` instead: repeating them would lose the resolution of its
/// conflicts. No file is checked out.
async fn rebase(mirror: &Mirror, onto: &Sha, from: &str, head: &Sha) -> Result<Option<Sha>, RepositoryError> {
    let at = |arguments: &[&str]| mirror.git.at(&mirror.path, arguments.iter().copied());
    let range = format!("{from}..{head}");
    let merges = at(&["rev-list", "--merges", "--max-count=1", &range, "--not", "--branches", "--"]);
    if !merges.run().await?.stdout.is_empty() {
        return merge(mirror, onto, head).await;
    }
    let committer = at(&["var", "GIT_COMMITTER_IDENT"]).run().await?.text()?;
    let commits = at(&["rev-list", "--reverse", "--topo-order", "--parents", &range, "--not", onto.as_str(), "--"]);
    let mut tip = onto.clone();
    for line in commits.run().await?.text()?.lines() {
        let commits: Vec<Sha> = line.split(' ').flat_map(str::parse).collect();
        let [commit, parent] = commits.as_slice() else {
            let detail = format!("{line:?} is not a commit and its parent");
            return Err(GitError::Unexpected { command: "rev-list".to_owned(), detail }.into());
        };
        match mirror.git.repeat(&mirror.path, (commit, parent), &tip, committer.trim_end()).await? {
            Repeated::Commit(new) => tip = new,
            Repeated::Unchanged => {}
            Repeated::Conflicts => return Ok(None),
        }
    }
    Ok(Some(tip))
}

/// Merges `head` into `onto`, and returns the new head; `None` if they conflict.
async fn merge(mirror: &Mirror, onto: &Sha, head: &Sha) -> Result<Option<Sha>, RepositoryError> {
    let Merged::Tree(tree) = mirror.git.merge(&mirror.path, onto, head).await? else { return Ok(None) };
    // The last commit of a turn names its message.
    let trailers = ["log", "-1", "--format=%(trailers)", head.as_str(), "--"];
    let trailers = mirror.git.at(&mirror.path, trailers).run().await?.stdout;
    let message = [b"Merge the newest commits of the branch\n\n", trailers.trim_ascii_end(), b"\n"].concat();
    let commit = ["commit-tree", tree.as_str(), "-p", onto.as_str(), "-p", head.as_str(), "-F", "-"];
    Ok(Some(mirror.git.at(&mirror.path, commit).stdin(message).run().await?.sha()?))
}

#[cfg(test)]
mod tests;
