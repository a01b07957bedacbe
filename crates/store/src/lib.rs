//! The stores. This is the only crate that contains SQL.
//!
//! [`SqliteStore`] keeps its data in a file, and [`PostgresStore`] in a database that many machines share.
//! [`MemoryStore`] has only the ports of the work on jobs ([`journeyman_core::ports::WorkStore`]), for the simulation of
//! the worker and as a reference for tests. All stores write the changes of [`journeyman_core::job::change`] and accept
//! requests through one module, so that a command has the same effect in each of them.

mod accept;
mod backup;
mod copy;
mod lists;
mod memory;
mod postgres;
mod retention;
mod retired;
mod rows;
mod seal;
mod sealed;
mod spans;
mod sql;
mod sqlite;
mod tables;
mod ticket;
mod vault;
mod wakeups;
mod watch;

pub use backup::{
    BackupError, EachJob, Exported, ExportedJob, ExportedTable, check_empty_postgres, check_sqlite, export_postgres,
    export_sqlite, import_postgres, mark_sqlite,
};
pub use copy::{CopyError, copy_to_postgres};
pub use memory::MemoryStore;
pub use postgres::{OpenError as PostgresOpenError, PostgresStore, Schema, UrlError};
pub use seal::Sealer;
pub use sqlite::{OpenError, SqliteStore};
pub use vault::{KeyId, MasterKey, MasterKeys, VaultError};
