//! Measures the repositories of the built-in code host, and removes their objects of Git LFS that nothing names.
//!
//! Invariants:
//!
//! - An object stays as long as a file of the repository names it: in any commit, and also in those that no ref leads to
//!   any more, until git removes them (`docs/decisions/0055-git-maintenance.md`).
//! - An object that a client uploaded, or was told about, in the last two weeks stays: its push may follow.
//! - Memory is bounded, whatever the number of objects.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, Write as _};
use std::path::Path;

use journeyman_core::hosted_storage::{HostedStorage, RECORD, StorageRecord, removed_before};
use journeyman_core::lfs::{POINTER_BYTES, blob_folder, named_oids};
use journeyman_core::ports::{Blob, BlobError, Blobs};
use journeyman_core::time::Timestamp;
use journeyman_git::{FileLock, Git, MaintenanceError};

use crate::disk::blocking;
use crate::hosted::name_of;
use crate::lock::Lock;

/// The number of blobs that are listed at once.
const PAGE: usize = 1000;

/// The maximum number of names in memory.
const NAMES: u64 = 500_000;

/// The first bytes of SHA-256.
const FIRST_BYTES: u64 = 256;

type Oid = [u8; 32];

/// The parts of the machine that the upkeep of a repository needs.
pub(crate) struct Upkeep<'a> {
    pub(crate) git: &'a Git,
    pub(crate) blobs: &'a dyn Blobs,
    /// The git directory.
    pub(crate) git_dir: &'a Path,
    pub(crate) now: Timestamp,
}

/// The objects that were removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Removed {
    objects: u64,
    bytes: u64,
}

impl Upkeep<'_> {
    /// Does what is due. `scratch` is an empty folder for temporary files, which the caller removes.
    pub(crate) async fn carry_out(&self, scratch: &Path) -> Result<(), MaintenanceError> {
        let path = self.git_dir.join(RECORD);
        let Some((mut file, known)) = blocking(move || open(&path)).await? else { return Ok(()) };
        if !StorageRecord::is_due(known.as_ref(), self.now) {
            return Ok(());
        }
        let (mut objects, has_old) = self.objects().await.map_err(io::Error::other)?;
        let mut pruned_at = known.and_then(|known| known.pruned_at);
        if has_old && StorageRecord::prunes(known.as_ref(), self.now) {
            // An attempt that fails is not repeated at once.
            pruned_at = Some(self.now);
            let record = self.record(objects, pruned_at).await?;
            write(&mut file, &record)?;
            let removed = self.remove_unnamed(scratch).await?;
            if removed.objects > 0 {
                let (repository, objects, bytes) = (name_of(self.git_dir), removed.objects, removed.bytes);
                tracing::info!(repository, objects, bytes, "objects of Git LFS that no commit names were removed");
            }
            objects.lfs_objects = objects.lfs_objects.saturating_sub(removed.objects);
            objects.lfs_bytes = objects.lfs_bytes.saturating_sub(removed.bytes);
        }
        let record = self.record(objects, pruned_at).await?;
        Ok(write(&mut file, &record)?)
    }

    async fn record(&self, objects: HostedStorage, pruned_at: Option<Timestamp>) -> io::Result<StorageRecord> {
        let git_dir = self.git_dir.to_owned();
        let git_bytes = blocking(move || bytes_of(&git_dir)).await?;
        let storage = HostedStorage { git_bytes, ..objects };
        Ok(StorageRecord { storage, measured_at: self.now, pruned_at })
    }

    /// Counts the objects. The flag is true if some are so old that they are removed if nothing names them.
    async fn objects(&self) -> Result<(HostedStorage, bool), BlobError> {
        let (mut storage, mut has_old, mut after) = (HostedStorage::default(), false, None);
        loop {
            let page = self.page(after.as_deref()).await?;
            for blob in &page {
                storage.lfs_objects += 1;
                storage.lfs_bytes += blob.bytes;
                has_old |= self.is_old(blob);
            }
            after = page.last().filter(|_| page.len() == PAGE).map(|blob| blob.key.clone());
            if after.is_none() {
                return Ok((storage, has_old));
            }
        }
    }

    async fn page(&self, after: Option<&str>) -> Result<Vec<Blob>, BlobError> {
        self.blobs.list(&blob_folder(name_of(self.git_dir)), after, PAGE).await
    }

    fn is_old(&self, blob: &Blob) -> bool {
        blob.written_at < removed_before(self.now)
    }

    /// Removes old objects that no file of the repository names.
    async fn remove_unnamed(&self, scratch: &Path) -> Result<Removed, MaintenanceError> {
        let mut named = Named::create(&scratch.join("named"))?;
        let list = scratch.join("blobs");
        let collect = |content: &[u8]| named_oids(content).for_each(|oid| named.add(&oid));
        self.git.small_blobs(self.git_dir, POINTER_BYTES, &list, collect).await?;
        let (mut removed, mut after) = (Removed::default(), None);
        let mut known = HashSet::new();
        let mut until = 0;
        loop {
            // The listing has the order of the names.
            let page = self.page(after.as_deref()).await.map_err(io::Error::other)?;
            let mut unnamed = Vec::new();
            for blob in page.iter().filter(|blob| self.is_old(blob)) {
                let Some(oid) = blob.key.rsplit('/').next().and_then(oid_of) else { continue };
                while u64::from(oid[0]) >= until {
                    (known, until) = named.next()?;
                }
                if !known.contains(&oid) {
                    unnamed.push(blob);
                }
            }
            if !self.remove(&unnamed, &mut removed).await? {
                // Clients are uploading. The next search finds the rest.
                return Ok(removed);
            }
            after = page.last().filter(|_| page.len() == PAGE).map(|blob| blob.key.clone());
            if after.is_none() {
                return Ok(removed);
            }
        }
    }

    /// Removes objects, unless they were renewed. Returns false if requests have the lock.
    async fn remove(&self, unnamed: &[&Blob], removed: &mut Removed) -> Result<bool, MaintenanceError> {
        if unnamed.is_empty() {
            return Ok(true);
        }
        let Some(_held) = Lock::alone(self.git_dir).await? else { return Ok(false) };
        for blob in unnamed {
            let found = self.blobs.find(&blob.key).await.map_err(io::Error::other)?;
            if let Some(found) = found.filter(|found| self.is_old(found)) {
                self.blobs.delete(&found.key).await.map_err(io::Error::other)?;
                removed.objects += 1;
                removed.bytes += found.bytes;
            }
        }
        Ok(true)
    }
}

/// Opens and locks the record of a repository, whose lock belongs to the process that measures it; `None` if another process has the lock.
fn open(path: &Path) -> io::Result<Option<(FileLock, Option<StorageRecord>)>> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    let Some(mut file) = FileLock::try_exclusive(file)? else { return Ok(None) };
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(Some((file, StorageRecord::read(&text))))
}

/// Replaces the record in its file. A record that was not written completely counts as none.
fn write(file: &mut File, record: &StorageRecord) -> io::Result<()> {
    file.rewind()?;
    file.set_len(0)?;
    file.write_all(record.text().as_bytes())
}

/// Returns the bytes of the files in a folder. Files that are removed meanwhile do not count.
fn bytes_of(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        match entry.metadata() {
            Ok(found) if found.is_dir() => bytes += bytes_of(&entry.path())?,
            Ok(found) => bytes += found.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

/// The names of the objects that the files of a repository name, in a temporary file. They are read in parts.
struct Named {
    file: BufWriter<File>,
    count: u64,
    error: Option<io::Error>,
    /// The first byte of the names of the next part.
    from: u64,
}

impl Named {
    fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        Ok(Self { file: BufWriter::new(file), count: 0, error: None, from: 0 })
    }

    fn add(&mut self, oid: &str) {
        let Some(oid) = oid_of(oid) else { return };
        match self.file.write_all(&oid) {
            Ok(()) => self.count += 1,
            Err(error) => self.error = Some(error),
        }
    }

    /// Returns the next part: the names whose first byte is less than the returned number, and not in a part before.
    fn next(&mut self) -> io::Result<(HashSet<Oid>, u64)> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.file.flush()?;
        let parts = self.count.div_ceil(NAMES).clamp(1, FIRST_BYTES);
        let range = self.from..self.from + FIRST_BYTES.div_ceil(parts);
        let mut file = BufReader::new(self.file.get_ref());
        file.rewind()?;
        let (mut names, mut oid) = (HashSet::new(), Oid::default());
        for _ in 0..self.count {
            file.read_exact(&mut oid)?;
            if range.contains(&u64::from(oid[0])) {
                names.insert(oid);
            }
        }
        self.from = range.end;
        Ok((names, range.end))
    }
}

/// Parses the name of an object.
fn oid_of(text: &str) -> Option<Oid> {
    let mut oid = Oid::default();
    let digits = text.as_bytes().chunks_exact(2);
    if text.len() != oid.len() * 2 {
        return None;
    }
    for (byte, pair) in oid.iter_mut().zip(digits) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(oid)
}

#[cfg(test)]
mod tests;
