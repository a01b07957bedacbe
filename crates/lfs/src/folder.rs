//! The objects of a repository at a path: files in `lfs/objects` of its git directory, where git-lfs stores and finds them.
//!
//! The repository may belong to another user, who may change its folders at any time. No link is followed, nothing
//! outside the git directory is reached, and opening does not block. New files belong to the owner of the repository.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use journeyman_core::lfs::{Pointer, copy};
use journeyman_core::ports::{LfsError, LfsFailure, LfsUpload};
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, ResolveFlags, Uid, fchown, mkdirat, openat, openat2, renameat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::disk::{blocking, disk};

/// The maximum number of writers of one object, dead ones included.
const WRITERS: u32 = 100;

/// The folder of a repository's objects.
#[derive(Clone)]
pub(crate) struct ObjectFolder {
    git_dir: PathBuf,
}

/// Returns the folders that lead to an object, from the git directory.
fn folders(pointer: &Pointer) -> [&str; 4] {
    let part = |range| pointer.oid.get(range).unwrap_or_default();
    ["lfs", "objects", part(0..2), part(2..4)]
}

impl ObjectFolder {
    pub(crate) const fn new(git_dir: PathBuf) -> Self {
        Self { git_dir }
    }

    pub(crate) async fn download(&self, objects: &[Pointer], folder: &Path) -> Result<Vec<LfsFailure>, LfsError> {
        let mut failures = Vec::new();
        for pointer in objects {
            let (from, wanted, to) = (self.clone(), pointer.clone(), folder.join(&pointer.oid));
            let done = tokio::task::spawn_blocking(move || from.copy(&wanted, &to)).await;
            if let Err(error) = done.unwrap_or_else(|error| Err(LfsError::Failed(error.to_string()))) {
                failures.push(LfsFailure { pointer: pointer.clone(), error });
            }
        }
        Ok(failures)
    }

    fn copy(&self, pointer: &Pointer, to: &Path) -> Result<(), LfsError> {
        let mut from = self.open(pointer).map_err(|error| disk(&error))?.ok_or(LfsError::Missing)?;
        let mut file = File::create(to).map_err(|error| disk(&error))?;
        match copy(&mut from, &mut file, pointer.bytes) {
            Ok(found) if found == *pointer => Ok(()),
            Ok(_) => {
                let _ = std::fs::remove_file(to);
                let text = format!("the file of the object {} next to the repository is damaged", pointer.oid);
                Err(LfsError::Refused(text))
            }
            Err(error) => {
                let _ = std::fs::remove_file(to);
                Err(disk(&error))
            }
        }
    }

    /// Opens the file of an object, if the repository has it.
    fn open(&self, pointer: &Pointer) -> io::Result<Option<File>> {
        let git_dir = self.opened()?;
        let path: PathBuf = folders(pointer).iter().chain([&pointer.oid.as_str()]).collect();
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match openat2(&git_dir, &path, flags, Mode::empty(), WITHIN) {
            Ok(file) => {
                let file = File::from(file);
                let found = file.metadata()?;
                Ok((found.is_file() && found.len() == pointer.bytes).then_some(file))
            }
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::XDEV) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn opened(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(CWD, &self.git_dir, flags, Mode::empty())?))
    }

    pub(crate) async fn missing(&self, objects: &[Pointer]) -> Result<Vec<LfsFailure>, LfsError> {
        let (folder, objects) = (self.clone(), objects.to_vec());
        let missing = blocking(move || {
            let mut missing = Vec::new();
            for pointer in objects {
                if folder.open(&pointer)?.is_none() {
                    missing.push(LfsFailure { pointer, error: LfsError::Missing });
                }
            }
            Ok(missing)
        });
        missing.await.map_err(|error| disk(&error))
    }

    pub(crate) async fn upload(&self, objects: &[LfsUpload]) -> Result<(), LfsError> {
        for LfsUpload { pointer, file } in objects {
            let (folder, wanted, file) = (self.clone(), pointer.clone(), file.clone());
            blocking(move || folder.store(&wanted, &file)).await.map_err(|error| match error.kind() {
                io::ErrorKind::InvalidData | io::ErrorKind::FileTooLarge => LfsError::Refused(error.to_string()),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    LfsError::Denied(format!("the service cannot write to lfs/objects of the repository: {error}"))
                }
                _ => disk(&error),
            })?;
        }
        Ok(())
    }

    /// Stores an object, and syncs it and the folders that lead to it.
    fn store(&self, pointer: &Pointer, from: &Path) -> io::Result<()> {
        if self.open(pointer)?.is_some() {
            return Ok(());
        }
        let git_dir = self.opened()?;
        let found = git_dir.metadata()?;
        let owner = (found.uid() != geteuid().as_raw()).then(|| (found.uid(), found.gid()));
        let mut above = vec![git_dir];
        for name in folders(pointer) {
            let Some(parent) = above.last() else { break };
            let is_new = match mkdirat(parent, name, Mode::from_raw_mode(0o755)) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(error) => return Err(error.into()),
            };
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let folder = File::from(openat2(parent, name, flags, Mode::empty(), WITHIN)?);
            if is_new {
                give(&folder, owner)?;
                parent.sync_all()?;
            }
            above.push(folder);
        }
        let Some(folder) = above.last() else { return Ok(()) };
        let (mut file, draft) = create(folder, pointer)?;
        let written = (|| {
            give(&file, owner)?;
            let found = copy(&mut File::open(from)?, &mut file, pointer.bytes)?;
            if found != *pointer {
                let text = format!("the file of the object {} has other content", pointer.oid);
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            file.sync_all()?;
            // A file with this name that has another size is damaged, and is replaced.
            renameat(folder, &draft, folder, &pointer.oid)?;
            folder.sync_all()
        })();
        if written.is_err() {
            // The original error says more.
            let _ = unlinkat(folder, &draft, AtFlags::empty());
        }
        written
    }
}

/// The way to a file below a folder.
const WITHIN: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_XDEV);

/// Creates a temporary file next to an object.
fn create(folder: &File, pointer: &Pointer) -> io::Result<(File, String)> {
    for number in 0..WRITERS {
        let name = format!(".{}.{number}", pointer.oid);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(folder, &name, flags, Mode::from_raw_mode(0o644)) {
            Ok(file) => return Ok((File::from(file), name)),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::other(format!("there are {WRITERS} unfinished files of the object {}", pointer.oid)))
}

/// Makes the owner of the repository the owner of a new file or folder.
fn give(file: &File, owner: Option<(u32, u32)>) -> io::Result<()> {
    let Some((user, group)) = owner else { return Ok(()) };
    Ok(fchown(file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?)
}
