//! Removes the workspaces of jobs that are not active.
//!
//! A workspace contains nothing that must not be lost: its commits are in the mirror, and its session is archived. It
//! is rebuilt when a follow-up arrives.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use journeyman_core::code_host::PullState;
use journeyman_core::ids::JobId;
use journeyman_core::job::JobStatus;
use journeyman_core::ports::WorkStore;
use journeyman_core::time::Timestamp;

use crate::turn::idle_agents::IdleAgents;
use crate::workspace::MARKER;
use crate::workspace::lock::WorkspaceLocks;
use crate::workspace::prebuilt::PrebuiltTrees;
use crate::workspace::remove::remove_folder;

/// The longest time for which the workspace of a job is kept after its pull request has ended. Few of these jobs get
/// another message.
const ENDED_IDLE: Duration = Duration::from_secs(600);

/// The workspaces of a machine, to remove those that are idle.
pub(crate) struct IdleWorkspaces<'a> {
    pub(crate) store: &'a dyn WorkStore,
    pub(crate) prebuilt: &'a PrebuiltTrees,
    pub(crate) locks: &'a WorkspaceLocks,
    pub(crate) idle_agents: &'a IdleAgents,
    /// The folder of all workspaces.
    pub(crate) folder: PathBuf,
}

impl IdleWorkspaces<'_> {
    /// Removes the workspaces of jobs that have been idle for `idle`, or for a shorter time if their pull request has
    /// ended; of jobs that no longer exist; and of inactive jobs whose workspaces would be rebuilt in any case: those
    /// that a killed service was building or removing, and those of turns that did not finish. Returns the number of
    /// removed workspaces.
    ///
    /// # Errors
    /// A folder cannot be read or removed, or the store failed.
    pub(crate) async fn remove(&self, idle: Duration, now: Timestamp) -> io::Result<usize> {
        let before = now - idle;
        if let Err(error) = self.prebuilt.remove_older(before).await {
            tracing::warn!(%error, "unused prebuilt trees could not be removed");
        }
        let mut removed = 0;
        for id in jobs_in(&self.folder).await? {
            let root = self.folder.join(id.to_string());
            let used_at = used_at(&root).await;
            let is_usable = root.join(MARKER).exists();
            match self.activity(id).await? {
                // A run holds the lock until it ends.
                Activity::Active => continue,
                Activity::Inactive { has_ended } if is_usable => {
                    let before = if has_ended { now - idle.min(ENDED_IDLE) } else { before };
                    if used_at.is_none_or(|at| at > before) {
                        continue;
                    }
                }
                Activity::Inactive { .. } | Activity::Deleted => {}
            }
            // With the lock held, no run can begin in the workspace; a run that began before is seen by the second
            // check.
            let _lock = self.locks.lock(id).await;
            let activity = self.activity(id).await?;
            // The job may have been in the middle of a turn at the first check.
            let is_new = !is_usable && root.join(MARKER).exists();
            if activity == Activity::Active || is_new && activity != Activity::Deleted {
                continue;
            }
            if let Some(agent) = self.idle_agents.take(id) {
                agent.end().await;
            }
            // The marker is removed first, because a half-removed tree must not be mistaken for a complete one.
            let result = match tokio::fs::remove_file(root.join(MARKER)).await {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => remove_folder(&root).await,
            };
            match result {
                Ok(()) => removed += 1,
                // Continue with the others.
                Err(error) => tracing::warn!(job = %id, %error, "a workspace could not be removed"),
            }
        }
        Ok(removed)
    }

    async fn activity(&self, id: JobId) -> io::Result<Activity> {
        let Some(job) = self.store.job(id).await.map_err(io::Error::other)? else { return Ok(Activity::Deleted) };
        Ok(match job.status() {
            JobStatus::Active => Activity::Active,
            JobStatus::Completed | JobStatus::Failed | JobStatus::Archived => {
                Activity::Inactive { has_ended: job.pull.is_some_and(|pull| pull.state != PullState::Open) }
            }
        })
    }
}

/// The activity of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    Active,
    Inactive {
        /// `true` if its pull request was merged or closed.
        has_ended: bool,
    },
    /// The job was deleted.
    Deleted,
}

/// Returns the time at which a turn last used the workspace.
async fn used_at(root: &Path) -> Option<Timestamp> {
    let metadata = match tokio::fs::metadata(root.join(MARKER)).await {
        Ok(metadata) => metadata,
        // A workspace that was never completed has only its folder.
        Err(_) => tokio::fs::metadata(root).await.ok()?,
    };
    Some(Timestamp::default() + metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?)
}

/// Returns the jobs that a folder's entries are named after.
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
