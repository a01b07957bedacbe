//! `journeyman migrate`.

use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use journeyman_store::PostgresStore;

use super::store::{StoreArgs, block_on, print};
use crate::app;
use crate::config::Database;

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    store: StoreArgs,
}

/// Brings the schema of the database up to date.
pub(crate) fn run(arguments: MigrateArgs) -> anyhow::Result<ExitCode> {
    let settings = arguments.store.settings()?;
    block_on(async {
        match &settings.database {
            Database::Sqlite(_) => {
                app::open_store(&settings).await?;
                Ok(print(&format!("{} is up to date", settings.database))?)
            }
            Database::Postgres(url) => {
                let made = PostgresStore::migrate(url).await.with_context(|| settings.database.to_string())?;
                Ok(print(&format!("{} is up to date; steps made: {made}", settings.database))?)
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
