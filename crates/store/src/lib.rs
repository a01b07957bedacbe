//! Where jobs are kept. The only crate with SQL.
//!
//! [`SqliteStore`] keeps them in a file, [`PostgresStore`] in a database that many machines share, [`MemoryStore`] is the
//! reference that both are compared with in tests. All take what to write from [`journeyman_core::job::change`], and
//! how a request is accepted from one module, so they cannot disagree about what a command means.

mod accept;
mod backup;
mod copy;
mod lists;
mod memory;
mod postgres;
mod retention;
mod rows;
mod spending;
mod sqlite;
mod ticket;
mod vault;
mod wakeups;
mod watch;

pub use backup::{
    BackupError, EachJob, Exported, ExportedJob, ExportedTable, check_empty_postgres, check_sqlite, export_postgres,
    export_sqlite, import_postgres,
};
pub use copy::{CopyError, copy_to_postgres};
pub use memory::MemoryStore;
pub use postgres::{OpenError as PostgresOpenError, PostgresStore, Schema, UrlError};
pub use sqlite::{OpenError, SqliteStore};
pub use vault::{MasterKey, VaultError};
