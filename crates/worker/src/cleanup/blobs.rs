//! Removes blobs that no job needs any more.

use std::time::Duration;

use journeyman_core::ids::JobId;
use journeyman_core::job::{Job, JobStatus, Token};
use journeyman_core::ports::{Blob, BlobError, Blobs, WorkStore};
use journeyman_core::time::Timestamp;
use journeyman_repository::bundle::BUNDLES;

use crate::commit::lfs_objects::OBJECT;
use crate::workspace::home_archive::{SESSIONS, left_out_key};

/// The folders of the blob store.
pub const BLOB_FOLDERS: [&str; 2] = [SESSIONS, BUNDLES];

/// The number of blobs that are listed at once.
const PAGE: usize = 1000;

/// The age at which a blob that its job does not name is removed. A worker may have just written a younger blob, and
/// not recorded it yet.
const GRACE: Duration = Duration::from_secs(24 * 3600);

/// Removes the blobs of a job that its leases up to `up_to` wrote and nothing needs, or all blobs of a deleted job.
///
/// # Errors
/// The blob store or the store failed.
pub(crate) async fn remove_blobs(
    blobs: &dyn Blobs,
    store: &dyn WorkStore,
    id: JobId,
    up_to: Option<Token>,
) -> Result<(), BlobError> {
    let job = store.job(id).await.map_err(|error| BlobError(error.to_string()))?;
    for folder in BLOB_FOLDERS {
        let (prefix, mut after) = (format!("{folder}/{id}"), None);
        loop {
            let page = blobs.list(&prefix, after.as_deref(), PAGE).await?;
            for blob in &page {
                if is_removable(job.as_ref(), up_to, &blob.key) {
                    blobs.delete(&blob.key).await?;
                }
            }
            after = page.last().filter(|_| page.len() == PAGE).map(|blob| blob.key.clone());
            if after.is_none() {
                break;
            }
        }
    }
    Ok(())
}

/// Returns whether nothing needs a blob. `up_to` is the newest lease that has ended; `None` if the job was deleted.
pub(crate) fn is_removable(job: Option<&Job>, up_to: Option<Token>, key: &str) -> bool {
    match (job, up_to) {
        (None, _) => true,
        (Some(job), Some(token)) => !is_named(job, key) && written_by(key).is_some_and(|by| by <= token),
        // The job was restored from a backup.
        (Some(_), None) => false,
    }
}

/// Removes blobs of deleted jobs, blobs that their jobs do not name, and sessions of jobs that have been inactive for
/// `keep`. Checks up to `limit` blobs of each kind after `positions`, and advances them, so that repeated calls go
/// through any number of blobs. Returns the number of removed blobs.
///
/// # Errors
/// The blob store or the store failed.
pub(crate) async fn sweep_blobs(
    blobs: &dyn Blobs,
    store: &dyn WorkStore,
    now: Timestamp,
    positions: &mut SweepPositions,
    keep: Duration,
    limit: usize,
) -> Result<usize, BlobError> {
    let mut removed = 0;
    for (folder, position) in [(SESSIONS, &mut positions.sessions), (BUNDLES, &mut positions.bundles)] {
        let page = blobs.list(folder, position.as_deref(), limit).await?;
        for blob in &page {
            if is_unneeded(store, blob, now, keep).await? {
                blobs.delete(&blob.key).await?;
                removed += 1;
            }
        }
        *position = page.last().filter(|_| page.len() == limit).map(|blob| blob.key.clone());
    }
    Ok(removed)
}

async fn is_unneeded(store: &dyn WorkStore, blob: &Blob, now: Timestamp, keep: Duration) -> Result<bool, BlobError> {
    let age = now.since(blob.written_at);
    let id = blob.key.split('/').nth(1).and_then(|id| id.parse::<JobId>().ok());
    let (Some(id), true) = (id, age >= GRACE.min(keep)) else { return Ok(false) };
    let job = store.job(id).await.map_err(|error| BlobError(error.to_string()))?;
    Ok(match job {
        None => true,
        Some(job) if !is_named(&job, &blob.key) => age >= GRACE,
        Some(job) => is_session(&job, &blob.key) && age >= keep && job.status() != JobStatus::Active,
    })
}

/// The positions at which the next sweep of the blob store continues.
#[derive(Debug, Default)]
pub struct SweepPositions {
    sessions: Option<String>,
    bundles: Option<String>,
}

fn is_named(job: &Job, key: &str) -> bool {
    if key.ends_with(OBJECT) {
        // Objects of Git LFS are uploaded before the commits are pushed.
        return job.branch.as_ref().is_some_and(|branch| branch.pushed.as_ref() != Some(&branch.head));
    }
    is_session(job, key) || job.bundle.as_deref() == Some(key)
}

/// Returns whether a blob has the session of a job, or what was left out of its commits.
fn is_session(job: &Job, key: &str) -> bool {
    job.archive.as_ref().is_some_and(|archive| archive == key || left_out_key(archive) == key)
}

/// Returns the token of the lease that wrote a blob.
fn written_by(key: &str) -> Option<Token> {
    let name = key.rsplit('/').next()?;
    name.split(['.', '-']).next()?.parse().ok().map(Token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_contains_the_token_of_the_lease_that_wrote_it() {
        let left_out = left_out_key("sessions/job_1/12.tar.gz");
        assert_eq!(left_out, "sessions/job_1/12-left-out.tar.gz");
        for key in ["sessions/job_1/12.tar.gz", "bundles/job_1/12-abcdef.bundle", &left_out] {
            assert_eq!(written_by(key), Some(Token(12)), "{key}");
        }
        assert_eq!(written_by("sessions/job_1/notes.txt"), None);
    }
}
