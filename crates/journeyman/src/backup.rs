//! A backup of an installation: a folder with its database, the repositories of the built-in code host, its blobs, and a
//! manifest, which is written last. What is copied in which order, and why, is in `docs/decisions/0027-backup.md`.

mod blobs;
mod create;
mod files;
mod manifest;
mod restore;

pub(crate) use self::create::{Created, create};
pub(crate) use self::manifest::{BlobsNote, Manifest};
pub(crate) use self::restore::{Restored, restore, verify};

/// The database of an installation on SQLite.
const DATABASE: &str = "database.sqlite";
/// The folder of tables of an installation on PostgreSQL.
const TABLES: &str = "tables";
/// The folder of repositories.
const REPOSITORIES: &str = "repositories";
/// The folder of blobs; below it their keys.
const BLOBS: &str = "blobs";
/// The master key, where it was asked for.
const MASTER_KEY: &str = "master.key";
