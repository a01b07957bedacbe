//! Commits, and the files that they change.

use std::collections::HashSet;

use journeyman_core::ids::Sha;
use journeyman_core::left_out::path_text;
use journeyman_git::GitError;

use crate::{History, Mirror, RepositoryError};

/// Commits, and the files that they change.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The commits, oldest first.
    pub commits: Vec<Sha>,
    /// The parents of all commits.
    parents: HashSet<String>,
    /// True if there is a merge commit. Its changes are listed against its first parent only.
    pub merge: bool,
    /// The changed files, once for each commit that changes them.
    pub files: Vec<Change>,
}

/// A change of a file by a commit.
#[derive(Debug, PartialEq, Eq)]
pub struct Change {
    /// The mode before, as six octal digits; zeros if the file did not exist.
    pub old_mode: String,
    /// The mode after, as six octal digits; zeros if the file was removed.
    pub new_mode: String,
    /// The ID of the new content.
    pub object: String,
    /// The path in the repository, with escapes for bytes that are not UTF-8 ([`path_text`]).
    pub path: String,
}

impl Change {
    /// Returns the path, and its mode and content after the change.
    pub(crate) fn result(&self) -> (&str, &str, &str) {
        (&self.path, &self.new_mode, &self.object)
    }
}

impl Changes {
    /// Parses the output of `git log --raw -z --format="%H %P"`: an entry for each commit, and for each file an entry
    /// that begins with a colon, followed by its path. Each ends with a NUL (git-diff(1), "raw output format").
    fn parse(output: &str) -> Self {
        let mut changes = Self::default();
        let mut fields = output.split('\0');
        while let Some(field) = fields.next() {
            if let Some(change) = field.trim_start_matches('\n').strip_prefix(':') {
                let words: Vec<&str> = change.split(' ').collect();
                let (&[old_mode, new_mode, _, object, _], Some(path)) = (words.as_slice(), fields.next()) else {
                    break;
                };
                let [old_mode, new_mode, object, path] = [old_mode, new_mode, object, path].map(str::to_owned);
                changes.files.push(Change { old_mode, new_mode, object, path });
            } else {
                let mut words = field.trim_start_matches('\n').split(' ');
                changes.commits.extend(words.next().and_then(|commit| commit.parse().ok()));
                let parents: Vec<&str> = words.filter(|parent| !parent.is_empty()).collect();
                changes.merge |= parents.len() > 1;
                changes.parents.extend(parents.into_iter().map(str::to_owned));
            }
        }
        changes
    }
}

impl Mirror {
    /// Returns the commits up to `head` that no branch of the code host has, oldest first.
    ///
    /// # Errors
    /// Git failed.
    pub async fn unpublished(&self, head: &Sha) -> Result<Vec<Sha>, RepositoryError> {
        let arguments = ["rev-list", "--reverse", "--topo-order", head.as_str(), "--not", "--branches"];
        Ok(self.git.at(&self.path, arguments).run().await?.shas()?)
    }

    /// Returns the changes from `base` to `head`, without the commits that `upstream` has; `None` if `head` is not a
    /// descendant of `base`.
    ///
    /// # Errors
    /// Git failed.
    pub async fn changes(&self, base: &Sha, upstream: Option<&Sha>, head: &Sha) -> Result<Option<Changes>, GitError> {
        let range = [format!("{base}..{head}")].into_iter().chain(upstream.map(|upstream| format!("^{upstream}")));
        let form = ["--raw", "-r", "-z", "--no-renames", "--no-abbrev", "--diff-merges=first-parent"];
        let arguments = ["log", "--reverse", "--topo-order", "--format=%H %P"].into_iter().chain(form);
        let arguments = arguments.map(str::to_owned).chain(range).chain(["--".to_owned()]);
        let output = self.git.at(&self.path, arguments).run().await?.stdout;
        let changes = Changes::parse(&path_text(&output));
        // The agent may have moved forward to the upstream branch, which has the base in its history.
        let follows = changes.parents.contains(base.as_str()) || self.contains(head, base).await;
        Ok(follows.then_some(changes))
    }

    /// Returns the difference between the files of two commits.
    ///
    /// # Errors
    /// Git failed.
    pub async fn difference(&self, base: &Sha, head: &Sha) -> Result<Vec<Change>, GitError> {
        let arguments =
            ["diff-tree", "-r", "--raw", "-z", "--no-renames", "--no-abbrev", base.as_str(), head.as_str(), "--"];
        let output = self.git.at(&self.path, arguments).run().await?.stdout;
        Ok(Changes::parse(&path_text(&output)).files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_and_files_are_parsed_with_unusual_paths() {
        let (a, b, c) = ("a".repeat(40), "b".repeat(40), "c".repeat(40));
        let output = format!(
            "{b} {a}\0\n:000000 100644 {zero} {a} A\0:odd \n path\0{c} {b}\0\n:100644 160000 {a} {b} M\0x\0",
            zero = "0".repeat(40)
        );
        let changes = Changes::parse(&output);
        assert_eq!(changes.commits, [b.parse().unwrap(), c.parse().unwrap()]);
        assert_eq!(changes.parents, [a.clone(), b.clone()].into());
        assert!(!changes.merge && Changes::parse(&format!("{c} {b} {a}\0")).merge);
        let files: Vec<_> = changes.files.iter().map(|file| (file.new_mode.as_str(), file.path.as_str())).collect();
        assert_eq!(files, [("100644", ":odd \n path"), ("160000", "x")]);
        assert_eq!(changes.files[0].object, a);
    }
}
