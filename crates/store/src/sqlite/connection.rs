//! Connections to a database file.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

/// The maximum time for which a connection waits for a lock of another process, such as the command line.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Opens a read-only connection.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "query_only", true)?;
    keep_statements(&connection)?;
    Ok(connection)
}

/// Keeps prepared statements for their next use. Without the stability guarantee of the planner, SQLite plans a statement
/// again whenever a parameter changes that it compares with the condition of a partial index, which takes longer than a
/// lookup (<https://www.sqlite.org/queryplanner-ng.html#qpstab>).
pub(super) fn keep_statements(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(64);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}
