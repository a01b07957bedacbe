//! The differences between the agent's index and its newest commit.

use std::collections::{BTreeMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::paths::path_of;

/// The mode and the object of a file in an index, as git writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    mode: String,
    pub(super) object: String,
}

impl IndexEntry {
    /// Parses an entry of `git ls-files --stage`.
    pub(super) fn parse(entry: &[u8]) -> Option<(PathBuf, Self)> {
        let tab = entry.iter().position(|byte| *byte == b'\t')?;
        let mut words = std::str::from_utf8(entry.get(..tab)?).ok()?.split(' ').map(str::to_owned);
        Some((path_of(entry.get(tab + 1..)?), Self { mode: words.next()?, object: words.next()? }))
    }

    /// Returns the line that adds the entry (`git update-index --index-info`).
    pub(super) fn line(&self, path: &Path) -> Vec<u8> {
        [format!("{} {}\t", self.mode, self.object).as_bytes(), path.as_os_str().as_bytes(), b"\0"].concat()
    }

    /// Returns whether the entry is a file, and no link or submodule.
    pub(super) fn is_file(&self) -> bool {
        self.mode.starts_with("100")
    }
}

/// How the agent's index differs from its newest commit.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Differences {
    /// Files that only the index has, such as ignored files that the agent has added.
    pub(super) added: HashSet<PathBuf>,
    /// Files that the index no longer has, although they may be in the tree.
    pub(super) removed: HashSet<PathBuf>,
    /// Files that were moved, with the entries that they had.
    pub(super) moved: BTreeMap<PathBuf, IndexEntry>,
}

impl Differences {
    /// Parses the output of `git diff-index --raw -z`.
    pub(super) fn parse(output: &[u8]) -> Self {
        let mut found = Self::default();
        let mut fields = output.split(|byte| *byte == 0);
        while let Some(header) = fields.next().and_then(|field| std::str::from_utf8(field.strip_prefix(b":")?).ok()) {
            let words: Vec<&str> = header.split(' ').collect();
            let (&[mode, _, object, _, kind], Some(path)) = (words.as_slice(), fields.next()) else { break };
            let path = path_of(path);
            match kind.as_bytes().first() {
                Some(b'A') => _ = found.added.insert(path),
                Some(b'D') => _ = found.removed.insert(path),
                Some(b'R') => {
                    let Some(to) = fields.next().map(path_of) else { break };
                    found.removed.insert(path);
                    found.added.insert(to.clone());
                    found.moved.insert(to, IndexEntry { mode: mode.to_owned(), object: object.to_owned() });
                }
                _ => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_parsed_with_unusual_paths() {
        let (zero, a, b) = ("0".repeat(40), "a".repeat(40), "b".repeat(40));
        let output = format!(
            ":000000 100644 {zero} {a} A\0:new\nfile\0:100755 000000 {a} {zero} D\0gone\0:100644 100644 {a} {b} R087\0old\0moved\0"
        );
        let found = Differences::parse(output.as_bytes());
        assert_eq!(found.added, [PathBuf::from(":new\nfile"), PathBuf::from("moved")].into());
        assert_eq!(found.removed, [PathBuf::from("gone"), PathBuf::from("old")].into());
        let entry = IndexEntry { mode: "100644".to_owned(), object: a.clone() };
        assert_eq!(entry.line(Path::new("x y")), format!("100644 {a}\tx y\0").into_bytes());
        assert_eq!(found.moved, [(PathBuf::from("moved"), entry.clone())].into());
        let listed = format!("100644 {a} 0\tx\ty");
        assert_eq!(IndexEntry::parse(listed.as_bytes()), Some((PathBuf::from("x\ty"), entry)));
        assert_eq!(Differences::parse(b""), Differences::default());
    }
}
