//! The agent's index, as far as it says what is tracked. The content of files always comes from the tree, or from a commit
//! that people have.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use journeyman_core::lfs::Pointer;

use super::committer::{Committer, OLD, path_of};
use super::exact::Open;
use crate::error::RunError;
use crate::workspace::Workspace;
use crate::workspace::beneath::{open_beneath, open_folder};
use crate::workspace::listing::{Kind, Listing};
use journeyman_core::lfs::pointer_of;

/// The mode and the object of a file in an index, as git writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    mode: String,
    object: String,
}

impl IndexEntry {
    /// Parses an entry of `git ls-files --stage`.
    pub(super) fn parse(entry: &[u8]) -> Option<(PathBuf, Self)> {
        let tab = entry.iter().position(|byte| *byte == b'\t')?;
        let mut words = std::str::from_utf8(entry.get(..tab)?).ok()?.split(' ').map(str::to_owned);
        Some((path_of(entry.get(tab + 1..)?), Self { mode: words.next()?, object: words.next()? }))
    }

    /// Returns the line that adds the entry (`git update-index --index-info`).
    pub(super) fn line(&self, path: &Path) -> Vec<u8> {
        [format!("{} {}\t", self.mode, self.object).as_bytes(), path.as_os_str().as_bytes(), b"\0"].concat()
    }

    fn is_file(&self) -> bool {
        self.mode.starts_with("100")
    }
}

/// How the agent's index differs from its newest commit.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Differences {
    /// Files that only the index has, such as ignored files that the agent has added.
    pub(super) added: HashSet<PathBuf>,
    /// Files that the index no longer has, although they may be in the tree.
    pub(super) removed: HashSet<PathBuf>,
    /// Files that were moved, with the entries that they had.
    moved: BTreeMap<PathBuf, IndexEntry>,
}

impl Differences {
    /// Parses the output of `git diff-index --raw -z`.
    pub(super) fn parse(output: &[u8]) -> Self {
        let mut found = Self::default();
        let mut fields = output.split(|byte| *byte == 0);
        while let Some(header) = fields.next().and_then(|field| std::str::from_utf8(field.strip_prefix(b":")?).ok()) {
            let words: Vec<&str> = header.split(' ').collect();
            let (&[mode, _, object, _, kind], Some(path)) = (words.as_slice(), fields.next()) else { break };
            let path = path_of(path);
            match kind.as_bytes().first() {
                Some(b'A') => _ = found.added.insert(path),
                Some(b'D') => _ = found.removed.insert(path),
                Some(b'R') => {
                    let Some(to) = fields.next().map(path_of) else { break };
                    found.removed.insert(path);
                    found.added.insert(to.clone());
                    found.moved.insert(to, IndexEntry { mode: mode.to_owned(), object: object.to_owned() });
                }
                _ => {}
            }
        }
        found
    }
}

impl Open {
    /// Removes the files that the agent no longer tracks and that git ignores, although they are in the tree. Files that
    /// no rule ignores are tracked again, as `git add --all` does.
    pub(super) async fn leave_untracked(
        &mut self,
        committer: &mut Committer<'_>,
        after: &Listing,
        removed: &HashSet<PathBuf>,
    ) -> Result<(), RunError> {
        let is_one = |kind: Kind, path: &Path| matches!(kind, Kind::File | Kind::Link) && removed.contains(path);
        let in_tree = after.entries().iter().filter(|entry| is_one(entry.kind, &entry.path)).map(|entry| &entry.path);
        let in_tree: Vec<PathBuf> = in_tree.filter(|path| !self.staged.absent.contains(*path)).cloned().collect();
        if in_tree.is_empty() {
            return Ok(());
        }
        // Git refuses the list if a path is in a submodule.
        let Ok(matched) = committer.matched(&in_tree).await? else { return Ok(()) };
        let matched: HashSet<PathBuf> = matched.into_iter().collect();
        self.present.retain(|entry| !matched.contains(&entry.path));
        self.staged.left_out.retain(|path, _| !matched.contains(path));
        self.staged.ignore(&matched);
        self.removed.extend(matched);
        Ok(())
    }

    /// Gives new files the entries of those that they were moved from, so that git keeps their content, which it would
    /// convert if the files were new. Returns the files.
    pub(super) async fn keep_moved(
        &mut self,
        committer: &mut Committer<'_>,
        workspace: &Workspace,
        differences: &Differences,
    ) -> Result<Vec<PathBuf>, RunError> {
        let new = self.present.iter().filter(|entry| entry.kind == Kind::File).map(|entry| entry.path.clone());
        let mut new: Vec<PathBuf> = new.collect();
        if new.is_empty() || self.removed.is_empty() {
            return Ok(Vec::new());
        }
        let entries = committer.entries(&[new.as_slice(), self.removed.as_slice()].concat()).await?;
        new.retain(|path| !entries.contains_key(path));
        let is_file = |path: &PathBuf| entries.get(path).is_some_and(IndexEntry::is_file);
        let old: Vec<PathBuf> = self.removed.iter().filter(|path| is_file(path)).cloned().collect();
        if new.is_empty() || old.is_empty() {
            return Ok(Vec::new());
        }
        committer.check_out(&old).await?;
        let same = same_content(workspace, old, new.clone()).await?;
        let known: HashSet<&str> = entries.values().map(|entry| entry.object.as_str()).collect();
        let entry = |path: &PathBuf| {
            let same = same.get(path).and_then(|old| entries.get(old));
            // The index is the agent's: its objects may be any.
            let moved = differences.moved.get(path).filter(|entry| known.contains(entry.object.as_str()));
            Some((path.clone(), same.or(moved).filter(|entry| entry.is_file())?.clone()))
        };
        let moved: BTreeMap<PathBuf, IndexEntry> = new.iter().filter_map(entry).collect();
        match moved.is_empty() {
            true => Ok(Vec::new()),
            false => committer.set_entries(&moved).await,
        }
    }
}

/// Returns the new files that have the same bytes as a checkout of an old one, with that one.
async fn same_content(
    workspace: &Workspace,
    old: Vec<PathBuf>,
    new: Vec<PathBuf>,
) -> Result<HashMap<PathBuf, PathBuf>, RunError> {
    let (folder, tree) = (workspace.commit_dir.join(OLD), workspace.tree.clone());
    let compare = move || -> io::Result<HashMap<PathBuf, PathBuf>> {
        let (folder, tree) = (open_folder(&folder)?, open_folder(&tree)?);
        // A file that cannot be read has no content that could be the same.
        let size = |path: &Path| Some(open_beneath(&tree, path).ok()?.metadata().ok()?.len());
        let sizes: HashSet<u64> = new.iter().filter_map(|path| size(path)).collect();
        let mut contents: HashMap<Pointer, PathBuf> = HashMap::new();
        for path in old {
            if let Ok(mut file) = open_beneath(&folder, &path)
                && let Ok(metadata) = file.metadata()
                && metadata.is_file()
                && sizes.contains(&metadata.len())
            {
                contents.entry(pointer_of(&mut file)?).or_insert(path);
            }
        }
        let sizes: HashSet<u64> = contents.keys().map(|content| content.bytes).collect();
        let mut found = HashMap::new();
        for path in new {
            if let Ok(mut file) = open_beneath(&tree, &path)
                && let Ok(metadata) = file.metadata()
                && metadata.is_file()
                && sizes.contains(&metadata.len())
                && let Some(old) = contents.get(&pointer_of(&mut file)?)
            {
                found.insert(path, old.clone());
            }
        }
        Ok(found)
    };
    Ok(tokio::task::spawn_blocking(compare).await.map_err(io::Error::other)??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_parsed_with_unusual_paths() {
        let (zero, a, b) = ("0".repeat(40), "a".repeat(40), "b".repeat(40));
        let output = format!(
            ":000000 100644 {zero} {a} A\0:new\nfile\0:100755 000000 {a} {zero} D\0gone\0:100644 100644 {a} {b} R087\0old\0moved\0"
        );
        let found = Differences::parse(output.as_bytes());
        assert_eq!(found.added, [PathBuf::from(":new\nfile"), PathBuf::from("moved")].into());
        assert_eq!(found.removed, [PathBuf::from("gone"), PathBuf::from("old")].into());
        let entry = IndexEntry { mode: "100644".to_owned(), object: a.clone() };
        assert_eq!(entry.line(Path::new("x y")), format!("100644 {a}\tx y\0").into_bytes());
        assert_eq!(found.moved, [(PathBuf::from("moved"), entry.clone())].into());
        let listed = format!("100644 {a} 0\tx\ty");
        assert_eq!(IndexEntry::parse(listed.as_bytes()), Some((PathBuf::from("x\ty"), entry)));
        assert_eq!(Differences::parse(b""), Differences::default());
    }
}
