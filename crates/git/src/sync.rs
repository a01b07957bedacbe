//! Syncs of folder entries.
//!
//! Git syncs the files that it writes (`core.fsync`), but not the folders that contain their names, so a power failure
//! may remove a name that a finished command has created. This module syncs those folders.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The modification times of a repository's folders before a command that changes it.
#[derive(Debug)]
pub struct Folders {
    git_dir: PathBuf,
    before: BTreeMap<PathBuf, SystemTime>,
}

impl Folders {
    /// Records the folders of a repository that is about to be changed. Blocks on disk I/O: not for an async thread.
    ///
    /// # Errors
    /// Returns an error if a folder cannot be read.
    pub fn look(git_dir: &Path) -> io::Result<Self> {
        Ok(Self { git_dir: git_dir.to_owned(), before: folders(git_dir)? })
    }

    /// Returns all folders of a repository, to sync them after a command before which they were not recorded.
    #[must_use]
    pub fn all(git_dir: &Path) -> Self {
        Self { git_dir: git_dir.to_owned(), before: BTreeMap::new() }
    }

    /// Syncs the folders that have changed since they were recorded. Blocks on disk I/O: not for an async thread.
    ///
    /// # Errors
    /// Returns an error if a folder cannot be read or synced; the new files may then not survive a power failure.
    pub fn sync(&self) -> io::Result<()> {
        sync_changed(&self.before, &folders(&self.git_dir)?)
    }
}

/// Syncs the folders of `now` that have changed since `before`.
fn sync_changed(before: &BTreeMap<PathBuf, SystemTime>, now: &BTreeMap<PathBuf, SystemTime>) -> io::Result<()> {
    // The clock of the file system may not advance for some milliseconds: a folder with the newest recorded time may
    // have changed after it was recorded.
    let newest = before.values().max();
    for (folder, changed) in now {
        if before.get(folder) != Some(changed) || Some(changed) >= newest {
            match File::open(folder) {
                Ok(folder) => folder.sync_all()?,
                // Packing has removed it, after it had synced the pack with what was in it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Syncs a folder and all files and folders in it.
///
/// # Errors
/// Returns an error if a file or folder cannot be read or synced.
pub fn sync_tree(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            sync_tree(&entry.path())?;
        } else if kind.is_file() {
            File::open(entry.path())?.sync_all()?;
        }
    }
    File::open(folder)?.sync_all()
}

/// Returns the folders in which git creates lasting entries: objects, packs and refs. The quarantine of a push and
/// other temporary folders are not included.
fn folders(git_dir: &Path) -> io::Result<BTreeMap<PathBuf, SystemTime>> {
    let mut found = BTreeMap::new();
    for folder in [git_dir.to_owned(), git_dir.join("objects"), git_dir.join("objects/pack")] {
        record(&mut found, folder)?;
    }
    for entry in std::fs::read_dir(git_dir.join("objects"))? {
        let entry = entry?;
        if entry.file_name().len() == 2 {
            record(&mut found, entry.path())?;
        }
    }
    let mut next = vec![git_dir.join("refs")];
    while let Some(folder) = next.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            // Git removes empty folders of refs.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                next.push(entry.path());
            }
        }
        record(&mut found, folder)?;
    }
    Ok(found)
}

fn record(found: &mut BTreeMap<PathBuf, SystemTime>, folder: PathBuf) -> io::Result<()> {
    match std::fs::metadata(&folder) {
        Ok(meta) => {
            found.insert(folder, meta.modified()?);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_with_lasting_entries_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let git = dir.path();
        for folder in
            ["objects/pack", "objects/ab", "objects/tmp_objdir-incoming-x", "refs/heads/team", "refs/jobs", "hooks"]
        {
            std::fs::create_dir_all(git.join(folder)).unwrap();
        }
        let before = Folders::look(git).unwrap();
        std::fs::create_dir(git.join("objects/cd")).unwrap();
        std::fs::create_dir(git.join("refs/heads/other")).unwrap();
        let now = folders(git).unwrap();
        let names: Vec<_> = now.keys().map(|path| path.strip_prefix(git).unwrap().to_str().unwrap()).collect();
        let expected = [
            "",
            "objects",
            "objects/ab",
            "objects/cd",
            "objects/pack",
            "refs",
            "refs/heads",
            "refs/heads/other",
            "refs/heads/team",
            "refs/jobs",
        ];
        assert_eq!(names, expected);
        assert!(!before.before.contains_key(&git.join("objects/cd")));
        before.sync().unwrap();
    }

    #[test]
    fn a_folder_that_packing_has_removed_is_not_synced() {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["objects/pack", "objects/ab", "refs/jobs/1"] {
            std::fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        let all = folders(dir.path()).unwrap();
        for folder in ["objects/ab", "refs/jobs/1"] {
            std::fs::remove_dir(dir.path().join(folder)).unwrap();
        }
        sync_changed(&BTreeMap::new(), &all).unwrap();
        let is_gone = |folder: &str| !dir.path().join(folder).exists();
        assert!(is_gone("objects/ab") && is_gone("refs/jobs/1"));
    }
}
