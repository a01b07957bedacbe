//! Entries of folders on disk.
//!
//! Git syncs the files that it writes (`core.fsync`) and not the folders in which it gives them their names, so a power cut
//! may take a name away that a finished command has given. This syncs those folders.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// When the folders of a repository were changed, before a command that changes it.
#[derive(Debug)]
pub struct Folders {
    git_dir: PathBuf,
    before: BTreeMap<PathBuf, SystemTime>,
}

impl Folders {
    /// Looks at a repository that is about to be changed. Asks the disk: not for an async thread.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn look(git_dir: &Path) -> io::Result<Self> {
        Ok(Self { git_dir: git_dir.to_owned(), before: folders(git_dir)? })
    }

    /// Syncs the folders that were changed since. Asks the disk: not for an async thread.
    ///
    /// # Errors
    /// A folder cannot be read or synced: what was written may not survive a power cut.
    pub fn sync(&self) -> io::Result<()> {
        let now = folders(&self.git_dir)?;
        // A clock of the file system may stand still for some milliseconds: a folder of the newest time seen before may
        // have been changed after it was looked at.
        let newest = self.before.values().max();
        for (folder, changed) in &now {
            if self.before.get(folder) != Some(changed) || Some(changed) >= newest {
                File::open(folder)?.sync_all()?;
            }
        }
        Ok(())
    }
}

/// Syncs a folder and all files and folders in it.
///
/// # Errors
/// One of them cannot be read or synced.
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

/// The folders in which git makes entries that count: objects, packs and refs. Those of the quarantine of a push, and
/// others that go again, are none of them.
fn folders(git_dir: &Path) -> io::Result<BTreeMap<PathBuf, SystemTime>> {
    let mut found = BTreeMap::new();
    for folder in [git_dir.to_owned(), git_dir.join("objects"), git_dir.join("objects/pack")] {
        note(&mut found, folder)?;
    }
    for entry in std::fs::read_dir(git_dir.join("objects"))? {
        let entry = entry?;
        if entry.file_name().len() == 2 {
            note(&mut found, entry.path())?;
        }
    }
    let mut next = vec![git_dir.join("refs")];
    while let Some(folder) = next.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            // Git removes folders of refs that are empty.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                next.push(entry.path());
            }
        }
        note(&mut found, folder)?;
    }
    Ok(found)
}

fn note(found: &mut BTreeMap<PathBuf, SystemTime>, folder: PathBuf) -> io::Result<()> {
    match std::fs::metadata(&folder) {
        Ok(note) => {
            found.insert(folder, note.modified()?);
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
    fn folders_that_git_gives_names_in_are_found_and_no_others() {
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
}
