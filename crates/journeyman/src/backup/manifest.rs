//! The manifest of a backup: a description of the backup, and each of its files.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use anyhow::{Context, bail};
use journeyman_core::time::Timestamp;
use journeyman_store::ExportedTable;
use serde::{Deserialize, Serialize};

use super::files::{self, FileNote};

/// The file name of the manifest.
pub(super) const NAME: &str = "manifest.json";

/// The format that this program writes and reads.
const FORMAT: u32 = 1;

/// A description of a backup and its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    format: u32,
    /// The version of the program that created the backup.
    pub(crate) program: String,
    /// The time at which the backup began: everything that was accepted before is in it.
    pub(crate) created_at: Timestamp,
    pub(crate) database: DatabaseNote,
    /// The ID of the master key that the database requires.
    pub(crate) key_id: String,
    /// The IDs of further master keys that its secrets need, because a rotation had not finished.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) other_key_ids: Vec<String>,
    /// True if the backup includes that key.
    pub(crate) includes_key: bool,
    /// The names of the repositories of the built-in code host.
    pub(crate) repositories: Vec<String>,
    pub(crate) blobs: BlobsNote,
    /// The files of the backup except the manifest, by their paths in the backup.
    pub(super) files: BTreeMap<String, FileNote>,
}

/// The database in a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DatabaseNote {
    pub(crate) kind: DatabaseKind,
    /// The version of the database's schema.
    pub(crate) schema_version: i64,
    /// The tables of a PostgreSQL database; empty for SQLite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) tables: Vec<ExportedTable>,
}

/// The kind of database that a backup is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DatabaseKind {
    Sqlite,
    Postgresql,
}

impl DatabaseKind {
    /// Returns the name to show to people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgresql => "PostgreSQL",
        }
    }
}

/// The blobs that the jobs in a backup refer to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum BlobsNote {
    /// The blobs are in the backup.
    Files {
        /// The number of blobs in the backup.
        count: usize,
        /// The keys of blobs that were replaced by later ones during the backup.
        missing: Vec<String>,
    },
    /// The blobs are in a bucket, which has to be backed up separately.
    Bucket {
        /// The URL of the bucket.
        url: String,
        /// The keys that the bucket must contain.
        keys: Vec<String>,
    },
}

impl Manifest {
    /// Returns the manifest of a backup that has no files yet.
    pub(super) const fn new(created_at: Timestamp, program: String, key_id: String, database: DatabaseNote) -> Self {
        Self {
            format: FORMAT,
            program,
            created_at,
            database,
            key_id,
            other_key_ids: Vec::new(),
            includes_key: false,
            repositories: Vec::new(),
            blobs: BlobsNote::Files { count: 0, missing: Vec::new() },
            files: BTreeMap::new(),
        }
    }

    /// Returns the total size of all files in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.values().map(|file| file.size).sum()
    }

    /// Writes the manifest, which declares the backup finished.
    pub(super) fn write(&self, dir: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        files::write(&dir.join(NAME), text.as_bytes()).context("the manifest cannot be written")
    }

    /// Reads the manifest of a backup, and compares each file with its entry.
    ///
    /// # Errors
    /// The folder contains no finished backup, or the backup has another format or is damaged.
    pub(crate) fn verify(dir: &Path) -> anyhow::Result<Self> {
        let manifest = Self::read(dir)?;
        for (name, expected) in &manifest.files {
            let found =
                files::note(&dir.join(name)).with_context(|| format!("the backup's file {name} cannot be read"))?;
            if found != *expected {
                bail!(
                    "the backup is damaged: the file {name} has {} bytes and SHA-256 {}, but was written with {} bytes \
                     and SHA-256 {}; use another backup",
                    found.size,
                    found.sha256,
                    expected.size,
                    expected.sha256
                );
            }
        }
        Ok(manifest)
    }

    fn read(dir: &Path) -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let path = dir.join(NAME);
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(
                "{} contains no {NAME}: it is not a backup, or the backup was not finished and cannot be used",
                dir.display()
            ),
            read => read.with_context(|| format!("{} cannot be read", path.display()))?,
        };
        let damaged = || format!("{} is damaged", path.display());
        let Format { format } = serde_json::from_str(&text).with_context(damaged)?;
        if format != FORMAT {
            bail!(
                "the backup has format {format}, but this program supports {FORMAT}; restore it with a newer version \
                 of Journeyman"
            );
        }
        let manifest: Self = serde_json::from_str(&text).with_context(damaged)?;
        for name in manifest.files.keys() {
            // The restore writes files under these names.
            let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
            if name.is_empty() || !Path::new(name).components().all(plain) {
                bail!("the manifest names the file {name:?}, which is outside the backup");
            }
        }
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backup(dir: &Path) -> Manifest {
        std::fs::create_dir(dir.join("blobs")).unwrap();
        std::fs::write(dir.join("blobs/a"), "abc").unwrap();
        let database = DatabaseNote { kind: DatabaseKind::Sqlite, schema_version: 8, tables: Vec::new() };
        let mut manifest = Manifest::new(Timestamp::from_micros(0), "1.0".into(), "ab".into(), database);
        manifest.files = files::note_all(dir).unwrap();
        manifest.write(dir).unwrap();
        manifest
    }

    #[test]
    fn a_backup_matches_its_manifest() {
        let dir = tempfile::tempdir().unwrap();
        let manifest = backup(dir.path());
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(manifest.files["blobs/a"], FileNote { size: 3, sha256: abc.to_owned() });
        assert_eq!(Manifest::verify(dir.path()).unwrap(), manifest);
        assert_eq!(manifest.bytes(), 3);
    }

    #[test]
    fn an_error_names_a_file_that_changed_or_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        backup(dir.path());
        for text in ["abd", "ab", "abcd"] {
            std::fs::write(dir.path().join("blobs/a"), text).unwrap();
            let error = Manifest::verify(dir.path()).unwrap_err().to_string();
            assert!(error.contains("damaged") && error.contains("blobs/a"), "{error}");
        }
        std::fs::remove_file(dir.path().join("blobs/a")).unwrap();
        assert!(Manifest::verify(dir.path()).unwrap_err().to_string().contains("blobs/a"));
        std::os::unix::fs::symlink("/dev/zero", dir.path().join("blobs/a")).unwrap();
        assert!(format!("{:#}", Manifest::verify(dir.path()).unwrap_err()).contains("not a regular file"));
    }

    #[test]
    fn an_unfinished_backup_or_one_of_another_format_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |expected: &str| {
            let error = format!("{:#}", Manifest::verify(dir.path()).unwrap_err());
            assert!(error.contains(expected), "{error}");
        };
        refused("not finished");
        let manifest = backup(dir.path());
        let path = dir.path().join(NAME);
        std::fs::write(&path, "{\"format\": 2, \"other\": 1}").unwrap();
        refused("format 2");
        std::fs::write(&path, "{\"format\": 1").unwrap();
        refused("is damaged");
        for name in ["../outside", "/etc/passwd", "", "./a", "blobs/../../a"] {
            let mut outside = manifest.clone();
            outside.files = [(name.to_owned(), manifest.files["blobs/a"].clone())].into();
            outside.write(dir.path()).unwrap();
            refused("outside the backup");
        }
    }
}
