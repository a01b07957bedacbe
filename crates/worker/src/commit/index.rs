//! The agent's index, as far as it says what is tracked. The content of files always comes from the tree, or from a commit
//! that people have.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use journeyman_core::lfs::Pointer;

use super::committer::{Committer, OLD};
use super::differences::{Differences, IndexEntry};
use super::exact::Open;
use crate::error::RunError;
use crate::workspace::Workspace;
use crate::workspace::beneath::{open_beneath, open_folder};
use crate::workspace::listing::{Kind, Listing};
use journeyman_core::lfs::pointer_of;

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
