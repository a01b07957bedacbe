//! Databases for tests, each in a folder of its own that is removed with the store.

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use journeyman_core::time::IdGen;
use rusqlite::Connection;

use super::error::OpenError;
use super::folder::TemporaryFolder;
use super::{SqliteStore, migrate};
use crate::vault::MasterKey;

/// The content of a database file with the current schema, which is made once for all tests of a program.
static NEW_FILE: OnceLock<Vec<u8>> = OnceLock::new();

impl SqliteStore {
    /// Opens a new database in a temporary folder, for a test. The folder is removed with the store. The master key is
    /// always the same.
    ///
    /// # Errors
    /// The folder cannot be created, or the database cannot be opened.
    pub fn temporary(ids: Arc<dyn IdGen>) -> Result<Self, OpenError> {
        let folder = tempfile::tempdir().map_err(|error| failed(&std::env::temp_dir(), error))?;
        let path = folder.path().join("journeyman.db");
        Self::write_new(&path)?;
        let mut store = Self::open(&path, MasterKey::new([9; 32]), ids)?;
        let writer = store.database.writer.thread.take();
        store.database.temporary = Some(TemporaryFolder { writer, _folder: folder });
        Ok(store)
    }

    /// Writes a new database file with the current schema to `path`, for a test. This takes less time than
    /// [`open`](Self::open) without a file.
    ///
    /// # Errors
    /// The file cannot be written, or the schema is wrong.
    pub fn write_new(path: &Path) -> Result<(), OpenError> {
        let content = match NEW_FILE.get() {
            Some(content) => content,
            None => {
                let made = make_new()?;
                NEW_FILE.get_or_init(|| made)
            }
        };
        std::fs::write(path, content).map_err(|error| failed(path, error))
    }
}

/// Returns the content of a new database file.
fn make_new() -> Result<Vec<u8>, OpenError> {
    let folder = tempfile::tempdir().map_err(|error| failed(&std::env::temp_dir(), error))?;
    let path = folder.path().join("journeyman.db");
    let of_database = |source| OpenError::Database { path: path.clone(), source };
    let mut connection = Connection::open(&path).map_err(of_database)?;
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(of_database)?;
    connection.pragma_update(None, "journal_mode", "WAL").map_err(of_database)?;
    migrate::migrate(&mut connection, &path)?;
    // Closing the last connection writes the log into the file.
    connection.close().map_err(|(_, source)| of_database(source))?;
    std::fs::read(&path).map_err(|error| failed(&path, error))
}

fn failed(path: &Path, error: io::Error) -> OpenError {
    OpenError::Database { path: path.to_owned(), source: rusqlite::Error::ToSqlConversionFailure(Box::new(error)) }
}

#[cfg(test)]
mod tests {
    use journeyman_core::ports::Store as _;
    use journeyman_testkit::World;

    use super::*;

    #[tokio::test]
    async fn the_folder_of_a_temporary_store_is_removed_with_it() {
        let world = World::new();
        let open = || SqliteStore::temporary(world.clone()).unwrap();
        let (store, other) = (open(), open());
        let path = store.database.path.clone();
        assert_eq!((store.check_writes().await, path.exists()), (Ok(()), true));
        drop(store);
        assert!(!path.exists() && !path.parent().unwrap().exists());
        assert_eq!(other.check_writes().await, Ok(()));
    }
}
