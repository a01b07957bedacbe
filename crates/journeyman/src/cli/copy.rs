//! `journeyman store copy`: from SQLite to PostgreSQL.

use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand};
use journeyman_store::copy_to_postgres;

use super::store::{StoreArgs, block_on, print};
use crate::app;
use crate::config::Database;

#[derive(Debug, Args)]
pub(crate) struct StoreCommandArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Moves everything from the SQLite database of a service that is stopped into an empty PostgreSQL database, and
    /// checks it row by row
    Copy {
        #[command(flatten)]
        store: StoreArgs,

        /// The URL of the PostgreSQL database; one with a password is better written into a file, as @FILE
        #[arg(long, value_name = "URL")]
        to: String,
    },
}

/// Copies a store.
pub(crate) fn run(arguments: StoreCommandArgs) -> anyhow::Result<ExitCode> {
    let StoreCommand::Copy { store, to } = arguments.command;
    let settings = store.settings()?;
    let Database::Sqlite(from) = &settings.database else {
        bail!("the service's database is {} already; copies are made from SQLite", settings.database);
    };
    let to = match to.strip_prefix('@') {
        Some(file) => std::fs::read_to_string(file).map_err(|error| anyhow::anyhow!("{file}: {error}"))?,
        None => to,
    };
    // Keeps the service from starting meanwhile.
    let _lock = app::lock(&settings.data_dir)?;
    block_on(async {
        // Brings the schema up to date, and refuses a file that is none of ours.
        drop(app::open_store(&settings).await?);
        for (table, rows) in copy_to_postgres(from, to.trim()).await? {
            print(&format!("{rows:>9} {table}"))?;
        }
        print("Every row was read back and is the same. Now start the service with the new database-url, and with")?;
        print(&format!(
            "JOURNEYMAN_MASTER_KEY or master-key-file as before ({}). Files stay where they are: the",
            settings.master_key_file.display()
        ))?;
        Ok(print(&format!("repositories of the built-in code host in {}.", settings.repositories.display()))?)
    })?;
    Ok(ExitCode::SUCCESS)
}
