//! `journeyman migrate`: updates the schema of the database.

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use journeyman_store::{PostgresStore, SqliteStore};

use super::store::{StoreArgs, block_on, print};
use crate::app;
use crate::config::Database;

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    store: StoreArgs,

    /// Rewrite the SQLite database to return its free space to the disk, and from then on do so after each sweep.
    /// Needed once for a database from before schema version 10. The service must be stopped, and the disk needs space
    /// for two more copies of the database
    #[arg(long)]
    compact: bool,
}

/// Updates the schema of the database, and compacts a SQLite database if asked.
pub(crate) fn run(arguments: MigrateArgs) -> anyhow::Result<ExitCode> {
    let settings = arguments.store.settings()?;
    block_on(async {
        match &settings.database {
            Database::Sqlite(path) => {
                // The rewrite would block a running service, which would refuse requests.
                let lock = arguments.compact.then(|| app::lock(&settings.data_dir)).transpose();
                let _lock = lock.context("--compact needs the service to be stopped")?;
                app::open_store(&settings).await?;
                print(&format!("{} is up to date", settings.database))?;
                if arguments.compact {
                    let [before, after] = SqliteStore::compact(path)?.map(|bytes| bytes.div_ceil(1 << 20));
                    print(&format!("{} was rewritten: {before} MiB before, {after} MiB now", settings.database))?;
                }
                Ok(())
            }
            Database::Postgres(_) if arguments.compact => {
                bail!(
                    "--compact is for SQLite only; docs/machines.md explains how to return free space of a PostgreSQL \
                     database to the disk"
                )
            }
            Database::Postgres(url) => {
                let made = PostgresStore::migrate(url).await.with_context(|| settings.database.to_string())?;
                Ok(print(&format!("{} is up to date; steps made: {made}", settings.database))?)
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
