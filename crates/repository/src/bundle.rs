//! Bundles of commits that are not on the code host yet, in the blob store, so that another machine can publish a turn
//! that ended on this one.

use journeyman_core::ids::{JobId, Sha};
use journeyman_core::job::{Job, Token};
use journeyman_core::ports::Blobs;
use journeyman_core::run::ReasonCode;

use crate::{History, Mirror, RepositoryError, Scratch};

/// The folder of bundles in the blob store, with a folder for each job.
pub const BUNDLES: &str = "bundles";

/// Returns the key of the bundle with the commits up to `head`, as the holder of the lease `token` made them.
#[must_use]
pub fn key(job: JobId, token: Token, head: &Sha) -> String {
    format!("{BUNDLES}/{job}/{}-{head}.bundle", token.0)
}

/// Stores the commits from the newest commit that the code host has up to `head`, and returns the bundle's key. Returns
/// `None` if there is nothing new, or if all machines read this mirror.
///
/// # Errors
/// Git, the disk or the blob store failed.
pub async fn store(
    blobs: &dyn Blobs,
    mirror: &Mirror,
    scratch: &Scratch,
    job: &Job,
    head: &Sha,
) -> Result<Option<String>, RepositoryError> {
    let Some(branch) = job.branch.as_ref().filter(|_| blobs.is_shared()) else { return Ok(None) };
    let known = branch.pushed.as_ref().unwrap_or(&branch.base);
    if known == head {
        return Ok(None);
    }
    // A bundle contains refs, not commits, so the commit needs a name; it has the same name in the bundle.
    mirror.keep(&format!("{}/head", job.id), head).await?;
    let file = scratch.file(job.id, "bundle").await?;
    let (path, not) = (file.to_string_lossy().into_owned(), format!("^{known}"));
    let name = format!("refs/jobs/{}/head", job.id);
    mirror.git.at(&mirror.path, ["bundle", "create", "--quiet", &path, &name, &not]).run().await?;
    let key = key(job.id, job.token, head);
    blobs.put(&key, &file).await?;
    Ok(Some(key))
}

/// Fetches the job's unpublished commits from a mirror of another URL on this machine, because the repository may have
/// been renamed since. Returns whether one had them.
async fn fetch_from_other_url(mirror: &Mirror, job: &Job, head: &Sha) -> Result<bool, RepositoryError> {
    let Some(folder) = mirror.path.parent() else { return Ok(false) };
    let mut entries = tokio::fs::read_dir(folder).await?;
    while let Some(entry) = entries.next_entry().await? {
        let other = entry.path();
        let object = format!("{head}^{{commit}}");
        if other == mirror.path
            || !other.join("HEAD").exists()
            || mirror.git.at(&other, ["cat-file", "-e", &object]).run().await.is_err()
        {
            continue;
        }
        // Only a commit with a name can be fetched.
        let name = format!("refs/jobs/{}/head", job.id);
        mirror.git.at(&other, ["update-ref", &name, head.as_str()]).run().await?;
        let (path, target) = (other.to_string_lossy().into_owned(), format!("+{name}:{name}"));
        let arguments = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"];
        mirror.git.at(&mirror.path, arguments.into_iter().chain([path.as_str(), &target])).run().await?;
        return Ok(mirror.has(head).await);
    }
    Ok(false)
}

/// Fetches the job's unpublished commits into the mirror, if they are missing. Returns whether the mirror has the job's
/// head now.
///
/// # Errors
/// Git, the disk or the blob store failed.
pub async fn fetch(blobs: &dyn Blobs, mirror: &Mirror, scratch: &Scratch, job: &Job) -> Result<bool, RepositoryError> {
    let Some(branch) = &job.branch else { return Ok(false) };
    if mirror.has(&branch.head).await {
        return Ok(true);
    }
    if fetch_from_other_url(mirror, job, &branch.head).await? {
        return Ok(true);
    }
    let Some(key) = &job.bundle else { return Ok(false) };
    let file = scratch.file(job.id, "bundle").await?;
    if !blobs.get(key, &file).await? {
        tracing::warn!(job = %job.id, key, "the commits of a turn are not in the blob store; the turn is repeated");
        return Ok(false);
    }
    let (path, name) = (file.to_string_lossy().into_owned(), format!("refs/jobs/{}/head", job.id));
    let target = format!("+{name}:{name}");
    let arguments = ["-c", "transfer.fsckObjects=true", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head"];
    let fetch = mirror.git.at(&mirror.path, arguments.into_iter().chain(["--no-recurse-submodules", &path, &target]));
    let fetched = fetch.run().await;
    tokio::fs::remove_file(&file).await?;
    fetched.map_err(|error| {
        let text = format!("the commits of a turn that ended on another machine cannot be read: {error}");
        RepositoryError::may_pass(ReasonCode::Internal, text)
    })?;
    Ok(mirror.has(&branch.head).await)
}
