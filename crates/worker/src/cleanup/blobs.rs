//! Removes blobs that no job refers to any more.

use std::time::Duration;

use journeyman_core::ids::JobId;
use journeyman_core::job::{Job, JobStatus, Token};
use journeyman_core::ports::{Blob, BlobError};

use crate::archive::SESSIONS;
use crate::bundle::BUNDLES;
use crate::worker::Host;

/// The folders of the blob store.
pub const BLOB_FOLDERS: [&str; 2] = [SESSIONS, BUNDLES];

/// Blobs of one job that are looked at: more than a few are there only after many takeovers.
const OF_ONE_JOB: usize = 1000;

/// How old a blob must be before it is judged by its job alone: a worker may have written it and be about to say so.
const GRACE: Duration = Duration::from_secs(24 * 3600);

impl Host {
    /// Removes what the job's earlier leases have left, up to `token`; what newer leases write is not ours to judge.
    pub(crate) async fn remove_old_blobs(&self, job: &Job, token: Token) -> Result<(), BlobError> {
        for folder in BLOB_FOLDERS {
            for blob in self.blobs.list(&format!("{folder}/{}", job.id), None, OF_ONE_JOB).await? {
                if is_left_over(job, &blob.key, token) {
                    self.blobs.delete(&blob.key).await?;
                }
            }
        }
        Ok(())
    }

    /// Removes blobs of jobs that are gone, blobs that their jobs do not refer to, and sessions of jobs that have rested
    /// for `keep`. Looks at `limit` blobs of each kind behind those of `places`, which it moves on: what is there is gone
    /// through bit by bit, however much it is.
    ///
    /// # Errors
    /// The blob store or the store failed.
    pub async fn sweep_blobs(&self, places: &mut Places, keep: Duration, limit: usize) -> Result<usize, BlobError> {
        let mut removed = 0;
        for (folder, place) in [(SESSIONS, &mut places.sessions), (BUNDLES, &mut places.bundles)] {
            let blobs = self.blobs.list(folder, place.as_deref(), limit).await?;
            for blob in &blobs {
                if self.is_over(blob, keep).await? {
                    self.blobs.delete(&blob.key).await?;
                    removed += 1;
                }
            }
            *place = blobs.last().filter(|_| blobs.len() == limit).map(|blob| blob.key.clone());
        }
        Ok(removed)
    }

    async fn is_over(&self, blob: &Blob, keep: Duration) -> Result<bool, BlobError> {
        let age = self.engine.now().since(blob.written_at);
        let id = blob.key.split('/').nth(1).and_then(|id| id.parse::<JobId>().ok());
        let (Some(id), true) = (id, age >= GRACE.min(keep)) else { return Ok(false) };
        let job = self.store.job(id).await.map_err(|error| BlobError(error.to_string()))?;
        Ok(match job {
            None => true,
            Some(job) if !is_needed(&job, &blob.key) => age >= GRACE,
            Some(job) => job.archive.as_ref() == Some(&blob.key) && age >= keep && job.status() != JobStatus::Active,
        })
    }
}

/// Where a sweep goes on.
#[derive(Debug, Default)]
pub struct Places {
    sessions: Option<String>,
    bundles: Option<String>,
}

/// Whether a lease up to `token` has written the blob and nobody needs it.
pub(crate) fn is_left_over(job: &Job, key: &str, token: Token) -> bool {
    !is_needed(job, key) && written_by(key).is_some_and(|by| by <= token)
}

fn is_needed(job: &Job, key: &str) -> bool {
    [&job.archive, &job.bundle].into_iter().flatten().any(|needed| needed == key)
}

/// The lease that wrote a blob.
fn written_by(key: &str) -> Option<Token> {
    let name = key.rsplit('/').next()?;
    name.split(['.', '-']).next()?.parse().ok().map(Token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_the_lease_that_wrote_it() {
        for key in ["sessions/job_1/12.tar.gz", "bundles/job_1/12-abcdef.bundle"] {
            assert_eq!(written_by(key), Some(Token(12)), "{key}");
        }
        assert_eq!(written_by("sessions/job_1/notes.txt"), None);
    }
}
