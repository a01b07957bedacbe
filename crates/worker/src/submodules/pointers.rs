//! The pointers of submodules that a turn has moved, and its changes of `.gitmodules`: what of them is published.
//!
//! A pointer is published if its commit is in the submodule's own repository, as the service sees it. An address that is
//! not in the `.gitmodules` of people was chosen by the agent: it is published only if the agent could read it itself
//! ([`NamedBy::Agent`]). The commits of a turn are judged twice with the same rules: the files of the tree when they are
//! staged, and the commit once its objects have been imported.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use journeyman_core::ids::Sha;
use journeyman_core::submodule::{Entry, Located, Main, overlap};
use journeyman_repository::Mirror;
use journeyman_repository::import::KnownSubmodules;
use journeyman_repository::submodules::Submodules;

use super::SubmoduleState;
use super::sources::{NamedBy, Sources};
use crate::error::RunError;

/// Judges the pointers of a turn.
pub(crate) struct Pointers<'a> {
    sources: &'a Sources<'a>,
    main: Option<Main>,
    /// The submodules when the turn began.
    pub(crate) before: &'a SubmoduleState,
    /// The submodules of the commit that the turn started from, and of the branch that the work is merged into.
    people: Vec<Submodules>,
    /// The commits that the agent's pointers have named, by path. They are remembered in case its commits are replaced.
    pub(crate) wanted: BTreeMap<String, Sha>,
    /// The objects of the mirrors that have commits, as far as they were asked for.
    found: HashMap<(String, Sha), Option<PathBuf>>,
    known: KnownSubmodules,
}

/// What may be published.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    /// True if the entries of `.gitmodules` may be published.
    pub(crate) entries: bool,
    /// For each pointer whether it may be published.
    pub(crate) pointers: BTreeMap<String, Verdict>,
}

/// Whether a pointer may be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// People have published it.
    Known,
    /// Its commit is in the submodule's repository, whose mirror has these objects.
    Found(PathBuf),
    /// Its commit was not found.
    NotFound,
    /// `.gitmodules` does not name it.
    NoEntry,
}

impl<'a> Pointers<'a> {
    /// Prepares to judge the commits after the commits `starts`. With `has_some`, the repository has submodules.
    ///
    /// # Errors
    /// Git failed.
    pub(crate) async fn new(
        sources: &'a Sources<'a>,
        mirror: &Mirror,
        before: &'a SubmoduleState,
        starts: &[&Sha],
        has_some: bool,
    ) -> Result<Self, RunError> {
        let mut people = Vec::new();
        for start in if has_some { starts } else { &[] } {
            people.push(mirror.submodules(start).await?);
        }
        let known = people.iter().flat_map(|one| &one.pointers).map(|(path, at)| (path.clone(), at.clone()));
        let known = KnownSubmodules { pointers: known.collect(), ..KnownSubmodules::default() };
        let (main, wanted, found) = (sources.main(), BTreeMap::new(), HashMap::new());
        Ok(Self { sources, main, before, people, wanted, found, known })
    }

    /// Returns whether there may be something to judge.
    pub(crate) const fn has_some(&self) -> bool {
        !self.people.is_empty()
    }

    /// Returns the entries of people, each with its path once; those of the turn's beginning come first.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::new();
        for entry in self.people.iter().flat_map(|one| &one.entries) {
            if !entries.iter().any(|other| other.path == entry.path) {
                entries.push(entry.clone());
            }
        }
        entries
    }

    /// Returns the pointer at a path when the turn began.
    pub(crate) fn first(&self, path: &str) -> Option<&Sha> {
        self.people.first()?.pointers.get(path)
    }

    /// Returns the checked pointers and files so far.
    pub(crate) fn known(&self) -> &KnownSubmodules {
        &self.known
    }

    /// Judges entries of `.gitmodules` and pointers.
    ///
    /// # Errors
    /// The machine failed.
    pub(crate) async fn judge(
        &mut self,
        entries: &[Entry],
        pointers: &BTreeMap<String, Sha>,
    ) -> Result<Judged, RunError> {
        let mut judged = Judged { entries: true, pointers: BTreeMap::new() };
        for (path, commit) in pointers {
            let verdict = self.verdict(entries, path, commit).await?;
            judged.pointers.insert(path.clone(), verdict);
        }
        let old = self.entries();
        for (number, entry) in entries.iter().enumerate() {
            let is_of_people = self.people.iter().any(|one| one.entries.contains(entry));
            let overlaps = || entries.iter().enumerate().any(|(other, one)| other != number && overlap(one, entry));
            let may_be_used = is_of_people
                || (entry.is_safe()
                    && !entry.has_update
                    && !overlaps()
                    && match self.locate(entry) {
                        None => false,
                        Some((_, NamedBy::People | NamedBy::Others)) => true,
                        Some((_, NamedBy::Agent)) => {
                            matches!(judged.pointers.get(&entry.path), Some(Verdict::Found(_)))
                        }
                    });
            judged.entries &= may_be_used;
        }
        // A pointer without an entry cannot be filled.
        let has_entry = |entries: &[Entry], path: &str| entries.iter().any(|entry| entry.path == path);
        judged.entries &= pointers.keys().all(|path| has_entry(entries, path) || !has_entry(&old, path));
        Ok(judged)
    }

    async fn verdict(&mut self, entries: &[Entry], path: &str, commit: &Sha) -> Result<Verdict, RunError> {
        if self.known.pointers.contains(&(path.to_owned(), commit.clone())) {
            return Ok(Verdict::Known);
        }
        let Some(entry) = entries.iter().find(|entry| entry.path == path && entry.is_safe()) else {
            return Ok(Verdict::NoEntry);
        };
        let Some((located, named_by)) = self.locate(entry) else { return Ok(Verdict::NotFound) };
        let key = (located.address.clone(), commit.clone());
        let objects = match self.found.get(&key) {
            Some(objects) => objects.clone(),
            None => {
                let mirror = self.sources.fetch(&located, commit, named_by).await?;
                let objects = mirror.ok().map(|mirror| mirror.objects());
                self.found.insert(key, objects.clone());
                objects
            }
        };
        Ok(objects.map_or(Verdict::NotFound, Verdict::Found))
    }

    /// Returns the repository of an entry, and who has named it.
    fn locate(&self, entry: &Entry) -> Option<(Located, NamedBy)> {
        let main = self.main.as_ref()?;
        let located = main.locate(main.url(), &entry.url)?;
        let is_of_people = |one: &Entry| main.locate(main.url(), &one.url).is_some_and(|one| one == located);
        let named_by = match self.people.iter().flat_map(|one| &one.entries).any(is_of_people) {
            true => NamedBy::People,
            false => NamedBy::Agent,
        };
        Some((located, named_by))
    }

    /// Judges a commit whose objects are in the mirror, so that what it says about submodules is known if it may be
    /// published.
    ///
    /// # Errors
    /// Git or the machine failed.
    pub(crate) async fn judge_commit(&mut self, mirror: &Mirror, commit: &Sha) -> Result<(), RunError> {
        let Submodules { file, is_valid, entries, pointers } = mirror.submodules(commit).await?;
        let pointers: BTreeMap<String, Sha> = pointers.into_iter().collect();
        if file.is_none() {
            // The pointers must go, too.
            let entries = self.entries();
            let paths: Vec<&str> = entries.iter().map(|entry| entry.path.as_str()).collect();
            let left = mirror.pointers(commit, &paths).await?;
            self.known.may_remove_file = left.is_empty();
            return Ok(());
        }
        let judged = self.judge(&entries, &pointers).await?;
        for (path, verdict) in judged.pointers {
            if matches!(verdict, Verdict::Found(_))
                && let Some(commit) = pointers.get(&path)
            {
                self.known.pointers.insert((path, commit.clone()));
            }
        }
        if judged.entries && is_valid {
            self.known.files.extend(file);
        }
        Ok(())
    }
}
