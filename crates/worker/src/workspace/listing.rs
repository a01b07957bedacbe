//! The files of a tree at one time, and what differs between two times.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The first line of the file of a listing. Another version of the program may write another format.
const FORMAT: &[u8] = b"listing 1\n";

/// The kind, size, mode, times and inode of an entry, hashed. Equal stamps mean that nothing has changed: an entry
/// cannot be changed without changing its ctime, which programs cannot set (inode(7)).
pub(crate) type Stamp = [u8; 16];

/// The kind of an entry that is not a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A FIFO, a socket or a device.
    Special,
    /// A folder that the service cannot open, and whose entries are not known.
    Closed,
}

impl Kind {
    const ALL: [(Self, u8); 4] = [(Self::File, b'f'), (Self::Link, b'l'), (Self::Special, b's'), (Self::Closed, b'c')];

    fn letter(self) -> u8 {
        Self::ALL.into_iter().find(|(kind, _)| *kind == self).map_or(b'?', |(_, letter)| letter)
    }
}

/// An entry of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) path: PathBuf,
    pub(crate) kind: Kind,
    pub(crate) stamp: Stamp,
    /// True if git ignored the file in the last turn that changed it. Other rules may make it visible.
    pub(crate) is_ignored: bool,
}

/// The files of a tree, without those of git directories, sorted by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Listing(Vec<Entry>);

/// The entries that differ between two listings of a tree.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    /// The entries that were added or changed.
    pub(crate) present: Vec<Entry>,
    /// The paths that were removed, including those that became folders.
    pub(crate) removed: Vec<PathBuf>,
}

impl Listing {
    /// Creates a listing of entries in any order.
    pub(crate) fn new(mut entries: Vec<Entry>) -> Self {
        entries.sort_unstable_by(|one, other| one.path.as_os_str().cmp(other.path.as_os_str()));
        Self(entries)
    }

    /// Returns the entries, sorted by path.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.0
    }

    /// Returns whether a path is in the listing.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.0.binary_search_by(|entry| entry.path.as_os_str().cmp(path.as_os_str())).is_ok()
    }

    /// Returns this listing with the entries below these folders as they are in a later one.
    pub(crate) fn with_folders(self, later: &Self, folders: &[String]) -> Self {
        let is_in = |entry: &&Entry| folders.iter().any(|folder| entry.path.starts_with(folder));
        let kept = self.0.into_iter().filter(|entry| !is_in(&entry));
        Self::new(kept.chain(later.0.iter().filter(is_in).cloned()).collect())
    }

    /// Returns what has changed from this listing to a later one.
    pub(crate) fn difference(&self, later: &Self) -> Difference {
        let mut found = Difference::default();
        let (mut before, mut after) = (self.0.iter().peekable(), later.0.iter().peekable());
        loop {
            let order = match (before.peek(), after.peek()) {
                (None, None) => return found,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(old), Some(new)) => old.path.as_os_str().cmp(new.path.as_os_str()),
            };
            let old = if order.is_le() { before.next() } else { None };
            let new = if order.is_ge() { after.next() } else { None };
            match (old, new) {
                (Some(old), None) => found.removed.push(old.path.clone()),
                (old, Some(new)) if old.is_none_or(|old| old.stamp != new.stamp || old.kind != new.kind) => {
                    found.present.push(new.clone());
                }
                _ => {}
            }
        }
    }

    /// Stores the listing in a file of the service.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(FORMAT)?;
        for entry in &self.0 {
            file.write_all(&[entry.kind.letter(), if entry.is_ignored { b'i' } else { b'-' }])?;
            file.write_all(&entry.stamp)?;
            file.write_all(entry.path.as_os_str().as_bytes())?;
            file.write_all(&[0])?;
        }
        file.flush()
    }

    /// Reads a stored listing.
    ///
    /// # Errors
    /// The file cannot be read, or has another format.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let mut file = BufReader::new(File::open(path)?);
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let mut format = [0; FORMAT.len()];
        file.read_exact(&mut format)?;
        if format != FORMAT {
            return Err(invalid());
        }
        let mut entries = Vec::new();
        while !file.fill_buf()?.is_empty() {
            let (mut marks, mut stamp, mut path) = ([0; 2], Stamp::default(), Vec::new());
            file.read_exact(&mut marks)?;
            file.read_exact(&mut stamp)?;
            file.read_until(0, &mut path)?;
            let kind = Kind::ALL.into_iter().find(|(_, letter)| *letter == marks[0]).ok_or_else(invalid)?.0;
            path.pop().filter(|last| *last == 0).ok_or_else(invalid)?;
            let path = PathBuf::from(OsStr::from_bytes(&path));
            entries.push(Entry { path, kind, stamp, is_ignored: marks[1] == b'i' });
        }
        Ok(Self(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &[u8], stamp: u8) -> Entry {
        let path = PathBuf::from(OsStr::from_bytes(path));
        Entry { path, kind: Kind::File, stamp: [stamp; 16], is_ignored: stamp == 9 }
    }

    #[test]
    fn the_difference_has_each_path_that_was_added_changed_or_removed() {
        let before =
            Listing::new(vec![entry(b"same", 1), entry(b"changed", 1), entry(b"a/removed", 1), entry(b"b", 1)]);
        let link = Entry { kind: Kind::Link, ..entry(b"b", 1) };
        let after = Listing::new(vec![entry(b"same", 1), entry(b"changed", 2), entry(b"z/added", 1), link.clone()]);
        let Difference { present, removed } = before.difference(&after);
        assert_eq!(present, [link, entry(b"changed", 2), entry(b"z/added", 1)]);
        assert_eq!(removed, [PathBuf::from("a/removed")]);
        assert_eq!(after.difference(&after), Difference::default());
        assert_eq!(Listing::default().difference(&before).present.len(), 4);
    }

    #[test]
    fn folders_are_taken_from_a_later_listing() {
        let before = Listing::new(vec![entry(b"a/x", 1), entry(b"a/gone", 1), entry(b"b", 1), entry(b"ab", 1)]);
        let later = Listing::new(vec![entry(b"a/x", 2), entry(b"a/new", 2), entry(b"b", 2), entry(b"ab", 2)]);
        let expected = Listing::new(vec![entry(b"a/x", 2), entry(b"a/new", 2), entry(b"b", 1), entry(b"ab", 1)]);
        assert_eq!(before.with_folders(&later, &["a".to_owned()]), expected);
    }

    #[test]
    fn a_stored_listing_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("listing");
        let listing = Listing::new(vec![entry(b"a\n\"b\xff", 0), entry(b"c/d", 9)]);
        listing.write(&path).unwrap();
        assert_eq!(Listing::read(&path).unwrap(), listing);
        let bytes = std::fs::read(&path).unwrap();
        for cut in [0, 5, FORMAT.len() + 1, FORMAT.len() + 10, bytes.len() - 1] {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            assert!(Listing::read(&path).is_err(), "{cut} bytes");
        }
    }
}
