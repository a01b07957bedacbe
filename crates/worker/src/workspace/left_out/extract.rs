//! Reads an archive of files that were left out of commits. The names, links and sizes in it come from a tree that an
//! agent could change, so nothing is created outside the folder, and nothing but files, links and folders.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use journeyman_core::ids::Sha;
use rustix::fs::{Mode, OFlags, openat, symlinkat};
use tar::EntryType;

use crate::workspace::beneath::{folder_beneath, open_folder};
use crate::workspace::home_archive;
use crate::workspace::owner::as_owner;

/// The name of the entry with the format and the commit.
pub(super) const FORMAT_FILE: &str = "format";

/// The first line of that entry. Another version of the program may write another format.
pub(super) const FORMAT: &str = "left-out 1\n";

/// The name of the list of the paths that were left out and are stored completely, as people see them.
pub(super) const LEFT_OUT: &str = "left-out";

/// The name of the list of the files that were removed.
pub(super) const REMOVED: &str = "removed";

/// The name of the list of the files that are marked as local.
pub(super) const MARKED: &str = "marked";

/// The name of the list of submodules.
pub(super) const SUBMODULES: &str = "submodules";

/// The folder of the files.
pub(super) const TREE: &str = "tree";

/// The folder of packs in the agent's repository.
pub(crate) const PACKS: &str = ".git/objects/pack";

/// The endings of the files of a pack that git needs (gitformat-pack(5)).
pub(crate) const PACK_FILES: [&str; 2] = ["pack", "idx"];

/// The newest stash, and the list of all stashes, in the agent's repository.
pub(crate) const STASH: &str = ".git/refs/stash";
pub(crate) const STASH_LOG: &str = ".git/logs/refs/stash";

/// The maximum number of components of a path.
const DEPTH: usize = 512;

/// The content of an archive, whose files are in a folder of the service.
#[derive(Debug)]
pub(super) struct Extracted {
    /// The commit from which the files were left out.
    pub(super) head: Sha,
    /// The paths that were left out and are stored completely, as people see them.
    pub(super) left_out: BTreeSet<String>,
    /// The files and links.
    pub(super) files: Vec<PathBuf>,
    /// The folders.
    pub(super) folders: Vec<PathBuf>,
    /// The files that the agent removed.
    pub(super) removed: Vec<PathBuf>,
    /// The files that are marked as local.
    pub(super) marked: Vec<PathBuf>,
    /// The submodules whose files the commit does not have.
    pub(super) submodules: HashSet<PathBuf>,
}

/// Reads an archive with at most `limit` bytes into the empty folder `folder`, with the rights of its owner. Entries that could lead out of the folder are
/// refused, and those that lead into the agent's repository, except refs and the packs with their commits.
///
/// # Errors
/// The archive is damaged or of another version, or the disk failed.
pub(super) fn extract(archive: &Path, folder: &Path, limit: u64) -> io::Result<Extracted> {
    let top = open_folder(folder)?;
    let mut archive = home_archive::open(archive, limit)?;
    as_owner(&top, || read(&mut archive, &top))
}

fn read(archive: &mut tar::Archive<impl Read>, top: &File) -> io::Result<Extracted> {
    let (mut files, mut folders, mut refused) = (Vec::new(), Vec::new(), 0);
    let mut lists: [(&str, Option<Vec<u8>>); 5] =
        [FORMAT_FILE, LEFT_OUT, REMOVED, MARKED, SUBMODULES].map(|name| (name, None));
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        if let Some((_, list)) = lists.iter_mut().find(|(name, _)| path == Path::new(name)) {
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            *list = Some(content);
            continue;
        }
        let is_file = entry.header().entry_type() == EntryType::Regular;
        let is_allowed = |path: &&Path| is_safe(path) || (is_file && is_of_ref(path));
        let Some(path) = path.strip_prefix(TREE).ok().filter(is_allowed).map(Path::to_owned) else {
            refused += 1;
            continue;
        };
        match create(top, &path, &mut entry) {
            Ok(true) if entry.header().entry_type() == EntryType::Directory => folders.push(path),
            Ok(true) => files.push(path),
            Ok(false) => refused += 1,
            Err(error) if is_refusal(&error) => refused += 1,
            Err(error) => return Err(error),
        }
    }
    if refused > 0 {
        tracing::warn!(refused, "an archive of files that were left out of commits has entries that are not safe");
    }
    let [format, left_out, removed, marked, submodules] = lists.map(|(_, list)| list.unwrap_or_default());
    let head = std::str::from_utf8(&format).ok().and_then(|text| text.strip_prefix(FORMAT)?.trim_end().parse().ok());
    let head = head.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "the archive has another format"))?;
    Ok(Extracted {
        head,
        left_out: paths_of(&left_out).map(|path| path.to_string_lossy().into_owned()).collect(),
        files,
        folders,
        removed: paths_of(&removed).filter(|path| is_safe(path)).collect(),
        marked: paths_of(&marked).filter(|path| is_safe(path)).collect(),
        submodules: paths_of(&submodules).filter(|path| is_safe(path)).collect(),
    })
}

fn paths_of(list: &[u8]) -> impl Iterator<Item = PathBuf> {
    list.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(|path| PathBuf::from(OsStr::from_bytes(path)))
}

/// Returns whether a path leads to a file of the tree: not out of it, and not into the agent's repository.
fn is_safe(path: &Path) -> bool {
    let mut parts = path.components();
    let is_in_repository = path.components().next().is_some_and(|part| part.as_os_str().eq_ignore_ascii_case(".git"));
    path.components().next().is_some()
        && !is_in_repository
        && path.components().count() <= DEPTH
        && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Returns whether a path is that of a ref in the agent's repository, or of a pack.
fn is_of_ref(path: &Path) -> bool {
    let is_normal = path.components().all(|part| matches!(part, Component::Normal(_)));
    let is_in = |folder: &str| path.strip_prefix(folder).is_ok_and(|rest| rest.file_name().is_some());
    let is_pack = || {
        let name = path.strip_prefix(PACKS).ok().and_then(Path::to_str).and_then(|name| name.strip_prefix("pack-"));
        name.and_then(|name| name.split_once('.'))
            .is_some_and(|(hash, end)| hash.bytes().all(|byte| byte.is_ascii_hexdigit()) && PACK_FILES.contains(&end))
    };
    is_normal
        && path.components().count() <= DEPTH
        && (is_in(".git/refs/heads")
            || is_in(".git/refs/tags")
            || [STASH, STASH_LOG].iter().any(|file| path == Path::new(file))
            || is_pack())
}

/// Creates an entry below the folder. Returns false if it is neither a file nor a link nor a folder.
fn create(top: &File, path: &Path, entry: &mut tar::Entry<'_, impl Read>) -> io::Result<bool> {
    let kind = entry.header().entry_type();
    if kind == EntryType::Directory {
        folder_beneath(top, path)?;
        return Ok(true);
    }
    let (parent, name) = (path.parent().unwrap_or(Path::new("")), path.file_name().ok_or(ErrorKind::InvalidInput)?);
    match kind {
        EntryType::Regular => {
            let parent = folder_beneath(top, parent)?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            // Without the bits that give rights to others, such as setuid.
            let mode = Mode::from_raw_mode(entry.header().mode()? & 0o777);
            let mut file = File::from(openat(&parent, name, flags, mode)?);
            rustix::fs::fchmod(&file, mode)?;
            io::copy(entry, &mut file)?;
            Ok(true)
        }
        EntryType::Symlink => {
            let Some(target) = entry.link_name_bytes().map(|target| target.into_owned()) else { return Ok(false) };
            symlinkat(target.as_slice(), &folder_beneath(top, parent)?, name)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Returns whether an entry could not be created because of the others: a link or a file is where a folder should be, or
/// the entry is there already.
fn is_refusal(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let refusals = [Errno::EXIST, Errno::LOOP, Errno::NOTDIR, Errno::ISDIR, Errno::NAMETOOLONG, Errno::XDEV];
    error.raw_os_error().is_some_and(|code| refusals.iter().any(|refusal| refusal.raw_os_error() == code))
}
