//! Stages the pointers of submodules that a turn has moved, and its changes of `.gitmodules`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use journeyman_core::ids::Sha;
use journeyman_core::left_out::LeftOutReason;
use journeyman_core::submodule::Entry;
use journeyman_git::Git;
use journeyman_repository::import::GITMODULES;
use journeyman_repository::submodules::{GITMODULES_BYTES, parse_gitmodules};

use super::committer::{Committer, Update};
use super::exact::Open;
use crate::error::RunError;
use crate::submodules::Filled;
use crate::submodules::pointers::{Judged, Pointers, Verdict};
use crate::workspace::Workspace;
use crate::workspace::beneath::{open_beneath, open_folder};
use crate::workspace::scan::TreeScan;

impl Open {
    /// Decides on everything that the turn has changed about submodules.
    pub(super) async fn stage_submodules(
        &mut self,
        committer: &mut Committer<'_>,
        (git, workspace): (&Git, &Workspace),
        after: &TreeScan,
        pointers: &mut Pointers<'_>,
    ) -> Result<(), RunError> {
        let committed = committer.pointers().await?;
        let paths: Vec<PathBuf> = committed.keys().cloned().collect();
        self.leave_out_submodules(&paths);
        let is_settings = |path: &Path| path == Path::new(GITMODULES);
        let is_changed = self.present.iter().any(|entry| is_settings(&entry.path))
            || self.removed.iter().any(|path| is_settings(path));
        let old = pointers.entries();
        let read = if is_changed { read_entries(git, workspace).await? } else { Some(old.clone()) };
        let (is_valid, entries) = (read.is_some(), read.unwrap_or_default());
        let names = |entries: &[Entry], path: &str| entries.iter().any(|entry| entry.path == path);
        let named = |path: &str| names(&entries, path) || names(&old, path);
        // Git reads the commits that the submodules have checked out.
        let checked_out: Vec<PathBuf> = (after.repositories.iter())
            .filter(|path| {
                path.to_str().is_some_and(&named) && !after.blocking.iter().any(|file| file.starts_with(path))
            })
            .cloned()
            .collect();
        let refused = super::exact::update(committer, Update::Add, &checked_out).await?;
        let indexed = committer.pointers().await?;
        let is_read =
            |path: &Path| checked_out.iter().any(|one| one == path) && !refused.iter().any(|(one, _)| one == path);
        let mut heads: BTreeMap<String, Sha> = BTreeMap::new();
        for (path, commit) in indexed.iter().filter(|(path, _)| is_read(path)) {
            heads.extend(path.to_str().map(|path| (path.to_owned(), commit.clone())));
        }
        let mut wanted: BTreeMap<String, Sha> = BTreeMap::new();
        let is_removed = |path: &str| !committed.contains_key(Path::new(path)) && pointers.first(path).is_some();
        let all: BTreeSet<&str> =
            committed.keys().filter_map(|path| path.to_str()).chain(heads.keys().map(String::as_str)).collect();
        for path in all.into_iter().filter(|path| named(path) && !is_removed(path)) {
            let head = heads.get(path);
            let had = pointers.before.filled.get(path).map(|filled| &filled.head);
            let is_moved = head.is_some() && head != had;
            let own = committed.get(Path::new(path)).filter(|own| pointers.first(path) != Some(*own));
            let chosen = head.filter(|_| is_moved).or(own).or_else(|| pointers.wanted.get(path));
            let chosen = chosen.or_else(|| pointers.first(path));
            // The folder of a submodule that is not filled is empty, but it is there.
            if is_gone(workspace, path).await? && !after.has_sparse_patterns {
                continue;
            }
            wanted.extend(chosen.map(|commit| (path.to_owned(), commit.clone())));
        }
        pointers.wanted = wanted.clone();
        let mut judged = pointers.judge(&entries, &wanted).await?;
        if is_changed && !(judged.entries && is_valid) {
            self.staged.left_out.insert(PathBuf::from(GITMODULES), LeftOutReason::SubmoduleSettings);
            self.present.retain(|entry| !is_settings(&entry.path));
            if self.removed.iter().any(|path| is_settings(path)) {
                self.removed.retain(|path| !is_settings(path));
                self.staged.absent.insert(PathBuf::from(GITMODULES));
            }
            judged = pointers.judge(&old, &wanted).await?;
        }
        self.apply(committer, pointers, &wanted, &judged, &indexed).await?;
        self.judge_files(committer, pointers, after, &heads, &judged).await
    }

    /// Sets the pointers in the index, and leaves out those that may not be published.
    async fn apply(
        &mut self,
        committer: &mut Committer<'_>,
        pointers: &Pointers<'_>,
        wanted: &BTreeMap<String, Sha>,
        judged: &Judged,
        indexed: &BTreeMap<PathBuf, Sha>,
    ) -> Result<(), RunError> {
        let mut changes: BTreeMap<String, Option<Sha>> = BTreeMap::new();
        let paths = indexed.keys().filter_map(|path| path.to_str()).chain(wanted.keys().map(String::as_str));
        for path in paths.collect::<BTreeSet<_>>() {
            let is_named = wanted.contains_key(path) || pointers.first(path).is_some();
            let target = match (judged.pointers.get(path), wanted.get(path)) {
                (Some(Verdict::Known | Verdict::Found(_)), Some(commit)) => Some(commit),
                (Some(verdict), _) => {
                    let reason = match verdict {
                        Verdict::NoEntry => LeftOutReason::RepositoryInside,
                        _ => LeftOutReason::SubmoduleCommit,
                    };
                    self.staged.left_out.insert(PathBuf::from(path), reason);
                    pointers.first(path)
                }
                // The folder was removed.
                (None, _) if is_named => None,
                (None, _) => continue,
            };
            if indexed.get(Path::new(path)) != target {
                changes.insert(path.to_owned(), target.cloned());
            }
        }
        if changes.is_empty() {
            return Ok(());
        }
        if let Err(error) = committer.set_pointers(&changes).await? {
            tracing::warn!(error, "git refuses pointers of submodules");
            for path in changes.into_keys() {
                self.staged.left_out.insert(PathBuf::from(path), LeftOutReason::RefusedByGit);
            }
        }
        Ok(())
    }

    /// Decides whether the files of submodules in which something has changed are those of the commit that they have checked
    /// out. Then there is nothing that their pointers do not say.
    async fn judge_files(
        &mut self,
        committer: &mut Committer<'_>,
        pointers: &Pointers<'_>,
        after: &TreeScan,
        heads: &BTreeMap<String, Sha>,
        judged: &Judged,
    ) -> Result<(), RunError> {
        let mut state = pointers.before.clone();
        for (path, head) in heads {
            let objects = match judged.pointers.get(path) {
                Some(Verdict::Found(objects)) => Some(objects),
                Some(Verdict::Known) => pointers.before.filled.get(path).map(|filled| &filled.objects),
                _ => continue,
            };
            if let Some(objects) = objects {
                state.filled.insert(path.clone(), Filled { head: head.clone(), objects: objects.clone() });
            }
            let (folder, is_blocked) = (Path::new(path), after.blocking.iter().any(|file| file.starts_with(path)));
            let is_touched = self
                .staged
                .left_out
                .get(folder)
                .is_some_and(|reason| matches!(reason, LeftOutReason::Submodule | LeftOutReason::RepositoryInside));
            if is_touched && !is_blocked && committer.is_clean(path, head).await? {
                self.staged.left_out.remove(folder);
                self.staged.absent.retain(|absent| !absent.starts_with(folder));
            } else if is_touched {
                self.staged.left_out.insert(folder.to_owned(), LeftOutReason::Submodule);
            }
        }
        self.staged.submodules = Some(state);
        Ok(())
    }
}

/// Returns whether nothing is at a path of the tree.
async fn is_gone(workspace: &Workspace, path: &str) -> Result<bool, RunError> {
    let (tree, path) = (workspace.tree.clone(), PathBuf::from(path));
    let look = move || -> io::Result<bool> {
        let found = open_beneath(&open_folder(&tree)?, &path);
        Ok(found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound))
    };
    Ok(tokio::task::spawn_blocking(look).await.map_err(io::Error::other)??)
}

/// Reads the entries of the `.gitmodules` in the tree; none if it is gone, `None` if git cannot parse it.
async fn read_entries(git: &Git, workspace: &Workspace) -> Result<Option<Vec<Entry>>, RunError> {
    let tree = workspace.tree.clone();
    let read = move || -> io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        match open_beneath(&open_folder(&tree)?, Path::new(GITMODULES)) {
            Ok(file) if file.metadata()?.is_file() => {
                file.take(GITMODULES_BYTES as u64 + 1).read_to_end(&mut bytes)?;
                Ok(Some(bytes))
            }
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(bytes)),
            Err(_) => Ok(None),
        }
    };
    match tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?? {
        Some(bytes) => Ok(parse_gitmodules(git, bytes).await?),
        None => Ok(None),
    }
}
