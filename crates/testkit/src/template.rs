//! Files and folders that are made once and copied for each test.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::patience::until;

/// A file or a folder that is made once for all tests of a program, such as a database with the current schema.
#[derive(Debug, Default)]
pub struct Template(OnceLock<Vec<Entry>>);

/// A file or a folder.
#[derive(Debug)]
struct Entry {
    /// The path in the template; empty for the template itself.
    path: PathBuf,
    mode: u32,
    /// `None` for a folder.
    content: Option<Vec<u8>>,
}

impl Template {
    /// Creates a template, which is made at the first copy.
    #[must_use]
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Writes a copy to a path; existing folders may be there already. `make` makes the original at the path that it gets.
    pub fn copy(&self, to: &Path, make: impl FnOnce(&Path)) {
        let entries = self.0.get_or_init(|| {
            let dir = tempfile::Builder::new().permissions(Permissions::from_mode(0o711)).tempdir().unwrap();
            let original = dir.path().join("template");
            make(&original);
            // A store writes the rest of its log into the database while it closes, and then removes the log.
            let log = original.with_file_name("template-wal");
            until("the store of the template is closed", || (!log.exists()).then_some(()));
            let mut entries = Vec::new();
            read(&original, Path::new(""), &mut entries);
            entries
        });
        for Entry { path, mode, content } in entries {
            let path = if path.as_os_str().is_empty() { to.to_owned() } else { to.join(path) };
            match content {
                Some(content) => fs::write(&path, content).unwrap(),
                None => fs::create_dir_all(&path).unwrap(),
            }
            fs::set_permissions(&path, Permissions::from_mode(*mode)).unwrap();
        }
    }
}

/// Reads a file or a folder of the template into `entries`.
fn read(root: &Path, path: &Path, entries: &mut Vec<Entry>) {
    let full = if path.as_os_str().is_empty() { root.to_owned() } else { root.join(path) };
    let found = fs::symlink_metadata(&full).unwrap();
    assert!(!found.is_symlink(), "{} cannot be copied", full.display());
    let mode = found.permissions().mode() & 0o7777;
    let content = found.is_file().then(|| fs::read(&full).unwrap());
    entries.push(Entry { path: path.to_owned(), mode, content });
    if found.is_dir() {
        for entry in fs::read_dir(&full).unwrap() {
            read(root, &path.join(entry.unwrap().file_name()), entries);
        }
    }
}
