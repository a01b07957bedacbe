//! Queries about the branches and commits of a repository.

use std::collections::BTreeMap;

use async_trait::async_trait;
use journeyman_core::ids::Sha;
use journeyman_core::run::ReasonCode;

use crate::{Mirror, RepositoryError, template};

/// The minimum length of an abbreviated hash (core.abbrev, git-config(1)).
const LEAST_HASH: usize = 4;

/// The branches and commits of a repository.
#[async_trait]
pub trait History: Sync {
    /// Returns the newest commit of each branch of the remote.
    fn heads(&self) -> &BTreeMap<String, Sha>;

    /// Returns the remote's default branch; `None` if the remote names none and has several branches of which none can be
    /// preferred.
    fn default_branch(&self) -> Option<&str>;

    /// Returns whether the remote names its default branch; otherwise [`History::default_branch`] is a guess.
    fn names_default_branch(&self) -> bool;

    /// Returns the commit that a ref names: `HEAD`, a branch, a tag, or a commit of a branch or a tag of the remote.
    /// Commits of jobs that were not published are not found.
    ///
    /// # Errors
    /// There is no such ref, or git failed.
    async fn resolve(&self, reference: &str) -> Result<Sha, RepositoryError>;

    /// Returns whether the commit is in the mirror.
    async fn has(&self, commit: &Sha) -> bool;

    /// Returns whether a branch or a tag of the remote has the commit.
    async fn is_on_remote(&self, commit: &Sha) -> bool;

    /// Returns whether `ancestor` is `commit`, or in its history.
    async fn contains(&self, commit: &Sha, ancestor: &Sha) -> bool;

    /// Returns the repository's own template for pull requests at a commit, if there is one.
    ///
    /// # Errors
    /// git failed.
    async fn pull_template(&self, commit: &Sha) -> Result<Option<String>, RepositoryError>;
}

/// Returns the failure of a job that needs the default branch of a repository without one.
pub(crate) fn no_default_branch() -> RepositoryError {
    let text = "the repository has several branches, but no default branch, and none is named main, master or trunk; set \
                `ref` of the project to the branch that jobs start from, or name a branch in `ref` of the job";
    RepositoryError::failed(ReasonCode::UnknownRef, text)
}

impl Mirror {
    /// Returns the commit that an object name or a full ref leads to; `None` if there is none.
    async fn parse(&self, name: &str) -> Result<Option<Sha>, RepositoryError> {
        let commit = format!("{name}^{{commit}}");
        let arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", &commit];
        match self.git.at(&self.path, arguments).run().await {
            Ok(found) => Ok(Some(found.sha()?)),
            Err(_) => Ok(None),
        }
    }
}

#[async_trait]
impl History for Mirror {
    fn heads(&self) -> &BTreeMap<String, Sha> {
        &self.heads
    }

    fn default_branch(&self) -> Option<&str> {
        self.default_branch.as_deref()
    }

    fn names_default_branch(&self) -> bool {
        self.names_default_branch
    }

    async fn resolve(&self, reference: &str) -> Result<Sha, RepositoryError> {
        let name = match reference {
            "HEAD" => self.default_branch().ok_or_else(no_default_branch)?,
            reference => reference,
        };
        let short = ["refs/heads/", "heads/"].iter().find_map(|folder| name.strip_prefix(folder));
        if let Some(head) = self.heads.get(name).or_else(|| self.heads.get(short?)) {
            return Ok(head.clone());
        }
        if reference == "HEAD" {
            let text = format!(
                "the default branch \"{name}\" of the repository has a name that is not UTF-8; rename it, or name another \
                 ref in the job or the project"
            );
            return Err(RepositoryError::failed(ReasonCode::UnknownRef, text));
        }
        let tag = ["refs/tags/", "tags/"].iter().find_map(|folder| name.strip_prefix(folder)).unwrap_or(name);
        if let Some(found) = self.parse(&format!("refs/tags/{tag}")).await? {
            return Ok(found);
        }
        let is_hash = name.len() >= LEAST_HASH && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_hash
            && let Some(found) = self.parse(name).await?
            && self.is_on_remote(&found).await
        {
            return Ok(found);
        }
        let text = format!("there is no branch, tag or commit {reference:?} in the repository");
        Err(RepositoryError::failed(ReasonCode::UnknownRef, text))
    }

    async fn is_on_remote(&self, commit: &Sha) -> bool {
        let beyond = ["rev-list", "--max-count=1", commit.as_str(), "--not", "--branches", "--tags", "--"];
        self.git.at(&self.path, beyond).run().await.is_ok_and(|output| output.stdout.is_empty())
    }

    async fn has(&self, commit: &Sha) -> bool {
        // The heads of branches were fetched, so usually no git process is needed.
        if self.heads.values().any(|head| head == commit) {
            return true;
        }
        let object = format!("{commit}^{{commit}}");
        self.git.at(&self.path, ["cat-file", "-e", &object]).run().await.is_ok()
    }

    async fn contains(&self, commit: &Sha, ancestor: &Sha) -> bool {
        if commit == ancestor && self.has(commit).await {
            return true;
        }
        let arguments = ["merge-base", "--is-ancestor", ancestor.as_str(), commit.as_str()];
        self.git.at(&self.path, arguments).run().await.is_ok()
    }

    async fn pull_template(&self, commit: &Sha) -> Result<Option<String>, RepositoryError> {
        template::of_repository(self, commit).await
    }
}
