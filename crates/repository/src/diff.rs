//! The changes of a job, read from the mirror of its repository.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream;
use journeyman_core::ids::Sha;
use journeyman_core::job::Job;
use journeyman_core::ports::{Blobs, DiffError, Diffs, Forges, GitBody};
use journeyman_core::project::Project;
use journeyman_git::GitError;

use crate::branch::base_name;
use crate::listing::Branches;
use crate::mirrors::known_branches;
use crate::upstream::start_of_work;
use crate::{Mirrors, Scratch, bundle};

/// The maximum size in bytes of a file from which pages show more lines.
const FILE_BYTES: usize = 4 << 20;

/// The tree without files, which git knows without storing it, as the hash SHA-1 and the hash SHA-256.
const EMPTY_TREES: [&str; 2] =
    ["4b825dc642cb6eb9a060e54bf8d69288fbee4904", "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"];

/// The options of each diff. They override the repository's own configuration and attributes, which could select
/// another format.
const OPTIONS: [&str; 6] =
    ["--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", "--binary"];

/// Reads diffs from the mirrors of a machine.
pub struct MirrorDiffs {
    forges: Arc<dyn Forges>,
    blobs: Arc<dyn Blobs>,
    mirrors: Arc<Mirrors>,
    scratch: Scratch,
}

impl MirrorDiffs {
    /// Returns a reader that uses these mirrors. `data` is the data directory.
    #[must_use]
    pub fn new(forges: Arc<dyn Forges>, blobs: Arc<dyn Blobs>, mirrors: Arc<Mirrors>, data: &Path) -> Self {
        Self { forges, blobs, mirrors, scratch: Scratch::new(data) }
    }
}

/// Returns the diff of nothing.
fn nothing() -> GitBody {
    Box::pin(stream::empty())
}

fn unavailable(error: &dyn std::fmt::Display) -> DiffError {
    DiffError::Unavailable(error.to_string())
}

impl MirrorDiffs {
    /// Returns the path of the mirror of a job's repository, and whether it has the commit. If the commit is missing, it
    /// is fetched from the code host or the blob store.
    async fn mirror_with(&self, project: &Project, job: &Job, commit: &Sha) -> Result<(PathBuf, bool), DiffError> {
        let forge = self.forges.of(project).await.map_err(|error| unavailable(&error))?;
        let remote = forge.remote().await.map_err(|error| unavailable(&error))?;
        let mirrors = self.mirrors.of(&project.id);
        let path = mirrors.path(&remote.url);
        if self.mirrors.has(&path, commit).await {
            return Ok((path, true));
        }
        // Another machine made the commit.
        let fetched = async {
            let mirror = mirrors.fetch(remote).await?;
            bundle::fetch(&*self.blobs, &mirror, &self.scratch, job).await
        };
        let has_head = fetched.await.map_err(|error| unavailable(&error))?;
        let is_head = job.branch.as_ref().is_some_and(|branch| branch.head == *commit);
        let has_commit = if is_head { has_head } else { self.mirrors.has(&path, commit).await };
        Ok((path, has_commit))
    }

    /// Returns the newest known commit of the branch that a job's work is merged into.
    async fn upstream(&self, path: &Path, project: &Project, job: &Job) -> Option<Sha> {
        let Branches { mut heads, default_branch, .. } = known_branches(path).await?;
        let name = base_name(job, project, &heads, default_branch.as_deref())?;
        heads.remove(&name)
    }

    /// Returns a diff, once its first piece was read: until then, a failure is an error of the request.
    async fn difference(&self, path: &Path, ends: &[&str]) -> Result<GitBody, DiffError> {
        let arguments = ["diff"].into_iter().chain(OPTIONS).chain(ends.iter().copied()).chain(["--"]);
        let mut pieces = self.mirrors.git.at(path, arguments).pieces().map_err(|error| unavailable(&error))?;
        let Some(first) = pieces.next().await.map_err(|error| unavailable(&error))? else { return Ok(nothing()) };
        let rest = stream::unfold(Some(pieces), |pieces| async move {
            let mut pieces = pieces?;
            match pieces.next().await {
                Ok(Some(piece)) => Some((Ok(Bytes::from(piece)), Some(pieces))),
                Ok(None) => None,
                Err(error) => {
                    tracing::warn!(%error, "a diff could not be read to its end");
                    Some((Err(io::Error::other(error)), None))
                }
            }
        });
        // A layer that compresses asks once more after the end.
        Ok(Box::pin(stream::once(async { Ok(Bytes::from(first)) }).chain(rest).fuse()))
    }

    /// Returns the newest commit before these ones on the line of first parents that ends at `last`; `None` if they
    /// begin the history.
    async fn before(&self, path: &Path, commits: &[Sha], last: &Sha) -> Result<Option<Sha>, DiffError> {
        let count = format!("--max-count={}", commits.len() + 1);
        let arguments = ["rev-list", "--first-parent", &count, last.as_str(), "--"];
        let output = self.mirrors.git.at(path, arguments).run().await.map_err(|error| unavailable(&error))?;
        let line = output.shas().map_err(|error| unavailable(&error))?;
        let own: HashSet<&Sha> = commits.iter().collect();
        Ok(line.into_iter().find(|commit| !own.contains(commit)))
    }
}

#[async_trait]
impl Diffs for MirrorDiffs {
    async fn diff(&self, project: &Project, job: &Job) -> Result<GitBody, DiffError> {
        let Some(branch) = &job.branch else { return Ok(nothing()) };
        let (path, has_head) = self.mirror_with(project, job, &branch.head).await?;
        // Commits that are neither published nor in the blob store exist only on that machine.
        let head = if has_head { &branch.head } else { branch.pushed.as_ref().unwrap_or(&branch.base) };
        let upstream = self.upstream(&path, project, job).await;
        let from = start_of_work(&self.mirrors.git, &path, &branch.base, upstream.as_ref(), head).await;
        let from = from.map_err(|error| unavailable(&error))?;
        self.difference(&path, &[&format!("{from}...{head}")]).await
    }

    async fn diff_of_commits(&self, project: &Project, job: &Job, commits: &[Sha]) -> Result<GitBody, DiffError> {
        let Some(last) = commits.last() else { return Ok(nothing()) };
        let (path, has_last) = self.mirror_with(project, job, last).await?;
        if !has_last {
            return Err(unavailable(&format_args!("the commit {last} is not in the repository")));
        }
        let before = self.before(&path, commits, last).await?;
        let empty = EMPTY_TREES.into_iter().find(|tree| tree.len() == last.as_str().len()).unwrap_or_default();
        let before = before.as_ref().map_or(empty, Sha::as_str);
        self.difference(&path, &[before, last.as_str()]).await
    }

    async fn file(&self, project: &Project, job: &Job, commit: &Sha, path: &str) -> Result<Option<Bytes>, DiffError> {
        // The path is an argument of a process, and arguments have no NUL.
        if path.is_empty() || path.contains('\0') {
            return Ok(None);
        }
        let (mirror, has_commit) = self.mirror_with(project, job, commit).await?;
        if !has_commit {
            return Ok(None);
        }
        let object = format!("{commit}:{path}");
        match self.mirrors.git.at(&mirror, ["cat-file", "blob", &object]).stdout_bytes(FILE_BYTES).run().await {
            Ok(output) => Ok(Some(Bytes::from(output.stdout))),
            // There is no such file, or it is a directory or a submodule.
            Err(GitError::Failed { .. } | GitError::TooMuch { .. }) => Ok(None),
            Err(error) => Err(unavailable(&error)),
        }
    }
}
