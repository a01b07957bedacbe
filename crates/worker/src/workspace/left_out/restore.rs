//! Moves files that were left out of earlier commits into a rebuilt tree.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, readlinkat, renameat, statat, unlinkat};
use rustix::io::Errno;

use super::extract::Extracted;
use crate::workspace::beneath::{folder_beneath, have_same_bytes, open_beneath, parent_beneath};

/// What became of the files.
#[derive(Debug, Default)]
pub(super) struct WrittenFiles {
    /// True if the tree was changed.
    pub(super) has_changed: bool,
    /// The files whose paths are taken by something else in the tree.
    pub(super) in_the_way: Vec<PathBuf>,
    /// The files that are not in the tree for another reason.
    pub(super) lost: Vec<PathBuf>,
}

/// Moves the files from `from` into the tree. Files in `changed` are not the agent's to replace any more: the branch has
/// other ones. Those in `withheld` stay away. Links are not followed, and no folder is replaced.
///
/// # Errors
/// The disk failed.
pub(super) fn restore(
    from: &File,
    tree: &File,
    extracted: &Extracted,
    changed: &HashSet<PathBuf>,
    withheld: &HashSet<PathBuf>,
) -> io::Result<WrittenFiles> {
    let mut written = WrittenFiles::default();
    // A git directory needs its empty folders too.
    for folder in &extracted.folders {
        written.has_changed |= folder_beneath(tree, folder).is_ok();
    }
    for path in &extracted.files {
        let done = match withheld.contains(path) {
            true => Ok(Done::Lost),
            false => restore_one(from, tree, path, changed.contains(path)),
        };
        match done.or_else(passed_over)? {
            Done::WrittenFiles => written.has_changed = true,
            Done::Same => {}
            Done::InTheWay => written.in_the_way.push(path.clone()),
            Done::Lost => written.lost.push(path.clone()),
        }
    }
    for path in extracted.removed.iter().filter(|path| !withheld.contains(*path)) {
        match changed.contains(path) {
            true => written.in_the_way.push(path.clone()),
            false => written.has_changed |= remove(tree, path)?,
        }
    }
    Ok(written)
}

/// What became of a file.
enum Done {
    WrittenFiles,
    /// The tree has the same file.
    Same,
    InTheWay,
    Lost,
}

fn restore_one(from: &File, tree: &File, path: &Path, is_changed: bool) -> io::Result<Done> {
    let Some(name) = path.file_name() else { return Ok(Done::Lost) };
    if is_changed {
        let is_same = is_same(from, tree, path).unwrap_or_default();
        return Ok(if is_same { Done::Same } else { Done::InTheWay });
    }
    let parent = path.parent().unwrap_or(Path::new(""));
    let (source, target) = (parent_beneath(from, path)?, folder_beneath(tree, parent)?);
    match statat(&target, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Directory => return Ok(Done::InTheWay),
        Ok(_) if is_same(from, tree, path)? => return Ok(Done::Same),
        Ok(_) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    renameat(&source, name, &target, name)?;
    Ok(Done::WrittenFiles)
}

/// Removes a file of the tree. Returns false if there is none.
fn remove(tree: &File, path: &Path) -> io::Result<bool> {
    let Some(name) = path.file_name() else { return Ok(false) };
    let Ok(parent) = parent_beneath(tree, path) else { return Ok(false) };
    match unlinkat(&parent, name, AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT | Errno::ISDIR | Errno::NOTDIR | Errno::PERM | Errno::ACCESS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Takes an error that says that something else is in the way as a result. Other errors stay errors.
fn passed_over(error: io::Error) -> io::Result<Done> {
    let code = error.raw_os_error();
    let is = |errors: &[Errno]| errors.iter().any(|one| Some(one.raw_os_error()) == code);
    if is(&[Errno::EXIST, Errno::LOOP, Errno::NOTDIR, Errno::ISDIR, Errno::NOTEMPTY, Errno::XDEV]) {
        Ok(Done::InTheWay)
    } else if is(&[Errno::ACCESS, Errno::PERM, Errno::NAMETOOLONG, Errno::NOENT]) {
        Ok(Done::Lost)
    } else {
        Err(error)
    }
}

/// Returns whether both folders have the same file or link at a path.
fn is_same(from: &File, tree: &File, path: &Path) -> io::Result<bool> {
    let Some(name) = path.file_name() else { return Ok(false) };
    let (source, target) = (parent_beneath(from, path)?, parent_beneath(tree, path)?);
    let [old, new] = [&source, &target].map(|folder| statat(folder, name, AtFlags::SYMLINK_NOFOLLOW));
    let (old, new) = (old?, new?);
    if old.st_mode != new.st_mode || old.st_size != new.st_size {
        return Ok(false);
    }
    match FileType::from_raw_mode(old.st_mode) {
        FileType::Symlink => {
            let [old, new] = [&source, &target].map(|folder| readlinkat(folder, name, Vec::new()));
            Ok(old? == new?)
        }
        FileType::RegularFile => {
            let (Ok(mut old), Ok(mut new)) = (open_beneath(from, path), open_beneath(tree, path)) else {
                return Ok(false);
            };
            have_same_bytes(&mut old, &mut new)
        }
        _ => Ok(false),
    }
}
