//! The agent's home between turns: a compressed archive in the blob store. A session can then continue after its
//! workspace or its machine is lost, and it returns to its earlier state if a turn is repeated.
//!
//! Keys contain the job and the token of the lease under which the archive was written, so a worker that has lost its
//! lease cannot overwrite the archives of its successor.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use journeyman_core::ids::JobId;
use journeyman_core::job::Token;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, readlinkat, statat};
use rustix::io::Errno;

/// The folder of archives in the blob store, with a folder for each job.
pub(crate) const SESSIONS: &str = "sessions";

/// The maximum size of a home in bytes, before compression.
pub(crate) const HOME_BYTES: u64 = 2 << 30;

/// The maximum number of files, links and folders in a home. Creating them takes about a minute on a slow disk.
pub(crate) const HOME_ENTRIES: u64 = 1_000_000;

/// The maximum depth of folders in a home. All folders on the path to an entry are held open.
pub(super) const DEPTH: usize = 128;

/// The end of the keys of archives.
const END: &str = ".tar.gz";

/// Returns the key of the archive that the holder of the lease `token` writes.
pub(crate) fn key(job: JobId, token: Token) -> String {
    format!("{SESSIONS}/{job}/{}{END}", token.0)
}

/// Returns the key of the files that were left out of the commits of the turn whose archive has the key `archive`. There
/// is no such blob if nothing was left out, or if another version of the program wrote the archive.
#[must_use]
pub fn left_out_key(archive: &str) -> String {
    format!("{}-left-out{END}", archive.strip_suffix(END).unwrap_or(archive))
}

/// The reason why a home is not stored or restored: it has more of something than is allowed. It is the inner error of
/// an error of the kind [`ErrorKind::FileTooLarge`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Excess {
    /// Bytes before compression, including names and attributes.
    #[error("it has more than {0} bytes")]
    Bytes(u64),
    /// Files, links and folders.
    #[error("it has more than {0} files, links and folders")]
    Entries(u64),
    /// Levels of folders.
    #[error("it has more than {0} levels of folders")]
    Depth(usize),
}

impl From<Excess> for io::Error {
    fn from(excess: Excess) -> Self {
        Self::new(ErrorKind::FileTooLarge, excess)
    }
}

/// The limits for storing or restoring a home.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HomeLimits {
    /// The bytes before compression.
    pub(crate) bytes: u64,
    /// The files, links and folders.
    pub(crate) entries: u64,
}

impl HomeLimits {
    /// The limits for the homes of jobs.
    pub(crate) const OF_JOBS: Self = Self { bytes: HOME_BYTES, entries: HOME_ENTRIES };

    /// Returns the limits with this number of bytes.
    pub(crate) const fn bytes(bytes: u64) -> Self {
        Self { bytes, ..Self::OF_JOBS }
    }
}

/// Writes `home` to the file `archive`. Returns [`ErrorKind::FileTooLarge`] if the home exceeds the limits, and
/// [`ErrorKind::TimedOut`] if writing lasts until after `deadline`.
///
/// The agent is paused, but processes that have left its process group may still run. A file that changes meanwhile is
/// stored with the length that it had when it was opened; a file that disappears or cannot be read is left out. Entries
/// are opened relative to their open folder and never by path, so a link that replaces a folder is not followed.
pub(crate) fn save(home: &Path, archive: &Path, limits: HomeLimits, deadline: Instant) -> io::Result<()> {
    let mut builder = begin(archive, limits, deadline)?;
    add_folder(&mut builder, openat(CWD, home, FOLDER, Mode::empty())?, Path::new("."), 0)?;
    finish(builder)
}

/// An archive that is being written.
pub(super) type Builder = tar::Builder<Timed<Limited<GzEncoder<File>>>>;

/// Begins to write the file `archive`, as [`save`] does.
pub(super) fn begin(archive: &Path, limits: HomeLimits, deadline: Instant) -> io::Result<Builder> {
    let inner = Limited::new(GzEncoder::new(File::create(archive)?, Compression::fast()), limits.bytes);
    Ok(tar::Builder::new(Timed { inner, deadline, entries: Entries::new(limits.entries) }))
}

/// Completes an archive.
pub(super) fn finish(builder: Builder) -> io::Result<()> {
    builder.into_inner()?.inner.inner.finish()?;
    Ok(())
}

/// Opens an archive whose content has at most `limit` bytes.
pub(super) fn open(archive: &Path, limit: u64) -> io::Result<tar::Archive<Limited<GzDecoder<File>>>> {
    Ok(tar::Archive::new(Limited::new(GzDecoder::new(File::open(archive)?), limit)))
}

const FILE: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
const FOLDER: OFlags = FILE.union(OFlags::DIRECTORY);

/// Adds a folder with everything in it. Returns whether everything with content could be read.
pub(super) fn add_folder(builder: &mut Builder, folder: OwnedFd, name: &Path, depth: usize) -> io::Result<bool> {
    if depth > DEPTH {
        return Err(Excess::Depth(DEPTH).into());
    }
    let folder = File::from(folder);
    builder.append_data(&mut header(&folder)?, name, io::empty())?;
    let (mut folder, mut is_whole) = (Dir::new(folder)?, true);
    while let Some(entry) = folder.read() {
        let entry = entry?;
        let entry = entry.file_name();
        if entry == c"." || entry == c".." {
            continue;
        }
        let name = name.join(OsStr::from_bytes(entry.to_bytes()));
        is_whole &= add(builder, folder.fd()?, entry, &name, depth)?;
    }
    Ok(is_whole)
}

/// Adds an entry of an open folder under `name`. Returns false if it has content that could not be read.
pub(super) fn add(
    builder: &mut Builder,
    folder: BorrowedFd<'_>,
    entry: &CStr,
    name: &Path,
    depth: usize,
) -> io::Result<bool> {
    builder.get_mut().entries.count()?;
    match FolderEntry::at(folder, entry) {
        Ok(FolderEntry::Folder(inner)) => return add_folder(builder, inner, name, depth + 1),
        Ok(FolderEntry::File(file)) => {
            let mut header = header(&file)?;
            let exactly = (&file).chain(io::repeat(0)).take(header.size()?);
            builder.append_data(&mut header, name, exactly)?;
        }
        Ok(FolderEntry::Link(target)) => {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            header.set_mode(0o777);
            builder.append_link(&mut header, name, target)?;
        }
        Ok(FolderEntry::Nothing) | Err(Errno::NOENT) => {}
        Err(Errno::ACCESS | Errno::LOOP | Errno::NOTDIR | Errno::INVAL | Errno::NXIO) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    Ok(true)
}

fn header(file: &File) -> io::Result<tar::Header> {
    let mut header = tar::Header::new_gnu();
    header.set_metadata(&file.metadata()?);
    Ok(header)
}

/// An entry of a folder.
enum FolderEntry {
    Folder(OwnedFd),
    File(File),
    Link(PathBuf),
    /// A socket, FIFO or device, which has no content to store.
    Nothing,
}

impl FolderEntry {
    fn at(folder: BorrowedFd<'_>, name: &CStr) -> Result<Self, Errno> {
        // The type is checked first, to avoid opening devices: opening one may have side effects.
        match FileType::from_raw_mode(statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode) {
            FileType::Directory => Ok(Self::Folder(openat(folder, name, FOLDER, Mode::empty())?)),
            FileType::Symlink => {
                let target = readlinkat(folder, name, Vec::new())?;
                Ok(Self::Link(std::ffi::OsString::from_vec(target.into_bytes()).into()))
            }
            FileType::RegularFile => {
                let file = File::from(openat(folder, name, FILE, Mode::empty())?);
                // The entry may have been replaced since.
                let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
                Ok(if is_file { Self::File(file) } else { Self::Nothing })
            }
            _ => Ok(Self::Nothing),
        }
    }
}

/// A writer or reader that fails after a number of bytes.
pub(super) struct Limited<W> {
    inner: W,
    limit: u64,
    left: u64,
}

impl<T> Limited<T> {
    const fn new(inner: T, limit: u64) -> Self {
        Self { inner, limit, left: limit }
    }

    fn count(&mut self, bytes: usize) -> io::Result<usize> {
        self.left = self.left.checked_sub(bytes as u64).ok_or(Excess::Bytes(self.limit))?;
        Ok(bytes)
    }
}

/// A count of entries that fails after a maximum.
struct Entries {
    limit: u64,
    left: u64,
}

impl Entries {
    const fn new(limit: u64) -> Self {
        Self { limit, left: limit }
    }

    fn count(&mut self) -> io::Result<()> {
        self.left = self.left.checked_sub(1).ok_or(Excess::Entries(self.limit))?;
        Ok(())
    }
}

/// A writer or reader that fails after a deadline.
pub(super) struct Timed<W> {
    inner: W,
    deadline: Instant,
    entries: Entries,
}

impl<W> Timed<W> {
    fn check(&self) -> io::Result<()> {
        if Instant::now() > self.deadline { Err(ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}

impl<R: Read> Read for Timed<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.check()?;
        self.inner.read(bytes)
    }
}

impl<W: Write> Write for Timed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check()?;
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(bytes)?;
        self.count(read)
    }
}

impl<W: Write> Write for Limited<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.count(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A writer to files that stays within what is left of the limits.
pub(super) struct Written {
    limit: u64,
    left: u64,
    deadline: Instant,
    entries: Entries,
}

impl Written {
    pub(super) const fn new(limits: HomeLimits, deadline: Instant) -> Self {
        Self { limit: limits.bytes, left: limits.bytes, deadline, entries: Entries::new(limits.entries) }
    }

    /// Counts an entry.
    pub(super) fn count(&mut self) -> io::Result<()> {
        self.entries.count()
    }

    /// Copies everything from a reader to a file. Bytes that the archive does not have, such as those of a hole, count
    /// too.
    pub(super) fn copy(&mut self, from: &mut impl Read, to: &mut File) -> io::Result<()> {
        let inner = Limited { inner: to, limit: self.limit, left: self.left };
        let mut writer = Timed { inner, deadline: self.deadline, entries: Entries::new(0) };
        io::copy(from, &mut writer)?;
        self.left = writer.inner.left;
        Ok(())
    }
}

/// Opens an archive whose content has at most as many bytes as the limits, to be read until the deadline.
pub(super) fn open_until(
    archive: &Path,
    limits: HomeLimits,
    deadline: Instant,
) -> io::Result<tar::Archive<Timed<Limited<GzDecoder<File>>>>> {
    let inner = Limited::new(GzDecoder::new(File::open(archive)?), limits.bytes);
    Ok(tar::Archive::new(Timed { inner, deadline, entries: Entries::new(limits.entries) }))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use crate::workspace::unpack::restore;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Sets a flag when it is dropped, even if an assertion fails.
    struct SetOnDrop<'a>(&'a AtomicBool);

    impl Drop for SetOnDrop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    fn restored(back: &Path, archive: &Path) {
        let _ = std::fs::remove_dir_all(back);
        std::fs::create_dir(back).unwrap();
        restore(back, archive, HomeLimits::OF_JOBS, later()).unwrap();
    }

    fn later() -> Instant {
        Instant::now() + journeyman_testkit::PATIENCE
    }

    #[test]
    fn archiving_ends_at_the_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let (home, archive) = (dir.path().join("home"), dir.path().join("archive"));
        std::fs::create_dir(&home).unwrap();
        let over = Instant::now() - std::time::Duration::from_millis(1);
        assert_eq!(save(&home, &archive, HomeLimits::OF_JOBS, over).unwrap_err().kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn a_home_is_restored_with_its_links_but_without_its_sockets() {
        let dir = tempfile::tempdir().unwrap();
        let (home, archive, back) = (dir.path().join("home"), dir.path().join("a"), dir.path().join("back"));
        std::fs::create_dir_all(home.join("deep/empty")).unwrap();
        std::fs::write(home.join("deep/file"), "text").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", home.join("link")).unwrap();
        let _socket = UnixListener::bind(home.join("socket")).unwrap();
        save(&home, &archive, HomeLimits::OF_JOBS, later()).unwrap();
        restored(&back, &archive);
        assert_eq!(std::fs::read_to_string(back.join("deep/file")).unwrap(), "text");
        assert_eq!(std::fs::read_link(back.join("link")).unwrap(), Path::new("/etc/passwd"));
        assert!(back.join("deep/empty").is_dir() && !back.join("socket").exists());
    }

    #[test]
    fn a_file_that_grows_while_it_is_stored_does_not_damage_the_archive() {
        let dir = tempfile::tempdir().unwrap();
        let (home, archive, back) = (dir.path().join("home"), dir.path().join("a"), dir.path().join("back"));
        std::fs::create_dir(&home).unwrap();
        std::fs::write(home.join("after"), "text").unwrap();
        let log = home.join("log");
        std::fs::write(&log, "x").unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut log = File::options().append(true).open(&log).unwrap();
                while !over.load(Ordering::SeqCst) {
                    log.write_all(&[b'x'; 4096]).unwrap();
                    log.set_len(log.metadata().unwrap().len() % (1 << 20)).unwrap();
                }
            });
            let _over = SetOnDrop(&over);
            for _ in 0..20 {
                save(&home, &archive, HomeLimits::OF_JOBS, later()).unwrap();
                restored(&back, &archive);
                assert_eq!(std::fs::read_to_string(back.join("after")).unwrap(), "text");
            }
        });
    }
    #[test]
    fn a_link_that_replaces_a_folder_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (home, archive, back) = (dir.path().join("home"), dir.path().join("a"), dir.path().join("back"));
        std::fs::create_dir_all(home.join("folder")).unwrap();
        let hosts = dir.path().join("hosts");
        std::fs::create_dir(&hosts).unwrap();
        std::fs::write(hosts.join("file"), "of the host").unwrap();
        std::fs::write(home.join("folder/file"), "of the agent").unwrap();
        std::os::unix::fs::symlink(&hosts, home.join("link")).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    let exchange = rustix::fs::RenameFlags::EXCHANGE;
                    let (folder, link) = (home.join("folder"), home.join("link"));
                    rustix::fs::renameat_with(CWD, &folder, CWD, &link, exchange).unwrap();
                }
            });
            let _over = SetOnDrop(&over);
            for _ in 0..200 {
                save(&home, &archive, HomeLimits::OF_JOBS, later()).unwrap();
                restored(&back, &archive);
                for name in ["folder", "link"] {
                    let path = back.join(name);
                    let is_link = path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
                    let text = std::fs::read_to_string(path.join("file"));
                    assert!(is_link || text.map_or(true, |text| text == "of the agent"));
                }
            }
        });
    }

    #[test]
    fn a_home_that_is_too_large_or_too_deep_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let (home, archive, back) = (dir.path().join("home"), dir.path().join("a"), dir.path().join("back"));
        std::fs::create_dir(&home).unwrap();
        // The file is sparse and uses no space on the disk.
        File::create(home.join("large")).unwrap().set_len(1 << 40).unwrap();
        let excess = |bytes, entries| {
            let error = save(&home, &archive, HomeLimits { bytes, entries }, later()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::FileTooLarge);
            *error.get_ref().unwrap().downcast_ref::<Excess>().unwrap()
        };
        assert_eq!(excess(1 << 20, 1000), Excess::Bytes(1 << 20));
        std::fs::remove_file(home.join("large")).unwrap();
        for number in 0..100 {
            std::fs::write(home.join(number.to_string()), "").unwrap();
        }
        assert_eq!(excess(50 * 512, 1000), Excess::Bytes(50 * 512), "names count too");
        assert_eq!(excess(1 << 20, 99), Excess::Entries(99));
        save(&home, &archive, HomeLimits { bytes: 1 << 20, entries: 100 }, later()).unwrap();
        std::fs::create_dir(&back).unwrap();
        let small = |bytes, entries| restore(&back, &archive, HomeLimits { bytes, entries }, later()).unwrap_err();
        for (bytes, entries) in [(50 * 512, 1000), (1 << 20, 99)] {
            assert_eq!(small(bytes, entries).kind(), ErrorKind::FileTooLarge, "{bytes} {entries}");
        }
        std::fs::create_dir_all(home.join(vec!["a"; DEPTH + 1].join("/"))).unwrap();
        assert_eq!(excess(1 << 20, 1000), Excess::Depth(DEPTH));
    }
}
