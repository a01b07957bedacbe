//! `journeyman backup`: creates or verifies a backup.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::store::{StoreArgs, block_on, print};
use crate::backup::{self, BlobsNote, Created, Manifest};

#[derive(Debug, Args)]
#[command(
    after_help = "The service can keep running. The backup contains everything that was accepted before it began. It \
                        does not contain the master key unless --include-key is given: keep a copy of the key \
                        elsewhere. See docs/backup.md."
)]
pub(crate) struct BackupArgs {
    #[command(flatten)]
    store: StoreArgs,

    /// Include the master key in the backup: anyone who has such a backup can read all secrets in it
    #[arg(long, conflicts_with = "verify")]
    include_key: bool,

    /// Verify the backup in the folder instead of creating one: compare each of its files with the manifest
    #[arg(long)]
    verify: bool,

    /// Folder of the backup; must be new or empty, except with --verify
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Creates or verifies a backup.
pub(crate) fn run(arguments: BackupArgs) -> anyhow::Result<ExitCode> {
    let BackupArgs { store, include_key, verify, dir } = arguments;
    if verify {
        let manifest = backup::verify(&dir)?;
        describe(&manifest)?;
        print(&format!("The backup in {} is complete and undamaged.", dir.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let settings = store.settings()?;
    let Created { manifest, jobs } = block_on(backup::create(&settings, &dir, include_key))?;
    describe(&manifest)?;
    print(&format!("The backup in {} is finished; jobs in it: {jobs}.", dir.display()))?;
    if include_key {
        let warning = "warning: the backup contains the master key: anyone who can read it can read all secrets in it";
        writeln!(std::io::stderr(), "{warning}")?;
    } else {
        print(
            "The backup does not contain the master key. Keep a copy of the key elsewhere: without it, nothing can be \
             restored.",
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a description of a backup.
pub(super) fn describe(manifest: &Manifest) -> anyhow::Result<()> {
    let Manifest { program, created_at, database, key_id, other_key_ids, repositories, blobs, .. } = manifest;
    print(&format!("{} of {created_at}, made by Journeyman {program}", database.kind.name()))?;
    print(&format!("schema version {}, master key {key_id}", database.schema_version))?;
    if !other_key_ids.is_empty() {
        print(&format!(
            "its secrets also need the master keys {}: a rotation had not finished",
            other_key_ids.join(", ")
        ))?;
    }
    print(&format!("{} repositories, {} MiB in total", repositories.len(), manifest.bytes().div_ceil(1 << 20)))?;
    match blobs {
        BlobsNote::Files { count, missing } => {
            print(&format!("{count} blobs"))?;
            if !missing.is_empty() {
                print(&format!(
                    "{} sessions were replaced during the backup; the agents of their jobs start new ones",
                    missing.len()
                ))?;
            }
        }
        BlobsNote::Bucket { url, keys } => {
            print(&format!("{} blobs are not in the backup: back up the bucket {url} separately", keys.len()))?;
        }
    }
    Ok(())
}
