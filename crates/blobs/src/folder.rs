//! Blobs as files in a folder.

use std::fs::{File, Metadata};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use async_trait::async_trait;
use bytes::BytesMut;
use futures::stream;
use journeyman_core::ports::{Blob, BlobContent, BlobError, Blobs, GitBody};
use journeyman_core::time::Timestamp;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};
use rustix::io::Errno;
use tokio::io::AsyncReadExt;

/// The times of a file that was written now.
const NOW: Timestamps = {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    Timestamps { last_access: now, last_modification: now }
};

/// A folder that stores blobs as files.
#[derive(Debug, Clone)]
pub struct Folder {
    root: PathBuf,
    shared: bool,
}

impl Folder {
    /// Creates a blob store in a folder, which the first write creates. `shared` is true if other machines use the
    /// folder too.
    #[must_use]
    pub const fn new(root: PathBuf, shared: bool) -> Self {
        Self { root, shared }
    }

    /// Removes drafts of killed processes: drafts that were last written before `before`. Returns their number.
    ///
    /// # Errors
    /// Returns an error if a folder cannot be read or a draft cannot be removed.
    pub fn remove_drafts(&self, before: Timestamp) -> io::Result<usize> {
        remove_drafts(&self.root, before)
    }
}

fn remove_drafts(folder: &Path, before: Timestamp) -> io::Result<usize> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let mut removed = 0;
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            removed += remove_drafts(&entry.path(), before)?;
        } else if entry.path().extension().is_some_and(|extension| extension == "draft") {
            // The draft may have become a blob in the meantime.
            let since = entry.metadata().and_then(|meta| meta.modified()).ok();
            let since = since.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            if since.is_some_and(|since| Timestamp::default() + since < before) {
                removed += usize::from(found(std::fs::remove_file(entry.path()))?);
            }
        }
    }
    Ok(removed)
}

#[async_trait]
impl Blobs for Folder {
    fn is_shared(&self) -> bool {
        self.shared
    }

    async fn put(&self, key: &str, file: &Path) -> Result<(), BlobError> {
        let (target, file) = (self.root.join(key), file.to_owned());
        blocking(move || put(&file, &target)).await
    }

    async fn check_writes(&self) -> Result<(), BlobError> {
        let root = self.root.clone();
        blocking(move || {
            make_folder(&root)?;
            // Another process may check the same folder; a draft of a killed process is removed at a start.
            let draft = root.join(format!("check-{}.draft", std::process::id()));
            let written = write_synced(&draft, b"writes work");
            found(std::fs::remove_file(&draft))?;
            written
        })
        .await
    }

    async fn get(&self, key: &str, file: &Path) -> Result<bool, BlobError> {
        let (source, file) = (self.root.join(key), file.to_owned());
        blocking(move || match std::fs::copy(&source, file) {
            Ok(_) => Ok(true),
            // The folder of `file` may be missing, too.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !source.try_exists()? => Ok(false),
            Err(error) => Err(error),
        })
        .await
    }

    async fn find(&self, key: &str) -> Result<Option<Blob>, BlobError> {
        let (path, key) = (self.root.join(key), key.to_owned());
        blocking(move || match std::fs::metadata(path) {
            Ok(meta) if meta.is_file() => Ok(Some(blob(key, &meta)?)),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        })
        .await
    }

    async fn renew(&self, key: &str) -> Result<bool, BlobError> {
        let path = self.root.join(key);
        blocking(move || match utimensat(CWD, &path, &NOW, AtFlags::empty()) {
            Ok(()) => {
                // The time must survive a power failure, as the write did.
                found(File::open(&path).and_then(|file| file.sync_all()))
            }
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        })
        .await
    }

    async fn open(&self, key: &str) -> Result<Option<BlobContent>, BlobError> {
        let failed = |error: io::Error| BlobError(error.to_string());
        let file = match tokio::fs::File::open(self.root.join(key)).await {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let bytes = file.metadata().await.map_err(failed)?.len();
        Ok(Some(BlobContent { bytes, body: body(file) }))
    }

    async fn delete(&self, key: &str) -> Result<(), BlobError> {
        let path = self.root.join(key);
        blocking(move || {
            found(std::fs::remove_file(&path))?;
            // Removes the folder with its last file; the call fails, as intended, while the folder has other files.
            let _ = path.parent().map(std::fs::remove_dir);
            Ok(())
        })
        .await
    }

    async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<Blob>, BlobError> {
        let (root, prefix, after) = (self.root.clone(), prefix.to_owned(), after.map(str::to_owned));
        blocking(move || {
            let mut blobs = Vec::new();
            walk(&root, &prefix, after.as_deref().unwrap_or_default(), limit, &mut blobs)?;
            Ok(blobs)
        })
        .await
    }
}

/// The size of the pieces in which a blob is read, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// Reads a file piece by piece.
fn body(file: tokio::fs::File) -> GitBody {
    Box::pin(stream::unfold(Some(file), |file| async move {
        let mut file = file?;
        let mut piece = BytesMut::with_capacity(PIECE_BYTES);
        match file.read_buf(&mut piece).await {
            Ok(0) => None,
            Ok(_) => Some((Ok(piece.freeze()), Some(file))),
            Err(error) => Some((Err(error), None)),
        }
    }))
}

fn write_synced(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_all()
}

fn put(file: &Path, target: &Path) -> io::Result<()> {
    let folder = target.parent().ok_or_else(|| io::Error::other("a blob needs a key"))?;
    make_folder(folder)?;
    // The draft is in the target's folder, because a rename works only within one file system. Readers see the whole
    // file or none.
    let draft = target.with_extension("draft");
    if std::fs::rename(file, &draft).is_err() {
        std::fs::copy(file, &draft)?;
        std::fs::remove_file(file)?;
    }
    // A blob is as old as its write, not as old as the file that it was.
    utimensat(CWD, &draft, &NOW, AtFlags::empty())?;
    File::open(&draft)?.sync_all()?;
    std::fs::rename(&draft, target)?;
    File::open(folder)?.sync_all()
}

/// Creates a folder and its missing parents, and syncs their entries, so that they survive a power failure.
fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(above) = folder.parent() {
        make_folder(above)?;
        std::fs::create_dir_all(folder)?;
        if !above.as_os_str().is_empty() {
            File::open(above)?.sync_all()?;
        }
    }
    Ok(())
}

/// Adds the files below `folder` whose keys come after `after`, in order.
fn walk(root: &Path, folder: &str, after: &str, limit: usize, blobs: &mut Vec<Blob>) -> io::Result<()> {
    let entries = match std::fs::read_dir(root.join(folder)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        // The keys in a folder start with a slash after its name: those in `job_1-x` come before those in `job_1`.
        let end = if entry.file_type()?.is_dir() { "/" } else { "" };
        names.push(format!("{folder}/{name}{end}"));
    }
    names.sort_unstable();
    for key in names {
        if blobs.len() >= limit {
            break;
        }
        if let Some(below) = key.strip_suffix('/') {
            // Skips a folder whose keys all come before `after`.
            if format!("{key}\u{10ffff}").as_str() > after {
                walk(root, below, after, limit, blobs)?;
            }
        } else if key.as_str() > after
            && !key.ends_with(".draft")
            && let Ok(meta) = std::fs::metadata(root.join(&key))
        {
            blobs.push(blob(key, &meta)?);
        }
    }
    Ok(())
}

fn blob(key: String, meta: &Metadata) -> io::Result<Blob> {
    let since = meta.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Blob { key, bytes: meta.len(), written_at: Timestamp::default() + since })
}

/// Returns whether the file existed.
fn found(done: io::Result<()>) -> io::Result<bool> {
    match done {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T, BlobError> {
    let failed = |error: &dyn std::fmt::Display| BlobError(error.to_string());
    tokio::task::spawn_blocking(work).await.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
}
