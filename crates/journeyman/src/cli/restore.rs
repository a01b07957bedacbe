//! `journeyman restore`: restores a backup.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::backup::describe;
use super::store::{StoreArgs, block_on, print};
use crate::backup::{self, BlobsNote, Restored};

#[derive(Debug, Args)]
#[command(
    after_help = "Nothing is overwritten: the data directory and the database must be empty, and the service must be \
                        stopped. The master key must be the one with which the backup was created. See docs/backup.md."
)]
pub(crate) struct RestoreArgs {
    #[command(flatten)]
    store: StoreArgs,

    /// Restore only the database; leave repositories and blobs as they are
    #[arg(long)]
    database_only: bool,

    /// Folder of the backup
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Restores a backup.
pub(crate) fn run(arguments: RestoreArgs) -> anyhow::Result<ExitCode> {
    let RestoreArgs { store, database_only, dir } = arguments;
    let settings = store.settings()?;
    let Restored { manifest, key_file } = block_on(backup::restore(&settings, &dir, database_only))?;
    describe(&manifest)?;
    if let Some(path) = key_file {
        print(&format!("The master key of the backup was written to {}.", path.display()))?;
    }
    if let (BlobsNote::Bucket { url, keys }, false) = (&manifest.blobs, database_only) {
        print(&format!(
            "The blob store must contain the {} objects that {} names, as {url} did.",
            keys.len(),
            dir.join("manifest.json").display()
        ))?;
    }
    print("Everything was restored and synced to disk. Now start the service.")?;
    Ok(ExitCode::SUCCESS)
}
