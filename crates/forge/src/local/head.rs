//! The default branch of a repository: the branch that `HEAD` names.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use journeyman_core::branch;
use journeyman_core::project::Project;
use journeyman_git::GitError;

use super::LocalHost;

impl LocalHost {
    /// Makes `HEAD` name the default branch after a push, if the branch that it names does not exist. `ref` of the
    /// project is preferred. If no branch can be preferred, `HEAD` does not change. The caller syncs the folder.
    pub(super) async fn follow_push(&self, path: &Path, project: &Project) -> Result<(), GitError> {
        if self.has_head(path).await {
            return Ok(());
        }
        let listed = self.listed_branches(path).await?;
        let named =
            project.reference.as_deref().map(|name| name.strip_prefix("refs/heads/").unwrap_or(name).as_bytes());
        match branch::default_branch(named.as_slice(), &lines(&listed)) {
            Some(chosen) => self.set_head(path, chosen).await,
            None => Ok(()),
        }
    }

    /// Returns the name of the default branch: that of `HEAD` if the branch exists, and otherwise the one that the rule for
    /// all repositories prefers. Before the first push, it is the branch that `HEAD` names.
    pub(super) async fn default_branch(&self, path: &Path) -> Result<Vec<u8>, GitError> {
        let head = self.git.at(path, ["symbolic-ref", "--quiet", "HEAD"]).run().await?.stdout;
        let head = head.trim_ascii().strip_prefix(b"refs/heads/").unwrap_or_default().to_owned();
        if self.has_head(path).await {
            return Ok(head);
        }
        let listed = self.listed_branches(path).await?;
        Ok(branch::default_branch(&[], &lines(&listed)).map_or(head, <[u8]>::to_owned))
    }

    async fn has_head(&self, path: &Path) -> bool {
        self.git.at(path, ["rev-parse", "--verify", "--quiet", "HEAD"]).run().await.is_ok()
    }

    async fn listed_branches(&self, path: &Path) -> Result<Vec<u8>, GitError> {
        let list = ["for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads"];
        Ok(self.git.at(path, list).run().await?.stdout)
    }

    /// Makes `HEAD` name a branch. Git syncs the file, and the caller its name in the folder.
    pub(super) async fn set_head(&self, path: &Path, branch: &[u8]) -> Result<(), GitError> {
        let head = OsString::from_vec([b"refs/heads/", branch].concat());
        self.git.at(path, ["symbolic-ref", "HEAD"]).argument(head).run().await?;
        Ok(())
    }
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect()
}
