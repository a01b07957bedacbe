//! Where jobs are kept. The only crate with SQL.
//!
//! [`SqliteStore`] keeps them on disk, [`MemoryStore`] is the reference that it is compared with in tests. Both take
//! what to write from [`journeyman_core::job::change`], so they cannot disagree about what a command means.

mod accept;
mod memory;
mod rows;
mod sqlite;
mod vault;
mod wakeups;

pub use memory::MemoryStore;
pub use sqlite::{OpenError, SqliteStore};
pub use vault::{MasterKey, VaultError};
