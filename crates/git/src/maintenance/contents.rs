//! What a repository contains, as files.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use journeyman_core::time::Timestamp;

/// The offset of the number of objects in the index of a pack: the last of 256 entries of four bytes after the header
/// (gitformat-pack(5), version 2).
const COUNT_AT: usize = 8 + 255 * 4;

/// A pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pack {
    /// The name of its files, without their extensions.
    pub(super) name: String,
    /// The number of its objects.
    pub(super) objects: u64,
}

/// The files of a repository that packing can replace.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Contents {
    /// The number of single objects.
    pub(super) loose: usize,
    /// The packs, without those in use and those of unreachable objects.
    pub(super) packs: Vec<Pack>,
    /// True if there is a pack of unreachable objects.
    pub(super) has_unreachable: bool,
    /// The number of files of refs.
    pub(super) refs: usize,
}

impl Contents {
    pub(super) fn of(repository: &Path) -> io::Result<Self> {
        let objects = repository.join("objects");
        let mut loose = 0;
        for (path, name) in entries(&objects)? {
            if name.len() == 2 && name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                loose += entries(&path)?.len();
            }
        }
        let PackFiles { packs: files, has_unreachable } = pack_files(&objects.join("pack"))?;
        let mut packs = Vec::new();
        for file in files {
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            packs.push(Pack { objects: count(&file.with_extension("idx"))?, name });
        }
        Ok(Self { loose, packs, has_unreachable, refs: files_in(repository.join("refs"))? })
    }
}

/// The packs in a folder.
pub(super) struct PackFiles {
    /// The packs, without those in use and those of unreachable objects.
    pub(super) packs: Vec<PathBuf>,
    /// True if there is a pack of unreachable objects.
    pub(super) has_unreachable: bool,
}

pub(super) fn pack_files(folder: &Path) -> io::Result<PackFiles> {
    let (mut packs, mut has_unreachable) = (Vec::new(), false);
    for (path, name) in entries(folder)? {
        // The index is written last.
        let Some(name) = name.strip_suffix(".idx").filter(|name| name.starts_with("pack-")) else { continue };
        let has = |extension: &str| folder.join(format!("{name}.{extension}")).exists();
        if has("mtimes") {
            has_unreachable = true;
        } else if !has("keep") && !has("promisor") {
            packs.push(path.with_extension("pack"));
        }
    }
    packs.sort_unstable();
    Ok(PackFiles { packs, has_unreachable })
}

/// Returns the number of objects of a pack, from its index.
fn count(index: &Path) -> io::Result<u64> {
    let mut header = [0; COUNT_AT + 4];
    File::open(index)?.read_exact(&mut header)?;
    let (magic, rest) = header.split_at(8);
    let last = rest.last_chunk::<4>().copied().map(u32::from_be_bytes);
    match last.filter(|_| magic == b"\xfftOc\0\0\0\x02") {
        Some(count) => Ok(u64::from(count)),
        None => Err(io::Error::other(format!("{} is not an index of version 2", index.display()))),
    }
}

/// Returns the packs that a new pack of these single objects replaces: as few of the smallest as possible, so that each
/// of the others has at least twice as many objects as all smaller ones together.
pub(super) fn rolled_up(loose: usize, mut packs: Vec<Pack>) -> Vec<Pack> {
    packs.sort_by_key(|pack| pack.objects);
    let (mut smaller, mut replaced) = (u64::try_from(loose).unwrap_or(u64::MAX), 0);
    for (index, pack) in packs.iter().enumerate() {
        if pack.objects < smaller.saturating_mul(2) {
            replaced = index + 1;
        }
        smaller = smaller.saturating_add(pack.objects);
    }
    packs.truncate(replaced);
    packs
}

/// Removes packs that killed processes were writing before `before`.
pub(super) fn remove_unfinished(repository: &Path, before: Timestamp) -> io::Result<()> {
    for (path, name) in entries(&repository.join("objects/pack"))? {
        let is_unfinished = name.starts_with("tmp_") || name.starts_with(".tmp-");
        if is_unfinished && modified(&path).is_some_and(|at| at < before) {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Removes a file, which may already be removed.
pub(super) fn remove(file: &Path) -> io::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn modified(path: &Path) -> Option<Timestamp> {
    let at = path.symlink_metadata().ok()?.modified().ok()?;
    Some(Timestamp::default() + at.duration_since(UNIX_EPOCH).ok()?)
}

/// Returns the number of files below a folder.
fn files_in(folder: PathBuf) -> io::Result<usize> {
    let (mut count, mut next) = (0, vec![folder]);
    while let Some(folder) = next.pop() {
        for entry in read(&folder)? {
            match entry.file_type()?.is_dir() {
                true => next.push(entry.path()),
                false => count += 1,
            }
        }
    }
    Ok(count)
}

/// Returns the paths and names of a folder's entries whose names are UTF-8, as are all names of objects.
fn entries(folder: &Path) -> io::Result<Vec<(PathBuf, String)>> {
    let entries = read(folder)?.into_iter();
    Ok(entries.filter_map(|entry| Some((entry.path(), entry.file_name().into_string().ok()?))).collect())
}

/// Returns the entries of a folder; none if git has removed it.
fn read(folder: &Path) -> io::Result<Vec<std::fs::DirEntry>> {
    match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_packs_are_rolled_up_until_the_rest_grows_geometrically() {
        for (loose, packs, replaced) in [
            (0, &[] as &[u64], &[] as &[u64]),
            (5, &[], &[]),
            (5, &[9], &[9]),
            (5, &[10], &[]),
            (0, &[10], &[]),
            (0, &[10, 20], &[]),
            (0, &[10, 19], &[10, 19]),
            (1, &[100, 10, 30], &[]),
            (1, &[60, 10, 30], &[10, 30, 60]),
            (6, &[100, 10, 30], &[10, 30]),
            (0, &[100, 40, 40, 500], &[40, 40, 100]),
        ] {
            let packs = packs.iter().map(|objects| Pack { name: objects.to_string(), objects: *objects }).collect();
            let found: Vec<u64> = rolled_up(loose, packs).iter().map(|pack| pack.objects).collect();
            assert_eq!(found, replaced, "{loose}");
        }
    }
}
