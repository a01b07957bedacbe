//! Gives back the disk of jobs that rest.
//!
//! A workspace holds nothing that must not be lost: its commits are in the mirror and its session is archived, so it is
//! built anew when a follow-up comes.

use std::io;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use journeyman_core::ids::JobId;
use journeyman_core::job::JobStatus;
use journeyman_core::time::Timestamp;

use crate::removal::remove_folder;
use crate::worker::Host;
use crate::workspace::MARKER;

impl Host {
    /// Removes the workspaces of jobs that have not been active for `idle`, of jobs that no longer exist, and of
    /// resting jobs whose workspaces would be rebuilt in any case: those that a killed service was building or
    /// removing, and those of turns that did not finish. Returns the number of removed workspaces.
    ///
    /// # Errors
    /// A folder cannot be read or removed; the store failed.
    pub async fn release_idle(&self, idle: Duration) -> io::Result<usize> {
        if let Err(error) = self.spares.release_older(self.engine.now() - idle).await {
            tracing::warn!(%error, "spare trees could not be removed");
        }
        let mut released = 0;
        for id in jobs_in(&self.data.join("workspaces")).await? {
            let root = self.data.join("workspaces").join(id.to_string());
            let before = self.engine.now() - idle;
            let touched = touched(&root).await;
            let is_usable = root.join(MARKER).exists();
            if is_usable && self.rests(id).await? != Rest::Gone && touched.is_none_or(|at| at > before) {
                continue;
            }
            // With the door held no run can begin in it, and one that began before is seen by the second look.
            let _place = self.doors.enter(id).await;
            let rest = self.rests(id).await?;
            // The job may have been in the middle of a turn at the first check.
            let is_new = !is_usable && root.join(MARKER).exists();
            if rest == Rest::No || is_new && rest == Rest::Yes {
                continue;
            }
            if let Some(agent) = self.warm.take(id) {
                agent.end().await;
            }
            // First, because a tree that is half removed must not be taken for a whole one.
            let removed = match tokio::fs::remove_file(root.join(MARKER)).await {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => remove_folder(&root).await,
            };
            match removed {
                Ok(()) => released += 1,
                // The others are not kept for it.
                Err(error) => tracing::warn!(job = %id, %error, "a workspace could not be removed"),
            }
        }
        Ok(released)
    }

    async fn rests(&self, id: JobId) -> io::Result<Rest> {
        let job = self.store.job(id).await.map_err(io::Error::other)?;
        Ok(match job.map(|job| job.status()) {
            None => Rest::Gone,
            Some(JobStatus::Active) => Rest::No,
            Some(JobStatus::Completed | JobStatus::Failed | JobStatus::Archived) => Rest::Yes,
        })
    }
}

/// Whether a job rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    No,
    Yes,
    /// It was deleted.
    Gone,
}

/// When a turn last moved the workspace.
pub(crate) async fn touched(root: &Path) -> Option<Timestamp> {
    let note = match tokio::fs::metadata(root.join(MARKER)).await {
        Ok(note) => note,
        // One that was never made ready has only its folder.
        Err(_) => tokio::fs::metadata(root).await.ok()?,
    };
    let since = note.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp::default() + since)
}

/// The jobs that a folder's entries are named after.
async fn jobs_in(folder: &Path) -> io::Result<Vec<JobId>> {
    let mut entries = match tokio::fs::read_dir(folder).await {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut jobs = Vec::new();
    while let Some(entry) = entries.next_entry().await? {
        let name = entry.file_name();
        let id = name.to_str().map(str::parse::<JobId>);
        jobs.extend(id.and_then(Result::ok));
    }
    Ok(jobs)
}
