//! Stages exactly what a turn changed: the paths that differ between the scans before and after it, without those whose
//! content is the same, that git ignores, or that cannot be published. The last are returned with their reasons.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};

use journeyman_core::ids::Sha;
use journeyman_core::left_out::LeftOutReason;
use journeyman_core::lfs::pointer_of;
use journeyman_core::run::ReasonCode;
use journeyman_git::Git;
use rustix::fs::fstat;

use super::committer::{Committer, MarkKind, OLD, Update};
use super::conflict::conflict_of;
use super::differences::Differences;
use super::lfs_objects::{Converted, StagedObjects, TurnObjects};
use crate::error::RunError;
use crate::lfs::{pointer_in, without_pointer};
use crate::submodules::SubmoduleState;
use crate::submodules::pointers::Pointers;
use crate::workspace::Workspace;
use crate::workspace::beneath::{have_same_bytes, open_beneath, open_folder};
use crate::workspace::left_out::{Extent, HeldBack};
use crate::workspace::listing::{Difference, Entry, Kind, Listing, Stamp};
use crate::workspace::scan::{READ_BY_GIT, TreeScan};

/// The states of a tree before and after a turn.
#[derive(Clone, Copy)]
pub(crate) struct Turned<'a> {
    pub(crate) before: &'a Listing,
    pub(crate) after: &'a TreeScan,
    /// True if the agent's index may have marks that the service does not know.
    pub(crate) may_have_marks: bool,
    /// True if the agent has ignore rules of its own.
    pub(crate) has_own_ignore_rules: bool,
    /// True if the ignore rules of the agent may differ from those of the last turn.
    pub(crate) has_new_ignore_rules: bool,
    /// True if the agent's git converts line endings.
    pub(crate) converts_line_endings: bool,
}

impl Turned<'_> {
    /// Returns whether git may store other bytes than those of the tree.
    pub(crate) const fn may_convert(&self) -> bool {
        self.after.has_attributes || self.converts_line_endings
    }

    /// Returns whether git may ignore files.
    const fn may_ignore(&self) -> bool {
        self.after.has_ignore_rules || self.has_own_ignore_rules
    }
}

/// What became of the changes of a turn.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    /// What was not published, by path, with the reason. The path can be a folder.
    pub(crate) left_out: BTreeMap<PathBuf, LeftOutReason>,
    /// Files that are missing in the tree, although the agent did not remove them: its git keeps them out of the tree.
    pub(crate) absent: BTreeSet<PathBuf>,
    /// Files with conflicts that are not resolved, as the agent's index says.
    pub(crate) unmerged: BTreeSet<PathBuf>,
    /// The first conflicts in changed files that contain the marks of one.
    pub(crate) with_conflict: BTreeMap<PathBuf, Vec<u8>>,
    /// Changed files that git ignores.
    ignored: HashSet<PathBuf>,
    /// All paths that may have been changed.
    candidates: HashSet<PathBuf>,
    /// The submodules after the turn, if there are any.
    pub(crate) submodules: Option<SubmoduleState>,
    /// True if the agent's index has marks.
    pub(crate) has_marks: bool,
    /// True if a file that may have been changed belongs in Git LFS.
    pub(crate) has_lfs: bool,
}

impl Staged {
    /// Records changed files that git ignores.
    pub(super) fn ignore(&mut self, paths: &HashSet<PathBuf>) {
        self.candidates.extend(paths.iter().cloned());
        self.ignored.extend(paths.iter().cloned());
    }

    /// Returns the listing with which the next turn is compared. What was left out is not in it, so that it stays a
    /// change until it is published or gone.
    pub(crate) fn next(&self, before: &Listing, after: &Listing) -> Listing {
        let ignored_before: HashSet<&Path> =
            before.entries().iter().filter(|entry| entry.is_ignored).map(|entry| entry.path.as_path()).collect();
        let blockers = self.blockers();
        let is_left_out = |path: &Path| self.left_out_with(path, &blockers).is_some();
        let kept = after.entries().iter().filter(|entry| !is_left_out(&entry.path)).map(|entry| {
            let is_ignored = match self.candidates.contains(&entry.path) {
                true => self.ignored.contains(&entry.path),
                false => ignored_before.contains(entry.path.as_path()),
            };
            Entry { is_ignored, ..entry.clone() }
        });
        let absent = self.absent.iter().map(|path| Entry {
            path: path.clone(),
            kind: Kind::File,
            stamp: Stamp::default(),
            is_ignored: false,
        });
        Listing::new(kept.chain(absent).collect())
    }

    /// Returns the path that is told as left out, if the changed file `path` is left out with it. `blockers` are
    /// [`Self::blockers`].
    fn left_out_with<'a>(&'a self, path: &Path, blockers: &[&'a Path]) -> Option<&'a Path> {
        let told = path.ancestors().find_map(|part| self.left_out.get_key_value(part)).map(|(told, _)| told.as_path());
        let is_held = || self.candidates.contains(path) || self.absent.contains(path);
        let blocks = |file: &&&Path| file.parent().is_some_and(|folder| path.starts_with(folder));
        told.or_else(|| blockers.iter().find(blocks).copied().filter(|_| is_held()))
    }

    /// Returns the files on which git would block. Nothing in their folders is committed.
    fn blockers(&self) -> Vec<&Path> {
        let blocks = |(file, reason): &(&PathBuf, &LeftOutReason)| {
            **reason == LeftOutReason::Special && READ_BY_GIT.iter().any(|name| file.ends_with(name))
        };
        self.left_out.iter().filter(blocks).map(|(file, _)| file.as_path()).collect()
    }

    /// Returns what was left out, in the order of its paths, with what there is to store of it.
    pub(crate) fn held_back(&self, after: &Listing) -> Vec<HeldBack> {
        let mut all: BTreeMap<&Path, HeldBack> = BTreeMap::new();
        for (path, reason) in &self.left_out {
            let extent = match reason {
                LeftOutReason::RepositoryInside => Extent::Folder,
                // The commit is in the agent's repository, and paths that are too long cannot be opened.
                LeftOutReason::SubmoduleCommit | LeftOutReason::PathTooLong | LeftOutReason::Special => Extent::Part,
                _ => Extent::Files,
            };
            let is_marked = *reason == LeftOutReason::MarkedLocal;
            let is_submodule = matches!(reason, LeftOutReason::Submodule | LeftOutReason::SubmoduleCommit);
            let (files, removed) = (Vec::new(), Vec::new());
            let one = HeldBack { path: path.clone(), files, removed, extent, is_marked, is_submodule };
            all.insert(path, one);
        }
        if all.is_empty() {
            return Vec::new();
        }
        let blockers = self.blockers();
        for entry in after.entries().iter().filter(|entry| self.candidates.contains(&entry.path)) {
            if let (Kind::File | Kind::Link, Some(told)) = (entry.kind, self.left_out_with(&entry.path, &blockers))
                && let Some(one) = all.get_mut(told).filter(|one| one.extent != Extent::Folder)
            {
                one.files.push(entry.path.clone());
            }
        }
        for path in self.absent.iter().filter(|path| !after.has(path)) {
            let told = self.left_out_with(path, &blockers);
            if let Some(one) = told.and_then(|told| all.get_mut(told)) {
                one.removed.push(path.clone());
            }
        }
        all.into_values().collect()
    }
}

/// The candidates whose fate is not decided yet.
pub(super) struct Open {
    /// The files and links that were added or changed.
    pub(super) present: Vec<Entry>,
    pub(super) removed: Vec<PathBuf>,
    pub(super) staged: Staged,
}

/// Stages the changes of a turn in the committer's index, without those of the paths `refused`, whose content cannot be
/// committed.
///
/// # Errors
/// The committer failed.
pub(crate) async fn stage(
    committer: &mut Committer<'_>,
    (git, workspace): (&Git, &Workspace),
    (base, turned): (&Sha, Turned<'_>),
    pointers: &mut Pointers<'_>,
    objects: Option<&TurnObjects<'_>>,
    refused: &BTreeMap<PathBuf, LeftOutReason>,
) -> Result<Staged, RunError> {
    let differences = match turned.may_have_marks && (turned.may_ignore() || turned.may_convert()) {
        true => committer.differences().await?,
        false => Differences::default(),
    };
    // A file that the agent has committed and then removed is in neither listing.
    let committed = match committer.own == *base {
        true => Vec::new(),
        false => committer.added().await?,
    };
    let mut open = Open::new(turned, &differences.added, committed);
    if pointers.has_some() {
        open.stage_submodules(committer, (git, workspace), turned.after, pointers).await?;
    }
    if turned.may_have_marks {
        open.apply_marks(committer).await?;
    }
    if turned.after.has_sparse_patterns && !open.removed.is_empty() {
        let inside: HashSet<PathBuf> = committer.sparse(&open.removed).await?.into_iter().collect();
        let (removed, absent) = std::mem::take(&mut open.removed).into_iter().partition(|path| inside.contains(path));
        open.removed = removed;
        open.staged.absent.extend::<Vec<PathBuf>>(absent);
    }
    if turned.may_ignore() {
        open.leave_ignored(committer, &turned.after.blocking, &differences.added).await?;
        open.leave_untracked(committer, &turned.after.listing, &differences.removed).await?;
    }
    open.leave_refused(refused);
    open.remove_replaced();
    open.find_conflicts(workspace).await?;
    let moved = match turned.may_convert() {
        true => open.keep_moved(committer, workspace, &differences).await?,
        false => Vec::new(),
    };
    let in_lfs = match turned.after.has_attributes {
        true => open.in_lfs(committer).await?,
        false => HashSet::new(),
    };
    open.staged.has_lfs = !in_lfs.is_empty();
    open.leave_unchanged(committer, workspace, turned.may_convert(), &in_lfs).await?;
    let converted = open.stage_lfs(workspace, &in_lfs, objects).await?;
    let Open { present, removed, mut staged } = open;
    for (how, paths) in [(Update::Remove, removed), (Update::Add, present.into_iter().map(|one| one.path).collect())] {
        for (path, error) in update(committer, how, &paths).await? {
            if how == Update::Remove {
                staged.absent.insert(path.clone());
            }
            staged.left_out.insert(path, reason_of(&error));
        }
    }
    if !converted.is_empty() {
        for (path, error) in committer.add_pointers(&converted).await? {
            staged.left_out.insert(path, reason_of(&error));
        }
    }
    // A file that was moved has an entry, even if its new content was left out.
    let kept_back: Vec<PathBuf> = moved.into_iter().filter(|path| staged.left_out.contains_key(path)).collect();
    update(committer, Update::Remove, &kept_back).await?;
    Ok(staged)
}

impl Open {
    /// Decides what can be decided without git. The agent has added the files `added` to its index.
    /// Its commits have added the files `committed`.
    fn new(turned: Turned<'_>, added: &HashSet<PathBuf>, committed: Vec<PathBuf>) -> Self {
        let Turned { before, after, .. } = turned;
        let Difference { mut present, mut removed } = before.difference(&after.listing);
        removed.extend(committed.into_iter().filter(|path| !before.has(path) && !after.listing.has(path)));
        let is_rule = |path: &Path| path.ends_with(".gitignore");
        let has_new_rules = turned.has_new_ignore_rules
            || present.iter().any(|entry| is_rule(&entry.path))
            || removed.iter().any(|path| is_rule(path));
        if has_new_rules || !added.is_empty() {
            present.extend(
                visible_again(before, &after.listing).filter(|entry| has_new_rules || added.contains(&entry.path)),
            );
        }
        let mut staged = Staged::default();
        staged.candidates.extend(present.iter().map(|entry| entry.path.clone()));
        let closed: HashSet<&Path> = after
            .listing
            .entries()
            .iter()
            .filter(|entry| entry.kind == Kind::Closed)
            .map(|entry| entry.path.as_path())
            .collect();
        staged.left_out.extend(after.too_deep.clone().map(|path| (path, LeftOutReason::PathTooLong)));
        let left_out = |path: &Path| left_out_of(path, after, &closed);
        present.retain(|entry| {
            let by_kind = match entry.kind {
                Kind::File | Kind::Link => {
                    after.large.get(&entry.path).map(|bytes| LeftOutReason::TooLarge { bytes: *bytes })
                }
                Kind::Special => Some(LeftOutReason::Special),
                Kind::Closed => Some(LeftOutReason::Unreadable),
            };
            let found = left_out(&entry.path).or_else(|| by_kind.map(|reason| (entry.path.clone(), reason)));
            let is_open = found.is_none();
            staged.left_out.extend(found);
            is_open
        });
        let (removed, kept): (Vec<PathBuf>, Vec<PathBuf>) =
            removed.into_iter().partition(|path| left_out(path).is_none());
        for path in kept {
            staged.left_out.extend(left_out(&path));
            staged.absent.insert(path);
        }
        Self { present, removed, staged }
    }

    pub(super) fn leave_out_submodules(&mut self, submodules: &[PathBuf]) {
        let submodules: HashSet<&Path> = submodules.iter().map(PathBuf::as_path).collect();
        let inside = |path: &Path| path.ancestors().skip(1).find(|part| submodules.contains(part)).map(Path::to_owned);
        let left_out = &mut self.staged.left_out;
        // A submodule that has files is a repository inside, too.
        for (path, reason) in left_out.iter_mut() {
            if submodules.contains(path.as_path()) {
                *reason = LeftOutReason::Submodule;
            }
        }
        self.present.retain(|entry| {
            let found = inside(&entry.path);
            let is_open = found.is_none();
            left_out.extend(found.map(|path| (path, LeftOutReason::Submodule)));
            is_open
        });
        self.removed.retain(|path| inside(path).is_none());
    }

    /// Leaves out the files that the agent has marked as local.
    async fn apply_marks(&mut self, committer: &mut Committer<'_>) -> Result<(), RunError> {
        let marks = committer.marks().await?;
        self.staged.has_marks = marks.iter().any(|mark| mark.kind != MarkKind::Unmerged);
        let of = |kind: MarkKind| {
            marks.iter().filter(move |mark| mark.kind == kind).map(|mark| mark.path.clone()).collect::<HashSet<_>>()
        };
        let (mut skipped, mut assumed) = (of(MarkKind::Skipped), of(MarkKind::AssumedUnchanged));
        // A mark says nothing about a file that the commit does not have, such as one that was moved with its mark: the
        // agent's index loses it when it is reset to the commit.
        let is_marked = |path: &PathBuf| skipped.contains(path) || assumed.contains(path);
        let present: Vec<PathBuf> = self.present.iter().map(|entry| entry.path.clone()).filter(is_marked).collect();
        if !present.is_empty() {
            let entries = committer.entries(&present).await?;
            for path in present.iter().filter(|path| !entries.contains_key(*path)) {
                skipped.remove(path);
                assumed.remove(path);
            }
        }
        self.staged.unmerged.extend(of(MarkKind::Unmerged));
        let staged = &mut self.staged;
        self.present.retain(|entry| {
            let is_marked = skipped.contains(&entry.path) || assumed.contains(&entry.path);
            staged.left_out.extend(is_marked.then(|| (entry.path.clone(), LeftOutReason::MarkedLocal)));
            !is_marked
        });
        self.removed.retain(|path| {
            let is_assumed = assumed.contains(path);
            staged.left_out.extend(is_assumed.then(|| (path.clone(), LeftOutReason::MarkedLocal)));
            let is_absent = is_assumed || skipped.contains(path);
            staged.absent.extend(is_absent.then(|| path.clone()));
            !is_absent
        });
        Ok(())
    }

    /// Leaves what git ignores, which is not told: people see such files in their own working trees. The agent has added
    /// the files `added` to its index, so its git does not ignore them. Git is not asked about the files `blocking`, which it
    /// would read.
    async fn leave_ignored(
        &mut self,
        committer: &mut Committer<'_>,
        blocking: &[PathBuf],
        added: &HashSet<PathBuf>,
    ) -> Result<(), RunError> {
        let paths = |open: &Self| -> Vec<PathBuf> {
            let all = open.present.iter().map(|entry| &entry.path).chain(open.staged.left_out.keys());
            all.filter(|path| !blocking.contains(path)).cloned().collect()
        };
        let mut asked = paths(self);
        if asked.is_empty() {
            return Ok(());
        }
        let mut answer = committer.ignored(&asked).await?;
        if answer.is_err() {
            // A submodule that `.gitmodules` does not name.
            let submodules: Vec<PathBuf> = committer.pointers().await?.into_keys().collect();
            self.leave_out_submodules(&submodules);
            asked = paths(self);
            answer = committer.ignored(&asked).await?;
        }
        let ignored = answer.map_err(|error| {
            RunError::failed(ReasonCode::WorkspaceRefused, format!("git cannot read the ignore rules: {error}"))
        })?;
        self.staged.ignored = ignored.into_iter().filter(|path| !added.contains(path)).collect();
        let ignored = &self.staged.ignored;
        self.staged.left_out.retain(|path, _| !ignored.contains(path));
        self.present.retain(|entry| !ignored.contains(&entry.path));
        Ok(())
    }

    /// Leaves out the files and folders whose content cannot be committed.
    fn leave_refused(&mut self, refused: &BTreeMap<PathBuf, LeftOutReason>) {
        let left_out = &mut self.staged.left_out;
        self.present.retain(|entry| {
            let found = entry.path.ancestors().find_map(|part| refused.get_key_value(part));
            left_out.extend(found.map(|(path, reason)| (path.clone(), *reason)));
            found.is_none()
        });
    }

    /// Removes files that are kept although they are missing in the tree, if the tree has a file in the place of one of their
    /// folders, or a folder in their own.
    fn remove_replaced(&mut self) {
        let present: HashSet<&Path> = self.present.iter().map(|entry| entry.path.as_path()).collect();
        let folders: HashSet<&Path> = present.iter().flat_map(|path| path.ancestors().skip(1)).collect();
        let is_replaced = |path: &PathBuf| {
            folders.contains(path.as_path()) || path.ancestors().skip(1).any(|part| present.contains(part))
        };
        let replaced: Vec<PathBuf> = self.staged.absent.iter().filter(|path| is_replaced(path)).cloned().collect();
        for path in &replaced {
            self.staged.absent.remove(path);
            self.staged.left_out.remove(path);
        }
        self.removed.extend(replaced);
    }

    /// Finds the files with marks of a conflict.
    async fn find_conflicts(&mut self, workspace: &Workspace) -> Result<(), RunError> {
        let files = self.present.iter().filter(|entry| entry.kind == Kind::File).map(|entry| entry.path.clone());
        let (files, tree): (Vec<PathBuf>, _) = (files.collect(), workspace.tree.clone());
        let found = tokio::task::spawn_blocking(move || -> io::Result<BTreeMap<PathBuf, Vec<u8>>> {
            let tree = open_folder(&tree)?;
            let conflict = |path: PathBuf| conflict_of(&tree, &path).map(|conflict| (path, conflict));
            Ok(files.into_iter().filter_map(conflict).collect())
        });
        self.staged.with_conflict = found.await.map_err(io::Error::other)??;
        Ok(())
    }

    /// Leaves the files whose bytes are those that a checkout of their committed content writes: the agent did not change
    /// them, although git may convert them to other bytes. Without conversions, git finds such files itself, except those
    /// that it does not get.
    async fn leave_unchanged(
        &mut self,
        committer: &mut Committer<'_>,
        workspace: &Workspace,
        may_convert: bool,
        in_lfs: &HashSet<PathBuf>,
    ) -> Result<(), RunError> {
        let is_compared = |entry: &&Entry| may_convert && entry.kind == Kind::File;
        let is_kept_back =
            |reason: &LeftOutReason| matches!(reason, LeftOutReason::MarkedLocal | LeftOutReason::TooLarge { .. });
        let kept_back = self.staged.left_out.iter().filter(|(_, reason)| is_kept_back(reason)).map(|(path, _)| path);
        let files: Vec<PathBuf> =
            self.present.iter().filter(is_compared).map(|entry| &entry.path).chain(kept_back).cloned().collect();
        if files.is_empty() {
            return Ok(());
        }
        committer.check_out(&files).await?;
        let (old, tree, in_lfs) = (workspace.commit_dir.join(OLD), workspace.tree.clone(), in_lfs.clone());
        let compared = tokio::task::spawn_blocking(move || -> io::Result<BTreeMap<PathBuf, Sameness>> {
            let (old, tree) = (open_folder(&old)?, open_folder(&tree)?);
            files
                .into_iter()
                .map(|path| Ok((path.clone(), compare(&old, &tree, &path, in_lfs.contains(&path))?)))
                .collect()
        });
        let compared = compared.await.map_err(io::Error::other)??;
        let sameness = |path: &Path| compared.get(path).copied().unwrap_or(Sameness::Different);
        self.staged.left_out.retain(|path, _| sameness(path) != Sameness::Same);
        for executable in [true, false] {
            let is_one = |entry: &&Entry| sameness(&entry.path) == Sameness::OtherMode { executable };
            let paths: Vec<PathBuf> = self.present.iter().filter(is_one).map(|entry| entry.path.clone()).collect();
            for (path, error) in update(committer, Update::SetExecutable(executable), &paths).await? {
                self.staged.left_out.insert(path, reason_of(&error));
            }
        }
        self.present.retain(|entry| sameness(&entry.path) == Sameness::Different);
        Ok(())
    }

    /// Returns the files that the repository keeps in Git LFS.
    async fn in_lfs(&self, committer: &mut Committer<'_>) -> Result<HashSet<PathBuf>, RunError> {
        let files = self.present.iter().filter(|entry| entry.kind == Kind::File).map(|entry| &entry.path);
        let is_large = |(_, reason): &(&PathBuf, &LeftOutReason)| matches!(reason, LeftOutReason::TooLarge { .. });
        let large = self.staged.left_out.iter().filter(is_large).map(|(path, _)| path);
        let files: Vec<PathBuf> = files.chain(large).cloned().collect();
        if files.is_empty() {
            return Ok(HashSet::new());
        }
        Ok(committer.in_lfs(&files).await?.into_iter().collect())
    }

    /// Takes the changed files in Git LFS out of those that git reads, and returns those that are committed as pointers. A
    /// commit with the content itself breaks the file for everyone who uses git-lfs, so without a store for objects, such
    /// files are left out.
    async fn stage_lfs(
        &mut self,
        workspace: &Workspace,
        in_lfs: &HashSet<PathBuf>,
        objects: Option<&TurnObjects<'_>>,
    ) -> Result<Vec<Converted>, RunError> {
        let is_one = |entry: &&Entry| entry.kind == Kind::File && in_lfs.contains(&entry.path);
        let files: Vec<PathBuf> = self.present.iter().filter(is_one).map(|entry| entry.path.clone()).collect();
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let Some(objects) = objects else {
            let tree = workspace.tree.clone();
            let found = tokio::task::spawn_blocking(move || without_pointer(&tree, files));
            let content = found.await.map_err(io::Error::other)??.into_iter().collect();
            self.leave_out(&content, LeftOutReason::LfsContent);
            return Ok(Vec::new());
        };
        let StagedObjects { converted, refused } = objects.stage(&workspace.tree, files).await?;
        self.leave_out(&refused, LeftOutReason::LfsContent);
        let pointers: HashSet<&Path> = converted.iter().map(|file| file.path.as_path()).collect();
        self.present.retain(|entry| !pointers.contains(entry.path.as_path()));
        Ok(converted)
    }

    /// Leaves out those of the paths that are still to be committed.
    fn leave_out(&mut self, paths: &HashSet<PathBuf>, reason: LeftOutReason) {
        let left_out = &mut self.staged.left_out;
        self.present.retain(|entry| {
            let is_open = !paths.contains(&entry.path);
            left_out.extend((!is_open).then(|| (entry.path.clone(), reason)));
            is_open
        });
    }
}

/// Returns the ignored files of a listing that have not changed since.
fn visible_again<'a>(before: &'a Listing, after: &'a Listing) -> impl Iterator<Item = Entry> + 'a {
    let ignored: HashSet<(&Path, Stamp)> = before
        .entries()
        .iter()
        .filter(|entry| entry.is_ignored)
        .map(|entry| (entry.path.as_path(), entry.stamp))
        .collect();
    after.entries().iter().filter(move |entry| ignored.contains(&(entry.path.as_path(), entry.stamp))).cloned()
}

/// Returns the folder or file because of which a path cannot be published, whatever it is itself.
fn left_out_of(path: &Path, after: &TreeScan, closed: &HashSet<&Path>) -> Option<(PathBuf, LeftOutReason)> {
    let blocks = after.blocking.iter().find(|file| file.parent().is_some_and(|folder| path.starts_with(folder)));
    if let Some(file) = blocks {
        return Some((file.clone(), LeftOutReason::Special));
    }
    // The outermost folder comes last.
    let repository = path.ancestors().filter(|part| after.repositories.contains(*part)).last();
    if let Some(folder) = repository {
        return Some((folder.to_owned(), LeftOutReason::RepositoryInside));
    }
    let folder = path.ancestors().skip(1).find(|part| closed.contains(part))?;
    Some((folder.to_owned(), LeftOutReason::Unreadable))
}

/// Changes entries of the index, and returns those that git refuses, with its errors. A list that git refuses is halved
/// until the path is known.
pub(super) async fn update(
    committer: &mut Committer<'_>,
    how: Update,
    paths: &[PathBuf],
) -> Result<Vec<(PathBuf, String)>, RunError> {
    let (mut next, mut refused) = (vec![paths], Vec::new());
    while let Some(paths) = next.pop() {
        if paths.is_empty() {
            continue;
        }
        match (committer.update(how, paths).await?, paths) {
            (Ok(()), _) => {}
            (Err(error), [path]) => refused.push((path.clone(), error)),
            (Err(_), paths) => next.extend(<[_; 2]>::from(paths.split_at(paths.len() / 2))),
        }
    }
    Ok(refused)
}

/// Returns the reason for a path that git refuses.
fn reason_of(error: &str) -> LeftOutReason {
    let has = |text: &str| error.contains(text);
    if has("Permission denied") {
        LeftOutReason::Unreadable
    } else if has("encode") {
        LeftOutReason::NotEncodable
    } else {
        LeftOutReason::RefusedByGit
    }
}

/// The result of a comparison of a file with its committed content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sameness {
    Same,
    /// The bytes are the same, but not whether the file is executable, which is `executable` now.
    OtherMode {
        executable: bool,
    },
    Different,
}

/// Compares a file of the committer's checkout, if there is one, with the file of the tree.
fn compare(old: &File, tree: &File, path: &Path, is_in_lfs: bool) -> io::Result<Sameness> {
    // A file that the service may not read is left to git.
    let (Ok(mut old), Ok(mut new)) = (open_beneath(old, path), open_beneath(tree, path)) else {
        return Ok(Sameness::Different);
    };
    let (was, is) = (old.metadata()?, new.metadata()?);
    if !was.is_file() || !is.is_file() {
        return Ok(Sameness::Different);
    }
    let pointer = if is_in_lfs { pointer_in(&mut old)? } else { None };
    let is_content = match pointer {
        Some(pointer) => is.len() == pointer.bytes && pointer_of(&mut new)? == pointer,
        None => false,
    };
    new.rewind()?;
    let is_same = is_content || (was.len() == is.len() && have_same_bytes(&mut old, &mut new)?);
    if !is_same {
        return Ok(Sameness::Different);
    }
    let [was, is] = [&old, &new].map(|file| fstat(file).map(|metadata| metadata.st_mode & 0o100 != 0));
    let (was, executable) = (was?, is?);
    if is_content && was != executable {
        // Git would add the content when it changes the mode, so the pointer is added with the new mode.
        return Ok(Sameness::Different);
    }
    Ok(if was == executable { Sameness::Same } else { Sameness::OtherMode { executable } })
}
