//! Restores the home of an agent from its archive. The names, links and sizes in it come from a folder that an agent could
//! change, so nothing is created outside the folder, and nothing but files, links and folders.
//! Everything is created with the rights of the folder's owner.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path, PathBuf};
use std::time::Instant;

use rustix::fs::{Mode, OFlags, Timespec, Timestamps, fchmod, futimens, openat, symlinkat};
use rustix::io::Errno;
use tar::EntryType;

use super::beneath::{folder_beneath, open_folder};
use super::home_archive::{DEPTH, Excess, HomeLimits, Written, open_until};
use super::owner::as_owner;

/// Unpacks `archive` into the empty folder `home`.
///
/// # Errors
/// The archive exceeds the limits ([`ErrorKind::FileTooLarge`]), unpacking lasts until after the deadline
/// ([`ErrorKind::TimedOut`]), the archive is damaged, or the disk failed. A part of the archive may have been unpacked.
pub(crate) fn restore(home: &Path, archive: &Path, limits: HomeLimits, deadline: Instant) -> io::Result<()> {
    let top = open_folder(home)?;
    let owned = top.try_clone()?;
    let mut archive = open_until(archive, limits, deadline)?;
    as_owner(&owned, || Unpacking::new(top, limits, deadline).run(&mut archive))
}

/// An archive that is being unpacked.
struct Unpacking {
    top: File,
    written: Written,
    /// The folder of the last entry, with its path.
    parent: Option<(PathBuf, File)>,
    /// The modes of folders, which are set last: a folder may be read-only.
    modes: Vec<(PathBuf, Mode)>,
    /// The number of entries that were not unpacked.
    refused: u64,
}

impl Unpacking {
    const fn new(top: File, limits: HomeLimits, deadline: Instant) -> Self {
        let written = Written::new(limits, deadline);
        Self { top, written, parent: None, modes: Vec::new(), refused: 0 }
    }

    fn run(mut self, archive: &mut tar::Archive<impl Read>) -> io::Result<()> {
        for entry in archive.entries()? {
            let mut entry = entry?;
            let path = entry.path()?.into_owned();
            let Some(path) = inner_path(&path) else {
                self.refused += 1;
                continue;
            };
            // The home itself is not counted.
            if path.as_os_str().is_empty() {
                continue;
            }
            self.written.count()?;
            if path.components().count() > DEPTH + 1 {
                return Err(Excess::Depth(DEPTH).into());
            }
            match self.create(&path, &mut entry) {
                Ok(true) => {}
                Ok(false) => self.refused += 1,
                Err(error) if is_refusal(&error) => self.refused += 1,
                Err(error) => return Err(error),
            }
        }
        // Those of inner folders first.
        self.modes.sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
        for (path, mode) in &self.modes {
            fchmod(&folder_beneath(&self.top, path)?, *mode)?;
        }
        if self.refused > 0 {
            tracing::warn!(refused = self.refused, "the archive of a home has entries that are not safe");
        }
        Ok(())
    }

    /// Creates an entry. Returns false if it is neither a file nor a link nor a folder.
    fn create(&mut self, path: &Path, entry: &mut tar::Entry<'_, impl Read>) -> io::Result<bool> {
        // Without the bits that give rights to others, such as setuid.
        let mode = Mode::from_raw_mode(entry.header().mode()? & 0o777);
        let (folder, name) = (path.parent().unwrap_or(Path::new("")), path.file_name().ok_or(ErrorKind::InvalidInput)?);
        match entry.header().entry_type() {
            EntryType::Directory => {
                folder_beneath(&self.top, path)?;
                self.modes.push((path.to_owned(), mode));
            }
            EntryType::Regular => {
                let time = i64::try_from(entry.header().mtime()?).unwrap_or_default();
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let mut file = File::from(openat(self.folder(folder)?, name, flags, Mode::RUSR | Mode::WUSR)?);
                self.written.copy(entry, &mut file)?;
                fchmod(&file, mode)?;
                let time = Timespec { tv_sec: time, tv_nsec: 0 };
                futimens(&file, &Timestamps { last_access: time, last_modification: time })?;
            }
            EntryType::Symlink => {
                let Some(target) = entry.link_name_bytes().map(|target| target.into_owned()) else { return Ok(false) };
                symlinkat(target.as_slice(), self.folder(folder)?, name)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the folder at a path, which most entries have in common with the one before.
    fn folder(&mut self, path: &Path) -> io::Result<&File> {
        let opened = match self.parent.take().filter(|(before, _)| before == path) {
            Some(same) => same,
            None => (path.to_owned(), folder_beneath(&self.top, path)?),
        };
        Ok(&self.parent.insert(opened).1)
    }
}

/// Returns the path of an entry below the home, which is empty for the home itself; `None` if it leads out of it.
fn inner_path(path: &Path) -> Option<PathBuf> {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    parts.map(|part| matches!(part, Component::Normal(_)).then_some(part)).collect()
}

/// Returns whether an entry could not be created because of the others: a link or a file is where a folder should be, or
/// the entry is there already.
fn is_refusal(error: &io::Error) -> bool {
    let refusals = [Errno::EXIST, Errno::LOOP, Errno::NOTDIR, Errno::ISDIR, Errno::NAMETOOLONG, Errno::XDEV];
    error.raw_os_error().is_some_and(|code| refusals.iter().any(|refusal| refusal.raw_os_error() == code))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
    use std::time::Duration;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use journeyman_testkit::PATIENCE;
    use rustix::process::geteuid;

    use super::super::owner::TEST_USER;
    use super::*;

    /// A folder for the tests, with a home and a folder outside of it.
    struct Folders(tempfile::TempDir);

    impl Folders {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            for name in ["home", "outside"] {
                fs::create_dir(dir.path().join(name)).unwrap();
            }
            Self(dir)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        /// Writes an archive with entries of a type, a name, and a content or the target of a link.
        fn archive(&self, entries: &[(EntryType, &str, &str)]) {
            let file = GzEncoder::new(File::create(self.path("archive")).unwrap(), Compression::fast());
            let mut builder = tar::Builder::new(file);
            for (kind, name, text) in entries {
                let mut header = tar::Header::new_gnu();
                header.set_entry_type(*kind);
                header.set_mode(if *kind == EntryType::Directory { 0o6555 } else { 0o4755 });
                header.set_mtime(1_000_000_000);
                // The crate refuses names that lead out of the folder.
                header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
                let is_link = matches!(kind, EntryType::Symlink | EntryType::Link);
                if is_link {
                    header.as_gnu_mut().unwrap().linkname[..text.len()].copy_from_slice(text.as_bytes());
                }
                let content = if is_link { "" } else { text };
                header.set_size(content.len() as u64);
                header.set_cksum();
                builder.append(&header, content.as_bytes()).unwrap();
            }
            builder.into_inner().unwrap().finish().unwrap();
        }

        fn restore(&self, limits: HomeLimits) -> io::Result<()> {
            restore(&self.path("home"), &self.path("archive"), limits, Instant::now() + PATIENCE)
        }

        fn outside(&self) -> Vec<String> {
            let names = fs::read_dir(self.path("outside")).unwrap();
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        }
    }

    const FILE: EntryType = EntryType::Regular;
    const FOLDER: EntryType = EntryType::Directory;
    const LINK: EntryType = EntryType::Symlink;

    #[test]
    fn files_links_and_folders_are_restored_with_their_modes_and_times() {
        let folders = Folders::new();
        folders.archive(&[(FOLDER, "./", ""), (FOLDER, "./a", ""), (FILE, "./a/b", "text"), (LINK, "./l", "/etc/x")]);
        folders.restore(HomeLimits::OF_JOBS).unwrap();
        let file = folders.path("home/a/b");
        assert_eq!(fs::read_to_string(&file).unwrap(), "text");
        let meta = file.metadata().unwrap();
        assert_eq!((meta.permissions().mode() & 0o7777, meta.mtime()), (0o755, 1_000_000_000), "no setuid");
        assert_eq!(folders.path("home/a").metadata().unwrap().permissions().mode() & 0o7777, 0o555);
        assert_eq!(fs::read_link(folders.path("home/l")).unwrap(), Path::new("/etc/x"));
    }

    #[test]
    fn nothing_is_created_outside_of_the_home() {
        let folders = Folders::new();
        let outside = folders.path("outside");
        let outside = outside.to_str().unwrap();
        let absolute = format!("{outside}/f");
        for entries in [
            vec![(LINK, "out", "../outside"), (FILE, "out/f", "x")],
            vec![(LINK, "out", outside), (FILE, "out/f", "x"), (FOLDER, "out/d", ""), (LINK, "out/l", "x")],
            vec![(LINK, "a", "b"), (LINK, "b", "../outside"), (FILE, "a/f", "x")],
            vec![(FOLDER, "d", ""), (LINK, "d/up", "../.."), (FILE, "d/up/outside/f", "x")],
            vec![(LINK, "f", "../outside/f"), (FILE, "f", "x")],
            vec![(FILE, "../outside/f", "x")],
            vec![(FILE, "d/../../outside/f", "x")],
            vec![(FILE, &absolute, "x")],
            vec![(EntryType::Link, "hard", "../outside/there")],
            vec![(EntryType::Fifo, "pipe", ""), (EntryType::Char, "device", ""), (EntryType::Block, "disk", "")],
        ] {
            fs::remove_dir_all(folders.path("home")).unwrap();
            fs::create_dir(folders.path("home")).unwrap();
            let mut all = entries.clone();
            all.push((FILE, "after", "text"));
            folders.archive(&all);
            folders.restore(HomeLimits::OF_JOBS).unwrap();
            assert_eq!(folders.outside(), Vec::<String>::new(), "{entries:?}");
            assert_eq!(fs::read_to_string(folders.path("home/after")).unwrap(), "text", "{entries:?}");
            for name in ["hard", "pipe", "device", "disk"] {
                assert!(folders.path("home").join(name).symlink_metadata().is_err(), "{name}");
            }
        }
    }

    #[test]
    fn an_archive_with_more_than_the_limits_or_after_the_deadline_is_not_restored() {
        let folders = Folders::new();
        folders.archive(&[(FILE, "a", "text"), (FILE, "b", "text"), (FILE, "c", "text")]);
        for limits in [HomeLimits::bytes(1024), HomeLimits { bytes: 1 << 20, entries: 2 }] {
            fs::remove_dir_all(folders.path("home")).unwrap();
            fs::create_dir(folders.path("home")).unwrap();
            assert_eq!(folders.restore(limits).unwrap_err().kind(), ErrorKind::FileTooLarge, "{limits:?}");
        }
        let over = Instant::now() - Duration::from_millis(1);
        let late = restore(&folders.path("home"), &folders.path("archive"), HomeLimits::OF_JOBS, over);
        assert_eq!(late.unwrap_err().kind(), ErrorKind::TimedOut);
        let deep = vec!["d"; 50].join("/");
        folders.archive(&[(FOLDER, &deep, "")]);
        folders.restore(HomeLimits::OF_JOBS).unwrap();
        fs::write(folders.path("archive"), "damaged").unwrap();
        assert!(folders.restore(HomeLimits::OF_JOBS).is_err());
    }

    #[test]
    fn a_home_of_a_sandboxs_user_is_unpacked_with_its_rights() {
        const USER: u32 = TEST_USER;
        if !geteuid().is_root() {
            // Only root has other users.
            return;
        }
        let folders = Folders::new();
        fs::set_permissions(folders.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
        folders.archive(&[(FOLDER, "a", ""), (FILE, "a/b", "text"), (LINK, "l", "x"), (FILE, "roots/f", "x")]);
        fs::set_permissions(folders.path("archive"), fs::Permissions::from_mode(0o600)).unwrap();
        chown(folders.path("home"), Some(USER), Some(USER)).unwrap();
        folders.restore(HomeLimits::OF_JOBS).unwrap();
        for name in ["a", "a/b", "l", "roots/f"] {
            let meta = folders.path("home").join(name).symlink_metadata().unwrap();
            assert_eq!((meta.uid(), meta.gid()), (USER, USER), "{name}");
        }
        // What only root may write is refused, although this process is root.
        fs::remove_dir_all(folders.path("home")).unwrap();
        fs::create_dir(folders.path("home")).unwrap();
        chown(folders.path("home"), Some(USER), Some(USER)).unwrap();
        fs::create_dir(folders.path("home/roots")).unwrap();
        let error = folders.restore(HomeLimits::OF_JOBS).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
        // The rights of other threads are the same as before.
        assert!(geteuid().is_root());
        fs::write(folders.path("home/roots/g"), "x").unwrap();
        symlink("x", folders.path("home/roots/l")).unwrap();
    }
}
