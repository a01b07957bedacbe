//! What a run may use beside time: how it ends when it has used it up.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use journeyman_core::ports::{Exhausted, Process};
use journeyman_core::project::LimitSettings;
use journeyman_core::run::ReasonCode;

use crate::disk::{Used, used};
use crate::failure::Stopped;
use crate::workspace::Workspace;

/// How often memory and processes are looked at.
pub(crate) const BEAT: Duration = Duration::from_millis(250);

/// How often the disk is, at most.
const DISK_BEAT: Duration = Duration::from_secs(2);

/// The disk is looked at for one part in so many of the time.
const DISK_PART: u32 = 20;

/// Why a run ends that came up against a limit of its project.
pub(crate) fn reached(exhausted: Exhausted, limits: &LimitSettings) -> Stopped {
    let resources = limits.resources();
    match exhausted {
        Exhausted::Memory => {
            let bytes = resources.memory_bytes;
            let most = bytes.map_or_else(|| "it may".to_owned(), |bytes| format!("{bytes} bytes"));
            let text = format!(
                "the run needed more memory than {most}, and one of its processes was killed for it; raise \
                 limits.memoryBytes of the project"
            );
            Stopped::failed(ReasonCode::OutOfMemory, text)
        }
        Exhausted::Processes => {
            let count = resources.processes;
            let most = count.map_or_else(|| "it may".to_owned(), |count| count.to_string());
            let text = format!(
                "the run started more processes and threads than {most}; raise limits.processes of the project"
            );
            Stopped::failed(ReasonCode::TooManyProcesses, text)
        }
    }
}

/// A look now and then at what a run uses.
pub(crate) struct Watch<'a> {
    limits: &'a LimitSettings,
    folders: [PathBuf; 3],
    /// When the disk is looked at again.
    next: Instant,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(workspace: &Workspace, limits: &'a LimitSettings) -> Self {
        Self { limits, folders: workspace.folders(), next: Instant::now() + DISK_BEAT }
    }

    /// To be called every [`BEAT`]: why the run ends, if it does.
    pub(crate) async fn look(&mut self, exhausted: Option<Exhausted>) -> Option<Stopped> {
        if let Some(exhausted) = exhausted {
            return Some(reached(exhausted, self.limits));
        }
        if Instant::now() < self.next {
            return None;
        }
        let begun = Instant::now();
        let stopped = disk(self.folders.clone(), self.limits.disk_bytes()).await;
        self.next = Instant::now() + DISK_BEAT.max(begun.elapsed() * DISK_PART);
        stopped
    }
}

/// Comes back when a program has used up what its run may; never else.
pub(crate) async fn watch(process: &dyn Process, workspace: &Workspace, limits: &LimitSettings) -> Stopped {
    let mut watch = Watch::new(workspace, limits);
    loop {
        tokio::time::sleep(BEAT).await;
        if let Some(stopped) = watch.look(process.exhausted()).await {
            return stopped;
        }
    }
}

/// Whether folders have more on the disk than they may.
pub(crate) async fn disk(folders: [PathBuf; 3], most: u64) -> Option<Stopped> {
    let counted = tokio::task::spawn_blocking(move || used(&folders, most)).await.map_err(std::io::Error::other);
    match counted.flatten() {
        Ok(Used::All(_)) => None,
        Ok(Used::MoreThan(most)) => {
            let text = format!(
                "workspace and home of the job have more than {most} bytes; raise limits.diskBytes of the project"
            );
            Some(Stopped::failed(ReasonCode::DiskLimit, text))
        }
        Ok(Used::TooDeep) => {
            let text = "folders are nested so deeply that what is in them cannot be counted; remove them";
            Some(Stopped::failed(ReasonCode::DiskLimit, text))
        }
        // A limit that cannot be kept is not one.
        Err(error) => {
            let text = format!("what the job has on the disk could not be counted: {error}");
            Some(Stopped::may_pass(ReasonCode::Internal, text))
        }
    }
}
