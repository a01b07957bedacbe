//! `journeyman store copy`: copies a SQLite database to PostgreSQL.

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
    /// Copy the SQLite database of a stopped service into an empty PostgreSQL database, and verify each row
    Copy {
        #[command(flatten)]
        store: StoreArgs,

        /// URL of the PostgreSQL database, or @FILE to read it from a file; use a file for a URL with a password
        #[arg(long, value_name = "URL")]
        to: String,
    },
}

/// Copies the database.
pub(crate) fn run(arguments: StoreCommandArgs) -> anyhow::Result<ExitCode> {
    let StoreCommand::Copy { store, to } = arguments.command;
    let settings = store.settings()?;
    let Database::Sqlite(from) = &settings.database else {
        bail!("the service's database is {}, but only a SQLite database can be copied", settings.database);
    };
    let to = match to.strip_prefix('@') {
        Some(file) => std::fs::read_to_string(file).map_err(|error| anyhow::anyhow!("{file}: {error}"))?,
        None => to,
    };
    // The lock prevents the service from starting during the copy.
    let _lock = app::lock(&settings.data_dir)?;
    block_on(async {
        // Opening the store updates the schema, and refuses the file of another program.
        drop(app::open_store(&settings).await?);
        for (table, rows) in copy_to_postgres(from, to.trim()).await? {
            print(&format!("{rows:>9} {table}"))?;
        }
        print("Every row was read back and compared. Now start the service with the new database-url, and with")?;
        print(&format!(
            "JOURNEYMAN_MASTER_KEY or master-key-file as before ({}). Files stay where they are: the",
            settings.master_key_file.display()
        ))?;
        Ok(print(&format!("repositories of the built-in code host in {}.", settings.repositories.display()))?)
    })?;
    Ok(ExitCode::SUCCESS)
}
