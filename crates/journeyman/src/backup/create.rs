//! Creates a backup of an installation in use.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, bail};
use journeyman_blobs::Folder;
use journeyman_core::ids::Sha;
use journeyman_core::job::{Job, Progress};
use journeyman_core::project::{Address, parse_address};
use journeyman_core::time::Clock;
use journeyman_forge::{JobBranch, Refs, copy_repository, refs, repository_names};
use journeyman_git::Git;
use journeyman_store::{Exported, ExportedJob, MasterKeys, export_postgres, export_sqlite};

use super::layout::{BLOBS, DATABASE, MASTER_KEY, REPOSITORIES, TABLES};
use super::manifest::{BlobsNote, DatabaseKind, DatabaseNote, Manifest};
use super::{blobs, files};
use crate::app;
use crate::config::{BlobLocation, Database, Settings};
use crate::folders::make_private_dir;
use crate::system::Machine;

/// A finished backup.
pub(crate) struct Created {
    pub(crate) manifest: Manifest,
    pub(crate) jobs: usize,
}

/// Creates a backup in the folder `dir`, which must be empty or must not exist.
///
/// # Errors
/// A part of the installation cannot be read, or the folder cannot be written; the folder then contains no manifest.
pub(crate) async fn create(settings: &Settings, dir: &Path, include_key: bool) -> anyhow::Result<Created> {
    if let Database::Sqlite(path) = &settings.database
        && !path.exists()
    {
        bail!("there is no database at {}; specify the installation with --config or --data-dir", path.display());
    }
    let keys = app::master_keys(settings)?;
    make_private_dir(dir)?;
    let mut found = std::fs::read_dir(dir).with_context(|| format!("{} cannot be read", dir.display()))?;
    if found.next().is_some() {
        bail!("{} is not empty; use a new folder for each backup", dir.display());
    }
    // The folder may have existed with another mode, and files in it are readable until their own modes are set.
    std::fs::set_permissions(dir, Permissions::from_mode(0o700))?;
    let created = fill(settings, &keys, dir, include_key).await;
    created.with_context(|| format!("the backup in {} was not finished and cannot be used; delete it", dir.display()))
}

async fn fill(settings: &Settings, keys: &MasterKeys, dir: &Path, include_key: bool) -> anyhow::Result<Created> {
    let (git, begun) = (app::git(settings)?, Machine.now());
    let version = env!("CARGO_PKG_VERSION").to_owned();
    // docs/decisions/0027-backup.md explains this order.
    let copied = match &settings.blobs {
        BlobLocation::Folder { path, shared } => {
            blobs::copy_all(&Folder::new(path.clone(), *shared), &dir.join(BLOBS)).await?
        }
        BlobLocation::Bucket { .. } => BTreeSet::new(),
    };
    let before = all_refs(&git, &settings.repositories).await?;
    let mut needs = Needs::default();
    let (kind, Exported { schema_version, tables, key_ids }) = export(settings, keys, dir, &mut needs).await?;
    let current = keys.current().id()?.to_string();
    if include_key && key_ids.iter().any(|id| *id != current) {
        bail!(
            "the secrets need the master keys {}, because a rotation has not finished, but a backup can include only one: \
             run `journeyman key-encryption rotate` first, or make the backup without --include-key",
            key_ids.join(", ")
        );
    }
    let database = DatabaseNote { kind, schema_version, tables };
    let mut key_ids = key_ids.into_iter();
    let mut manifest = Manifest::new(begun, version, key_ids.next().unwrap_or(current), database);
    manifest.other_key_ids = key_ids.collect();
    manifest.blobs = match &settings.blobs {
        BlobLocation::Folder { path, shared } => {
            let folder = Folder::new(path.clone(), *shared);
            let missing = blobs::complete(&folder, &dir.join(BLOBS), &copied, &needs.blobs).await?;
            BlobsNote::Files { count: needs.blobs.len() - missing.len(), missing }
        }
        BlobLocation::Bucket { url, .. } => {
            BlobsNote::Bucket { url: url.clone(), keys: needs.blobs.into_iter().collect() }
        }
    };
    manifest.repositories = copy_repositories(&git, settings, dir, &before, &needs.branches).await?;
    if let (BlobLocation::Folder { path, shared }, BlobsNote::Files { count, .. }) =
        (&settings.blobs, &mut manifest.blobs)
    {
        *count += blobs::copy_hosted(&Folder::new(path.clone(), *shared), &dir.join(BLOBS)).await?;
    }
    if include_key {
        manifest.includes_key = true;
        files::write(&dir.join(MASTER_KEY), format!("{}\n", app::master_key_text(settings)?).as_bytes())?;
    }
    manifest.files = files::note_all(dir).context("the backup cannot be synced to disk")?;
    manifest.write(dir)?;
    files::sync_folder_of(&std::path::absolute(dir)?)?;
    Ok(Created { manifest, jobs: needs.jobs })
}

async fn export(
    settings: &Settings,
    keys: &MasterKeys,
    dir: &Path,
    needs: &mut Needs,
) -> anyhow::Result<(DatabaseKind, Exported)> {
    let each = &mut |job| needs.add(job);
    Ok(match &settings.database {
        Database::Sqlite(path) => (DatabaseKind::Sqlite, export_sqlite(path, &dir.join(DATABASE), keys, each)?),
        Database::Postgres(url) => {
            let tables = dir.join(TABLES);
            make_private_dir(&tables)?;
            let exported = export_postgres(url, &tables, keys, each).await;
            (DatabaseKind::Postgresql, exported.with_context(|| settings.database.to_string())?)
        }
    })
}

/// Returns the refs of all repositories, by the names of the repositories.
async fn all_refs(git: &Git, folder: &Path) -> anyhow::Result<BTreeMap<String, Refs>> {
    let mut all = BTreeMap::new();
    for name in names(folder)? {
        let refs = refs(git, &folder.join(format!("{name}.git"))).await?;
        all.insert(name, refs);
    }
    Ok(all)
}

fn names(folder: &Path) -> anyhow::Result<Vec<String>> {
    repository_names(folder).with_context(|| format!("{} cannot be read", folder.display()))
}

async fn copy_repositories(
    git: &Git,
    settings: &Settings,
    dir: &Path,
    before: &BTreeMap<String, Refs>,
    branches: &BTreeMap<String, Vec<JobBranch>>,
) -> anyhow::Result<Vec<String>> {
    let to = dir.join(REPOSITORIES);
    make_private_dir(&to)?;
    let names = names(&settings.repositories)?;
    for name in &names {
        let file = format!("{name}.git");
        let none = Refs::new();
        let (before, jobs) = (before.get(name).unwrap_or(&none), branches.get(name).map_or(&[][..], Vec::as_slice));
        copy_repository(git, &settings.repositories.join(&file), &to.join(&file), before, jobs).await?;
    }
    Ok(names)
}

/// The blobs and branches that the jobs of the copied database refer to.
#[derive(Default)]
struct Needs {
    jobs: usize,
    /// The keys of blobs.
    blobs: BTreeSet<String>,
    /// The branches, by the names of repositories of the built-in code host.
    branches: BTreeMap<String, Vec<JobBranch>>,
}

impl Needs {
    fn add(&mut self, ExportedJob { job, repository }: ExportedJob) {
        self.jobs += 1;
        self.blobs.extend([job.archive.clone(), job.bundle.clone()].into_iter().flatten());
        if let Some(Ok(Address::Local(name))) = repository.as_deref().map(parse_address) {
            self.branches.entry(name).or_default().extend(branches(&job));
        }
    }
}

/// Returns the branches that a job pushes to, or will push to in its next turn.
fn branches(job: &Job) -> Vec<JobBranch> {
    let generation = job.branch.as_ref().map_or(1, |branch| branch.generation + 1);
    let existing = job.options.pull.as_ref().filter(|_| generation == 1);
    let known = existing.and_then(|existing| existing.head_sha.clone()).into_iter().collect();
    let mut branches = vec![JobBranch { name: job.branch_of(generation), known }];
    if let Some(branch) = &job.branch {
        let publishing = job.in_flight().and_then(|message| match &message.progress {
            Progress::Publishing { head, .. } => Some(head.clone()),
            Progress::Prompting => None,
        });
        let known: Vec<Sha> = publishing.into_iter().chain(branch.pushed.clone()).collect();
        branches.push(JobBranch { name: branch.name.clone(), known });
    }
    branches
}
