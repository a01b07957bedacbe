//! Restores a backup into an empty installation.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use journeyman_core::ports::Blobs;
use journeyman_store::{Exported, VaultError, check_empty_postgres, check_sqlite, import_postgres, mark_sqlite};

use super::layout::{BLOBS, DATABASE, MASTER_KEY, REPOSITORIES, TABLES};
use super::manifest::{BlobsNote, DatabaseKind, Manifest};
use super::{blobs, files};
use crate::app;
use crate::config::{Database, Settings};
use crate::folders::make_private_dir;

/// A restored backup.
pub(crate) struct Restored {
    pub(crate) manifest: Manifest,
    /// The file to which the backup's master key was written; `None` if it was not written.
    pub(crate) key_file: Option<PathBuf>,
}

/// Reads all of a backup and compares it with its manifest.
///
/// # Errors
/// The folder is not a finished backup, or the backup was damaged.
pub(crate) fn verify(dir: &Path) -> anyhow::Result<Manifest> {
    let manifest = Manifest::verify(dir)?;
    if manifest.database.kind == DatabaseKind::Sqlite {
        check_sqlite(&dir.join(DATABASE))?;
    }
    Ok(manifest)
}

/// Restores the backup in `dir` into the installation of `settings`. With `database_only`, the repositories and blobs
/// of the installation stay as they are.
///
/// # Errors
/// The service is running, the installation is not empty, the backup is damaged or of another kind, or the master key
/// is a different one; in these cases, nothing was written. Or a file cannot be written; the database is written last.
pub(crate) async fn restore(settings: &Settings, dir: &Path, database_only: bool) -> anyhow::Result<Restored> {
    make_private_dir(&settings.data_dir)?;
    let _lock = app::lock(&settings.data_dir)
        .context("stop the service first: a backup can be restored only while the service is stopped")?;
    let manifest = verify(dir)?;
    check_kind(settings, &manifest)?;
    let key_file = check_key(settings, &manifest)?;
    check_empty(settings, &manifest, database_only).await?;
    let done = write(settings, dir, &manifest, key_file.as_deref(), database_only).await;
    done.context("the restore was not finished; empty the data directory and the database, and restore again")?;
    Ok(Restored { manifest, key_file })
}

fn check_kind(settings: &Settings, manifest: &Manifest) -> anyhow::Result<()> {
    let here = match settings.database {
        Database::Sqlite(_) => DatabaseKind::Sqlite,
        Database::Postgres(_) => DatabaseKind::Postgresql,
    };
    if manifest.database.kind != here {
        bail!(
            "the backup is of {}, but database-url names {}; restore it into the same kind of database. To move from \
             SQLite to PostgreSQL, run journeyman store copy after the restore",
            manifest.database.kind.name(),
            here.name()
        );
    }
    Ok(())
}

/// Returns the file to which the key of the backup must be written; `None` if the installation has the key.
fn check_key(settings: &Settings, manifest: &Manifest) -> anyhow::Result<Option<PathBuf>> {
    let file = &settings.master_key_file;
    // Do not create a new key: the key that the manifest names encrypts the secrets in the backup.
    if settings.master_key.is_none() && !file.exists() {
        if manifest.includes_key {
            return Ok(Some(file.clone()));
        }
        bail!(
            "the backup's secrets are encrypted with the master key {}, which is not in the backup; put the key into {}, \
             or set JOURNEYMAN_MASTER_KEY to it",
            manifest.key_id,
            file.display()
        );
    }
    let keys = app::master_keys(settings)?;
    let here: Result<Vec<String>, VaultError> =
        std::iter::once(keys.current()).chain(keys.others()).map(|key| Ok(key.id()?.to_string())).collect();
    let here = here?;
    let missing: Vec<&str> = std::iter::once(&manifest.key_id)
        .chain(&manifest.other_key_ids)
        .filter(|id| !here.contains(id))
        .map(String::as_str)
        .collect();
    if !missing.is_empty() {
        let verb = if here.len() == 1 { "key here is" } else { "keys here are" };
        bail!(
            "the master {verb} {}, but the backup's secrets are encrypted with {}; provide that key with \
             JOURNEYMAN_MASTER_KEY or master-key-file, or as another one with JOURNEYMAN_OTHER_MASTER_KEYS or \
             other-master-key-files",
            here.join(", "),
            missing.join(", ")
        );
    }
    Ok(None)
}

/// Checks that the installation has no data that would mix with the restored data.
async fn check_empty(settings: &Settings, manifest: &Manifest, database_only: bool) -> anyhow::Result<()> {
    let refuse = |path: &Path| {
        bail!(
            "{} is not empty; restore into a new data directory (--data-dir), or move its content away",
            path.display()
        )
    };
    match &settings.database {
        Database::Sqlite(path) => {
            for end in ["", "-wal", "-journal"] {
                let mut name = path.clone().into_os_string();
                name.push(end);
                if Path::new(&name).exists() {
                    bail!(
                        "{} already exists; a restore does not overwrite a database: move it away",
                        Path::new(&name).display()
                    );
                }
            }
        }
        Database::Postgres(url) => {
            let empty = check_empty_postgres(url, manifest.database.schema_version).await;
            empty.with_context(|| settings.database.to_string())?;
        }
    }
    // Workspaces and mirrors belong to the previous database.
    for name in ["workspaces", "mirrors"] {
        let path = settings.data_dir.join(name);
        if has_entries(&path)? {
            return refuse(&path);
        }
    }
    if database_only {
        return Ok(());
    }
    if has_entries(&settings.repositories)? {
        return refuse(&settings.repositories);
    }
    if matches!(manifest.blobs, BlobsNote::Files { .. }) && !blobs::is_empty(&*app::blobs(&settings.blobs)?).await? {
        bail!("the blob store (blob-url) is not empty; restore into an empty one");
    }
    Ok(())
}

fn has_entries(dir: &Path) -> anyhow::Result<bool> {
    match std::fs::read_dir(dir) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", dir.display())),
    }
}

async fn write(
    settings: &Settings,
    dir: &Path,
    manifest: &Manifest,
    key_file: Option<&Path>,
    database_only: bool,
) -> anyhow::Result<()> {
    if let Some(path) = key_file {
        let text = std::fs::read(dir.join(MASTER_KEY)).context("the backup's master key cannot be read")?;
        files::write(path, &text).with_context(|| format!("{} cannot be written", path.display()))?;
        let id = app::master_key(settings)?.id()?.to_string();
        if id != manifest.key_id {
            bail!("the master key in the backup is {id}, but its manifest says {}", manifest.key_id);
        }
    }
    if !database_only {
        write_repositories(settings, dir, manifest)?;
        let store: Arc<dyn Blobs> = app::blobs(&settings.blobs)?;
        for key in manifest.files.keys().filter_map(|name| name.strip_prefix(&format!("{BLOBS}/"))) {
            let draft = settings.data_dir.join("restored.draft");
            blobs::put(&*store, key, &dir.join(BLOBS).join(key), draft).await?;
        }
    }
    // The database comes last, so that it never refers to missing files.
    match &settings.database {
        Database::Sqlite(path) => write_sqlite(dir, manifest, path)?,
        Database::Postgres(url) => {
            let (schema_version, tables) = (manifest.database.schema_version, manifest.database.tables.clone());
            let backup = Exported { schema_version, tables, key_ids: Vec::new() };
            let imported = import_postgres(url, &dir.join(TABLES), &backup).await;
            imported.with_context(|| settings.database.to_string())?;
        }
    }
    // If this program or key cannot use the database, opening it now reports that before the next start.
    drop(app::open_store(settings).await?);
    Ok(())
}

fn write_repositories(settings: &Settings, dir: &Path, manifest: &Manifest) -> anyhow::Result<()> {
    let root = &settings.repositories;
    make_private_dir(root)?;
    for name in &manifest.repositories {
        // Git does not accept a folder without these as a repository, and a manifest lists no empty folders.
        for folder in ["refs/heads", "refs/tags", "objects/info", "objects/pack"] {
            make_private_dir(&root.join(format!("{name}.git")).join(folder))?;
        }
    }
    for (name, note) in &manifest.files {
        let Some(key) = name.strip_prefix(&format!("{REPOSITORIES}/")) else { continue };
        let to = root.join(key);
        make_private_dir(to.parent().unwrap_or(root))?;
        let copied =
            files::copy(&dir.join(name), &to).with_context(|| format!("{} cannot be written", to.display()))?;
        if copied != *note {
            bail!("the backup's file {name} changed while it was restored");
        }
    }
    files::sync_folders(root).with_context(|| format!("{} cannot be synced to disk", root.display()))
}

fn write_sqlite(dir: &Path, manifest: &Manifest, path: &Path) -> anyhow::Result<()> {
    let draft = path.with_extension("restored");
    let failed = || format!("{} cannot be written", draft.display());
    if let Err(error) = std::fs::remove_file(&draft)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error).with_context(failed);
    }
    let copied = files::copy(&dir.join(DATABASE), &draft).with_context(failed)?;
    if manifest.files.get(DATABASE) != Some(&copied) {
        bail!("the backup's file {DATABASE} changed while it was restored");
    }
    // A backup of an earlier version has no mark yet.
    mark_sqlite(&draft)?;
    files::sync(&draft).with_context(failed)?;
    std::fs::rename(&draft, path).with_context(failed)?;
    files::sync_folder_of(path).with_context(failed)
}
