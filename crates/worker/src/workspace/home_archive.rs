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

/// The maximum depth of folders in a home. All folders on the path to an entry are held open.
const DEPTH: usize = 128;

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

/// Writes `home` to the file `archive`, with at most `limit` bytes before compression. Returns
/// [`ErrorKind::FileTooLarge`] if the home has more, and [`ErrorKind::TimedOut`] if writing lasts until after
/// `deadline`.
///
/// The agent is paused, but processes that have left its process group may still run. A file that changes meanwhile is
/// stored with the length that it had when it was opened; a file that disappears or cannot be read is left out. Entries
/// are opened relative to their open folder and never by path, so a link that replaces a folder is not followed.
pub(crate) fn save(home: &Path, archive: &Path, limit: u64, deadline: Instant) -> io::Result<()> {
    let mut builder = begin(archive, limit, deadline)?;
    add_folder(&mut builder, openat(CWD, home, FOLDER, Mode::empty())?, Path::new("."), 0)?;
    finish(builder)
}

/// An archive that is being written.
pub(super) type Builder = tar::Builder<Timed<Limited<GzEncoder<File>>>>;

/// Begins to write the file `archive`, as [`save`] does.
pub(super) fn begin(archive: &Path, limit: u64, deadline: Instant) -> io::Result<Builder> {
    let inner = Limited { inner: GzEncoder::new(File::create(archive)?, Compression::fast()), left: limit };
    Ok(tar::Builder::new(Timed { inner, deadline }))
}

/// Completes an archive.
pub(super) fn finish(builder: Builder) -> io::Result<()> {
    builder.into_inner()?.inner.inner.finish()?;
    Ok(())
}

/// Opens an archive whose content has at most `limit` bytes.
pub(super) fn open(archive: &Path, limit: u64) -> io::Result<tar::Archive<Limited<GzDecoder<File>>>> {
    Ok(tar::Archive::new(Limited { inner: GzDecoder::new(File::open(archive)?), left: limit }))
}

const FILE: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
const FOLDER: OFlags = FILE.union(OFlags::DIRECTORY);

/// Adds a folder with everything in it. Returns whether everything with content could be read.
pub(super) fn add_folder(builder: &mut Builder, folder: OwnedFd, name: &Path, depth: usize) -> io::Result<bool> {
    if depth > DEPTH {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("a home has more than {DEPTH} levels of folders")));
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
    match Found::at(folder, entry) {
        Ok(Found::Folder(inner)) => return add_folder(builder, inner, name, depth + 1),
        Ok(Found::File(file)) => {
            let mut header = header(&file)?;
            let exactly = (&file).chain(io::repeat(0)).take(header.size()?);
            builder.append_data(&mut header, name, exactly)?;
        }
        Ok(Found::Link(target)) => {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            header.set_mode(0o777);
            builder.append_link(&mut header, name, target)?;
        }
        Ok(Found::Nothing) | Err(Errno::NOENT) => {}
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
enum Found {
    Folder(OwnedFd),
    File(File),
    Link(PathBuf),
    /// A socket, FIFO or device, which has no content to store.
    Nothing,
}

impl Found {
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
    left: u64,
}

impl<T> Limited<T> {
    fn count(&mut self, bytes: usize) -> io::Result<usize> {
        self.left = self.left.checked_sub(bytes as u64).ok_or(ErrorKind::FileTooLarge)?;
        Ok(bytes)
    }
}

/// A writer that fails after a deadline.
pub(super) struct Timed<W> {
    inner: W,
    deadline: Instant,
}

impl<W: Write> Write for Timed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if Instant::now() > self.deadline {
            return Err(ErrorKind::TimedOut.into());
        }
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

/// Creates the folder `home` with the content of `archive`, which must have at most `limit` bytes. Without an archive,
/// the folder is empty.
pub(crate) fn restore(home: &Path, archive: Option<&Path>, limit: u64) -> io::Result<()> {
    std::fs::create_dir_all(home)?;
    match archive {
        // `unpack` refuses entries that would leave the folder.
        Some(archive) => open(archive, limit)?.unpack(home),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
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
        restore(back, Some(archive), HOME_BYTES).unwrap();
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
        assert_eq!(save(&home, &archive, HOME_BYTES, over).unwrap_err().kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn a_home_is_restored_with_its_links_but_without_its_sockets() {
        let dir = tempfile::tempdir().unwrap();
        let (home, archive, back) = (dir.path().join("home"), dir.path().join("a"), dir.path().join("back"));
        std::fs::create_dir_all(home.join("deep/empty")).unwrap();
        std::fs::write(home.join("deep/file"), "text").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", home.join("link")).unwrap();
        let _socket = UnixListener::bind(home.join("socket")).unwrap();
        save(&home, &archive, HOME_BYTES, later()).unwrap();
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
                save(&home, &archive, HOME_BYTES, later()).unwrap();
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
                save(&home, &archive, HOME_BYTES, later()).unwrap();
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
        assert_eq!(save(&home, &archive, 1 << 20, later()).unwrap_err().kind(), ErrorKind::FileTooLarge);
        std::fs::remove_file(home.join("large")).unwrap();
        for number in 0..100 {
            std::fs::write(home.join(number.to_string()), "").unwrap();
        }
        assert_eq!(
            save(&home, &archive, 50 * 512, later()).unwrap_err().kind(),
            ErrorKind::FileTooLarge,
            "names count too"
        );
        save(&home, &archive, 1 << 20, later()).unwrap();
        assert!(restore(&back, Some(&archive), 50 * 512).is_err());
        std::fs::create_dir_all(home.join(vec!["a"; DEPTH + 1].join("/"))).unwrap();
        assert_eq!(save(&home, &archive, 1 << 20, later()).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }
}
