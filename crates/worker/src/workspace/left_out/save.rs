//! Writes what was left out of a commit to an archive.

use std::collections::BTreeSet;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use journeyman_core::ids::Sha;
use journeyman_core::left_out::path_text;
use rustix::fs::{AtFlags, Dir, FileType, statat};

use super::extract::{FORMAT, FORMAT_FILE, LEFT_OUT, MARKED, REMOVED, SUBMODULES, TREE};
use super::{Extent, HeldBack};
use crate::workspace::beneath::{open_beneath, open_folder, parent_beneath};
use crate::workspace::home_archive::{Builder, HomeLimits, add, add_folder, begin, finish};

/// The size of an entry of an archive without its content, in bytes. Long paths use more.
const ENTRY: u64 = 2048;

/// The space for the lists, in bytes.
const LISTS: u64 = 64 << 20;

/// The maximum depth of folders in a folder.
const DEPTH: usize = 100;

/// Writes what was left out of the commit `head` to the file `archive`, with at most `limit` bytes before compression: the
/// small before the large. Returns the paths of what is stored completely; `None` if there is nothing to store, and then
/// there is no file.
///
/// The agent's program is paused, but its processes may still change the tree. Nothing is read through a link.
pub(super) fn save(
    tree: &Path,
    archive: &Path,
    head: &Sha,
    held_back: Vec<HeldBack>,
    limit: u64,
    deadline: Instant,
) -> io::Result<Option<BTreeSet<PathBuf>>> {
    let tree = open_folder(tree)?;
    let mut sized: Vec<(u64, HeldBack)> =
        held_back.into_iter().filter_map(|one| Some((size_of(&tree, &one, limit)?, one))).collect();
    sized.sort_by_key(|(bytes, _)| *bytes);
    let mut left = limit.saturating_sub(LISTS.min(limit / 4));
    sized.retain(|(bytes, _)| {
        let fits = *bytes <= left;
        left -= if fits { *bytes } else { 0 };
        fits
    });
    if sized.is_empty() {
        return Ok(None);
    }
    let mut builder = begin(archive, HomeLimits::bytes(limit), deadline)?;
    write(&mut builder, FORMAT_FILE, format!("{FORMAT}{head}\n").as_bytes())?;
    let (mut kept, mut stored, mut removed, mut marked, mut submodules) =
        (BTreeSet::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (_, one) in sized {
        let is_whole = add_held_back(&mut builder, &tree, &one)?;
        submodules.extend(one.is_submodule.then(|| one.path.clone()));
        if one.is_marked {
            marked.extend(one.files.iter().chain(&one.removed).cloned());
        }
        removed.extend(one.removed);
        if is_whole && one.extent != Extent::Part {
            stored.push(PathBuf::from(path_text(one.path.as_os_str().as_bytes())));
            kept.insert(one.path);
        }
    }
    for (name, paths) in [(LEFT_OUT, &stored), (REMOVED, &removed), (MARKED, &marked), (SUBMODULES, &submodules)] {
        let list: Vec<u8> = paths.iter().flat_map(|path| [path.as_os_str().as_bytes(), &[0]].concat()).collect();
        write(&mut builder, name, &list)?;
    }
    finish(builder)?;
    Ok(Some(kept))
}

/// Adds the files of something. Returns whether all of them could be read.
fn add_held_back(builder: &mut Builder, tree: &File, one: &HeldBack) -> io::Result<bool> {
    let top = Path::new(TREE);
    if one.extent == Extent::Folder {
        return match open_beneath(tree, &one.path) {
            Ok(folder) if folder.metadata()?.is_dir() => add_folder(builder, folder.into(), &top.join(&one.path), 0),
            _ => Ok(false),
        };
    }
    let mut is_whole = true;
    for file in &one.files {
        is_whole &= match parent_of(tree, file) {
            Some((folder, name)) => add(builder, folder.as_fd(), &name, &top.join(file), 0)?,
            None => false,
        };
    }
    Ok(is_whole)
}

/// Adds a list.
fn write(builder: &mut Builder, name: &str, content: &[u8]) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o600);
    builder.append_data(&mut header, name, content)
}

/// Opens the folder that a path is in, and returns it with the name in it; `None` if it cannot be opened.
fn parent_of(tree: &File, path: &Path) -> Option<(File, CString)> {
    let name = CString::new(path.file_name()?.as_bytes()).ok()?;
    Some((parent_beneath(tree, path).ok()?, name))
}

/// Returns the size of something in an archive, in bytes; `None` if it cannot be stored, or has more than `limit` bytes.
fn size_of(tree: &File, one: &HeldBack, limit: u64) -> Option<u64> {
    if one.extent == Extent::Folder {
        return folder_size(&open_beneath(tree, &one.path).ok()?, 0, limit);
    }
    if one.files.is_empty() && one.removed.is_empty() {
        return None;
    }
    let mut bytes = ENTRY;
    for file in &one.files {
        let (folder, name) = parent_of(tree, file)?;
        let found = statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        bytes = bytes.saturating_add(ENTRY).saturating_add(u64::try_from(found.st_size).unwrap_or_default());
        if bytes > limit {
            return None;
        }
    }
    Some(bytes)
}

/// Returns the size of a folder with everything in it; `None` if not all of it can be stored, or if it has more than
/// `limit` bytes.
fn folder_size(folder: &File, depth: usize, limit: u64) -> Option<u64> {
    if depth > DEPTH {
        return None;
    }
    let mut bytes = ENTRY;
    if bytes > limit {
        return None;
    }
    let mut entries = Dir::read_from(folder).ok()?;
    while let Some(entry) = entries.read() {
        let entry = entry.ok()?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let inner = match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => folder_size(
                &open_beneath(folder, Path::new(OsStr::from_bytes(name.to_bytes()))).ok()?,
                depth + 1,
                limit - bytes,
            )?,
            FileType::RegularFile => ENTRY.saturating_add(u64::try_from(found.st_size).unwrap_or_default()),
            _ => ENTRY,
        };
        bytes = bytes.saturating_add(inner);
        if bytes > limit {
            return None;
        }
    }
    Some(bytes)
}
