//! A backup of an installation: a folder with its database, the repositories of the built-in code host, its blobs, and
//! a manifest, which is written last. `docs/decisions/0027-backup.md` explains the order of the copies.

mod blobs;
mod create;
mod files;
mod manifest;
mod restore;

pub(crate) use self::create::{Created, create};
pub(crate) use self::manifest::{BlobsNote, Manifest};
pub(crate) use self::restore::{Restored, restore, verify};

/// The file with the database of an installation on SQLite.
const DATABASE: &str = "database.sqlite";
/// The folder with the tables of an installation on PostgreSQL.
const TABLES: &str = "tables";
/// The folder of repositories.
const REPOSITORIES: &str = "repositories";
/// The folder of blobs. The path of a blob below it is the blob's key.
const BLOBS: &str = "blobs";
/// The file with the master key, if the backup includes it.
const MASTER_KEY: &str = "master.key";
