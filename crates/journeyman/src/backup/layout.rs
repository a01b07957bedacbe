//! The names of the files and folders in a backup.

/// The file with the database of an installation on SQLite.
pub(super) const DATABASE: &str = "database.sqlite";

/// The folder with the tables of an installation on PostgreSQL.
pub(super) const TABLES: &str = "tables";

/// The folder of repositories.
pub(super) const REPOSITORIES: &str = "repositories";

/// The folder of blobs. The path of a blob below it is the blob's key.
pub(super) const BLOBS: &str = "blobs";

/// The file with the master key, if the backup includes it.
pub(super) const MASTER_KEY: &str = "master.key";
