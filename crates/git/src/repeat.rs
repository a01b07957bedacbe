//! Repeats the changes of commits on top of others, without a working tree: no file of a commit is written to the disk.

use std::path::Path;

use journeyman_core::ids::Sha;

use crate::{Git, GitError, Merged};

/// The result of [`Git::repeat`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repeated {
    /// The new commit.
    Commit(Sha),
    /// The files are there already.
    Unchanged,
    /// The changes conflict.
    Conflicts,
}

impl Git {
    /// Makes a commit with the changes of `commit` since `parent` on top of `tip`. Its author, message and encoding stay,
    /// and a signature, which is no longer valid, is left out. `committer` is the name, address and time of the committer as
    /// in a commit. A commit without changes of files is repeated, too.
    ///
    /// # Errors
    /// Git failed.
    pub async fn repeat(
        &self,
        repository: &Path,
        (commit, parent): (&Sha, &Sha),
        tip: &Sha,
        committer: &str,
    ) -> Result<Repeated, GitError> {
        let [files, own, before] = [tip, commit, parent].map(|commit| self.tree_of(repository, commit));
        let (files, own, before) = (files.await?, own.await?, before.await?);
        let tree = match own == before {
            true => files,
            false => {
                // A commit with the files of the tip on top of the parent: git then takes the parent for the common
                // ancestor. Git has no option for that before 2.40, and Debian 12 has 2.39.
                let moved = ["commit-tree", files.as_str(), "-p", parent.as_str(), "-m", "moved"];
                let moved = self.at(repository, moved).run().await?.sha()?;
                match self.merge(repository, &moved, commit).await? {
                    Merged::Conflicts(_) => return Ok(Repeated::Conflicts),
                    Merged::Tree(tree) if tree == files => return Ok(Repeated::Unchanged),
                    Merged::Tree(tree) => tree,
                }
            }
        };
        let original = self.at(repository, ["cat-file", "commit", commit.as_str()]).run().await?.stdout;
        let new = moved(&original, &tree, tip, committer);
        let write = self.at(repository, ["hash-object", "-t", "commit", "-w", "--stdin"]);
        Ok(Repeated::Commit(write.stdin(new).run().await?.sha()?))
    }

    /// Returns the files of a commit.
    ///
    /// # Errors
    /// Git failed.
    pub async fn tree_of(&self, repository: &Path, commit: &Sha) -> Result<Sha, GitError> {
        self.at(repository, ["rev-parse", "--verify", &format!("{commit}^{{tree}}")]).run().await?.sha()
    }
}

/// Returns a commit with other files, another parent and another committer.
fn moved(original: &[u8], tree: &Sha, parent: &Sha, committer: &str) -> Vec<u8> {
    let end = original.windows(2).position(|pair| pair == b"\n\n").map_or(original.len(), |at| at + 1);
    let (head, message) = original.split_at(end);
    let mut commit = format!("tree {tree}\nparent {parent}\n").into_bytes();
    for line in head.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b"author ") {
            commit.extend([line, format!("committer {committer}\n").as_bytes()].concat());
        } else if line.starts_with(b"encoding ") {
            commit.extend(line);
        }
    }
    commit.extend(message);
    commit
}
