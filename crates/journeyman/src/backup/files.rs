//! Copies, hashes and syncs the files of a backup.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

const PIECE: usize = 1 << 17;

/// The entry of a file in the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileNote {
    pub(super) size: u64,
    /// The hash in hexadecimal.
    pub(super) sha256: String,
}

/// Reads a file and returns its manifest entry.
pub(super) fn note(path: &Path) -> io::Result<FileNote> {
    // A backup never contains links or devices.
    if !path.symlink_metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    copy_and_hash(&mut File::open(path)?, &mut io::sink())
}

/// Syncs all files and folders below `root`, makes the files private, and returns their manifest entries by their paths
/// below `root`.
pub(super) fn note_all(root: &Path) -> io::Result<BTreeMap<String, FileNote>> {
    let mut notes = BTreeMap::new();
    walk(root, "", &mut notes)?;
    Ok(notes)
}

fn walk(root: &Path, folder: &str, notes: &mut BTreeMap<String, FileNote>) -> io::Result<()> {
    let dir = root.join(folder);
    for entry in std::fs::read_dir(&dir)? {
        let entry = entry?;
        let name = entry.file_name().into_string();
        let name = name.map_err(|name| io::Error::other(format!("the name {} is not UTF-8", name.display())))?;
        let key = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        if entry.file_type()?.is_dir() {
            walk(root, &key, notes)?;
        } else {
            let path = entry.path();
            std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
            File::open(&path)?.sync_all()?;
            notes.insert(key, note(&path)?);
        }
    }
    File::open(dir)?.sync_all()
}

/// Copies a file to a path that must not exist yet, and syncs the copy; returns its manifest entry.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<FileNote> {
    let mut target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    let note = copy_and_hash(&mut File::open(from)?, &mut target)?;
    target.sync_all()?;
    Ok(note)
}

/// Writes a file atomically, and syncs it.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("draft");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&draft, path)?;
    sync_folder_of(path)
}

/// Syncs a file.
pub(super) fn sync(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.sync_all()
}

/// Syncs the folder that a file is in, so that the file's name is on disk.
pub(super) fn sync_folder_of(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or_else(|| Path::new("/")))?.sync_all()
}

/// Syncs `root` and all folders below it.
pub(super) fn sync_folders(root: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_folders(&entry.path())?;
        }
    }
    File::open(root)?.sync_all()
}

fn copy_and_hash(from: &mut impl Read, to: &mut impl Write) -> io::Result<FileNote> {
    let (mut hash, mut size, mut piece) = (Sha256::new(), 0, vec![0; PIECE]);
    loop {
        let read = match from.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hash.update(&piece[..read]);
        to.write_all(&piece[..read])?;
        size += read as u64;
    }
    Ok(FileNote { size, sha256: hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect() })
}
