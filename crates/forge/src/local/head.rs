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
        if self.git.at(path, ["rev-parse", "--verify", "--quiet", "HEAD"]).run().await.is_ok() {
            return Ok(());
        }
        let listed = self.git.at(path, ["for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads"]).run().await?;
        let branches: Vec<&[u8]> = listed.stdout.split(|byte| *byte == b'\n').filter(|name| !name.is_empty()).collect();
        let named = project.reference.as_deref().map(str::as_bytes);
        match branch::default_branch(named.as_slice(), &branches) {
            Some(chosen) => self.set_head(path, chosen).await,
            None => Ok(()),
        }
    }

    /// Makes `HEAD` name a branch. Git syncs the file, and the caller its name in the folder.
    pub(super) async fn set_head(&self, path: &Path, branch: &[u8]) -> Result<(), GitError> {
        let head = OsString::from_vec([b"refs/heads/", branch].concat());
        self.git.at(path, ["symbolic-ref", "HEAD"]).argument(head).run().await?;
        Ok(())
    }
}
