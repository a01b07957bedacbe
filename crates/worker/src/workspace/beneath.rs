//! Access to files of a folder that programs of an agent may change meanwhile: no link is followed, nothing outside the
//! folder is reached, and opening does not block.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, renameat, unlinkat};
use rustix::io::Errno;

/// Opens a folder of the workspace itself, which only the service can replace.
pub(crate) fn open_folder(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(openat(CWD, path, flags, Mode::empty())?))
}

/// Opens a file or folder below `folder` to read it.
pub(crate) fn open_beneath(folder: &File, path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    Ok(File::from(openat2(folder, path, flags, Mode::empty(), within)?))
}

/// Opens the folder that a path below `folder` is in.
pub(crate) fn parent_beneath(folder: &File, path: &Path) -> io::Result<File> {
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => open_beneath(folder, parent),
        None => folder.try_clone(),
    }
}

/// Opens a folder below `folder`, and creates it and the folders that lead to it.
pub(crate) fn folder_beneath(folder: &File, path: &Path) -> io::Result<File> {
    let mut opened = folder.try_clone()?;
    for part in path.components() {
        match mkdirat(&opened, part.as_os_str(), Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        opened = open_beneath(&opened, Path::new(part.as_os_str()))?;
    }
    match opened.metadata()?.is_dir() {
        true => Ok(opened),
        false => Err(Errno::NOTDIR.into()),
    }
}

/// Returns whether two files have the same bytes from where they are read next.
pub(crate) fn have_same_bytes(one: &mut File, other: &mut File) -> io::Result<bool> {
    let (mut first, mut second) = (vec![0; 64 << 10], Vec::with_capacity(64 << 10));
    loop {
        let read = one.read(&mut first)?;
        if read == 0 {
            return Ok(other.read(&mut first)? == 0);
        }
        second.clear();
        other.take(read as u64).read_to_end(&mut second)?;
        if first.get(..read) != Some(second.as_slice()) {
            return Ok(false);
        }
    }
}

/// Writes a small file below `folder` in one step, and creates the folders that lead to it.
pub(crate) fn write_beneath(folder: &File, path: &Path, text: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let parent = folder_beneath(folder, path.parent().unwrap_or(Path::new("")))?;
    let mut draft = name.to_owned();
    draft.push(".lock");
    // A git process of the agent that was killed may have left this file.
    match unlinkat(&parent, &draft, rustix::fs::AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(&parent, &draft, flags, Mode::from_raw_mode(0o644))?);
    io::Write::write_all(&mut file, text)?;
    Ok(renameat(&parent, &draft, &parent, name)?)
}
