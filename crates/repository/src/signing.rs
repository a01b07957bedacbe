//! Signs commits with an SSH key of the server, in the format that `git verify-commit` and code hosts check
//! (gitformat-signature(5), and `PROTOCOL.sshsig` of OpenSSH).
//!
//! The committer in the sandbox makes commits without a signature, because no program of a job may use the key. The
//! host then writes each commit again with the signature, and with the service as its committer: a code host trusts a
//! signature only if the key belongs to the account with the committer's address.

mod commit;
mod signer;

use std::collections::HashMap;

use journeyman_core::ids::Sha;
use journeyman_git::GitError;

use self::commit::Commit;
pub use self::signer::{DEFAULT_EMAIL, Signer, SignerError};
use crate::{Mirror, RepositoryError};

/// Commits, some of which were written again with a signature.
#[derive(Debug, Default)]
pub struct Signed {
    /// The new commits by those that they replace.
    pub replaced: HashMap<Sha, Sha>,
}

impl Signed {
    /// Returns the commit that replaces another, or that commit if nothing replaces it.
    #[must_use]
    pub fn commit(&self, commit: &Sha) -> Sha {
        self.replaced.get(commit).unwrap_or(commit).clone()
    }
}

impl Mirror {
    /// Writes the commits of an agent after `base` up to `head` again, with signatures, if the server signs commits.
    /// Commits of the code host stay. Signatures that the agent has made are removed.
    ///
    /// # Errors
    /// Git or `ssh-keygen` failed.
    pub async fn sign(&self, base: &Sha, head: &Sha) -> Result<Signed, RepositoryError> {
        self.sign_some(Some(base), head, |_| true).await
    }

    /// Writes the commits up to `head` again that have no signature and are not on the code host, with signatures, if
    /// the server signs commits: git has made them on this machine, or the server has not signed commits before.
    ///
    /// # Errors
    /// Git or `ssh-keygen` failed.
    pub async fn sign_rest(&self, head: &Sha) -> Result<Signed, RepositoryError> {
        self.sign_some(None, head, |commit| !commit.is_signed()).await
    }

    async fn sign_some(
        &self,
        base: Option<&Sha>,
        head: &Sha,
        is_wanted: impl Fn(&Commit<'_>) -> bool,
    ) -> Result<Signed, RepositoryError> {
        let mut signed = Signed::default();
        let Some(signer) = &self.signer else { return Ok(signed) };
        let list = ["rev-list", "--reverse", "--topo-order", head.as_str(), "--not", "--branches"];
        let commits = self.git.at(&self.path, list.into_iter().chain(base.map(Sha::as_str))).run().await?.shas()?;
        let names: String = commits.iter().map(|commit| format!("{commit}\n")).collect();
        let contents = self.git.at(&self.path, ["cat-file", "--batch"]).stdin(names).run().await?.stdout;
        let mut rest = contents.as_slice();
        for sha in &commits {
            let content = next_object(&mut rest).ok_or_else(|| unexpected(sha))?;
            let mut commit = Commit::parse(content);
            if !commit.replace_parents(&signed.replaced) && !is_wanted(&commit) {
                continue;
            }
            let write = self.git.at(&self.path, ["hash-object", "-t", "commit", "-w", "--stdin"]);
            let new = write.stdin(signer.sign(commit).await?).run().await?.sha()?;
            signed.replaced.insert(sha.clone(), new);
        }
        Ok(signed)
    }
}

/// Takes an object from the output of `git cat-file --batch`: a line with its name, kind and size, its content, and a
/// line break.
pub(crate) fn next_object<'a>(output: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = output.iter().position(|byte| *byte == b'\n')?;
    let size: usize = std::str::from_utf8(&output[..end]).ok()?.rsplit(' ').next()?.parse().ok()?;
    let content = output.get(end + 1..end + 1 + size)?;
    *output = output.get(end + 2 + size..)?;
    Some(content)
}

fn unexpected(sha: &Sha) -> RepositoryError {
    let detail = format!("the commit {sha} is missing in its output");
    GitError::Unexpected { command: "cat-file".to_owned(), detail }.into()
}

#[cfg(test)]
mod tests;
