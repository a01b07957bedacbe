//! The commits with which the methods of merging end: a merge commit, one commit with all changes, or the repeated
//! commits.

use std::collections::BTreeSet;
use std::path::Path;

use journeyman_core::ids::Sha;
use journeyman_core::ports::PullPagesError;
use journeyman_core::pull::{LocalPull, MergeMethod, NewMerge};
use journeyman_git::{Git, GitCommand, GitError, Output, Repeated};

/// The maximum number of commits that are repeated.
const MOST_REBASED: usize = 500;

/// The maximum number of commits that the message of a squashed commit lists.
const MOST_LISTED: usize = 100;

/// A merge of two branches that do not conflict.
pub(super) struct Merging<'a> {
    pub(super) git: &'a Git,
    /// The repository.
    pub(super) path: &'a Path,
    pub(super) pull: &'a LocalPull,
    pub(super) merge: &'a NewMerge,
    pub(super) base: &'a Sha,
    pub(super) head: &'a Sha,
    /// The files of the merged branches.
    pub(super) tree: &'a Sha,
}

impl Merging<'_> {
    /// Makes the commits, and returns the one that the base branch moves to. Returns `None` if the base branch has all
    /// changes already, unless the method is [`MergeMethod::Merge`].
    pub(super) async fn commit(&self) -> Result<Option<Sha>, PullPagesError> {
        match self.merge.method {
            MergeMethod::Merge => self.merge_commit().await.map(Some).map_err(|error| failed(&error)),
            _ if self.tree_of(self.base).await.map_err(|error| failed(&error))? == *self.tree => Ok(None),
            MergeMethod::Squash => self.squash().await.map(Some).map_err(|error| failed(&error)),
            MergeMethod::Rebase => self.rebase().await.map(|tip| Some(tip).filter(|tip| tip != self.base)),
        }
    }

    fn at<'s>(&self, arguments: impl IntoIterator<Item = &'s str>) -> GitCommand {
        self.git.at(self.path, arguments)
    }

    async fn tree_of(&self, commit: &Sha) -> Result<Sha, GitError> {
        self.git.tree_of(self.path, commit).await
    }

    /// Returns the committer as in a commit.
    fn committer(&self) -> String {
        format!("Journeyman <journeyman@localhost> {} +0000", self.seconds())
    }

    const fn seconds(&self) -> i64 {
        self.merge.at.as_micros() / 1_000_000
    }

    async fn merge_commit(&self) -> Result<Sha, GitError> {
        let LocalPull { number, title, .. } = self.pull;
        let message = format!("Merge pull request #{number}: {title}\n\nMerged-by: {}\n", self.merge.by);
        let [base, head] = [self.base, self.head].map(Sha::as_str);
        let arguments = ["commit-tree", self.tree.as_str(), "-p", base, "-p", head, "-F", "-"];
        let date = format!("@{} +0000", self.seconds());
        let commit = self.at(arguments).stdin(message).env("GIT_AUTHOR_DATE", &date).env("GIT_COMMITTER_DATE", &date);
        commit.run().await?.sha()
    }

    /// Makes one commit with all changes. Its author is that of the newest commit; the others are named in the message.
    async fn squash(&self) -> Result<Sha, GitError> {
        let range = format!("{}..{}", self.base, self.head);
        let listed =
            self.at(["log", "-z", "--reverse", "--no-merges", "--format=%s%x00%an <%ae>", &range]).run().await?;
        let fields: Vec<&[u8]> = listed.stdout.split(|byte| *byte == 0).collect();
        let commits: Vec<(&[u8], &[u8])> = fields.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        let LocalPull { number, title, .. } = self.pull;
        let mut message = format!("{title} (#{number})\n\n").into_bytes();
        for (subject, _) in commits.iter().take(MOST_LISTED) {
            message.extend([b"* ", *subject, b"\n"].concat());
        }
        if let Some(more @ 1..) = commits.len().checked_sub(MOST_LISTED) {
            message.extend(format!("* and {more} more\n").into_bytes());
        }
        let author = commits.last().map_or(b"Journeyman <journeyman@localhost>".as_slice(), |(_, author)| *author);
        message.extend(format!("\nMerged-by: {}\n", self.merge.by).into_bytes());
        let others: BTreeSet<&[u8]> = commits.iter().map(|(_, author)| *author).filter(|one| *one != author).collect();
        for other in others {
            message.extend([b"Co-authored-by: ", other, b"\n"].concat());
        }
        let mut commit = format!("tree {}\nparent {}\n", self.tree, self.base).into_bytes();
        commit.extend([b"author ", author, format!(" {} +0000\n", self.seconds()).as_bytes()].concat());
        commit.extend(format!("committer {}\n", self.committer()).into_bytes());
        commit.push(b'\n');
        commit.extend(message);
        self.write(commit).await
    }

    /// Repeats the commits on top of the base branch, without merges and without commits whose changes are there already.
    /// Returns the newest one.
    async fn rebase(&self) -> Result<Sha, PullPagesError> {
        let failed = |error: GitError| failed(&error);
        let range = format!("{}..{}", self.base, self.head);
        let listed = self.at(["rev-list", "--reverse", "--topo-order", "--no-merges", "--parents", &range]).run().await;
        let listed = listed.and_then(Output::text).map_err(failed)?;
        let commits: Vec<Vec<Sha>> =
            listed.lines().map(|line| line.split(' ').flat_map(str::parse).collect()).collect();
        if commits.len() > MOST_REBASED {
            return Err(PullPagesError::NotRebased(format!("there are more than {MOST_REBASED} of them")));
        }
        let mut tip = self.base.clone();
        for commit in &commits {
            let [commit, parent] = commit.as_slice() else {
                return Err(PullPagesError::NotRebased("one of them has no commit before it".to_owned()));
            };
            if *parent == tip {
                tip = commit.clone();
                continue;
            }
            match self.git.repeat(self.path, (commit, parent), &tip, &self.committer()).await.map_err(failed)? {
                Repeated::Commit(new) => tip = new,
                Repeated::Unchanged => {}
                Repeated::Conflicts => {
                    let short = commit.as_str().get(..12).unwrap_or_default();
                    return Err(PullPagesError::NotRebased(format!("{short} conflicts")));
                }
            }
        }
        // The commits may have been resolved otherwise than the merge, which is what people have seen.
        if self.tree_of(&tip).await.map_err(failed)? != *self.tree {
            let text = "the files would differ from those of a merge";
            return Err(PullPagesError::NotRebased(text.to_owned()));
        }
        Ok(tip)
    }

    async fn write(&self, commit: Vec<u8>) -> Result<Sha, GitError> {
        self.at(["hash-object", "-t", "commit", "-w", "--stdin"]).stdin(commit).run().await?.sha()
    }
}

/// Returns the error for a failure of git.
pub(super) fn failed(error: &GitError) -> PullPagesError {
    PullPagesError::Failed(error.to_string())
}
