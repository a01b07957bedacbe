//! What a run may use beside time: how it ends when it has used it up.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use journeyman_core::ports::{Exhausted, Process};
use journeyman_core::project::LimitSettings;
use journeyman_core::run::ReasonCode;

use crate::failure::Stopped;
use crate::survey::survey;
use crate::workspace::Workspace;

/// How often memory and processes are looked at.
const BEAT: Duration = Duration::from_millis(250);

/// How often the disk is, at most.
const DISK_BEAT: Duration = Duration::from_secs(2);

/// The disk is looked at for one part in so many of the time.
const DISK_PART: u32 = 20;

/// Why a run ends that came up against a limit; `limits` are those of its project, if that is what limited it.
pub(crate) fn reached(exhausted: Exhausted, limits: Option<&LimitSettings>) -> Stopped {
    let resources = limits.map(LimitSettings::resources);
    match exhausted {
        Exhausted::Memory => {
            let bytes = resources.and_then(|resources| resources.memory_bytes);
            let most = bytes.map_or_else(|| "it may".to_owned(), |bytes| format!("{bytes} bytes"));
            let text = format!(
                "the run needed more memory than {most}, and one of its processes was killed for it; raise \
                 limits.memoryBytes of the project"
            );
            Stopped::failed(ReasonCode::OutOfMemory, text)
        }
        Exhausted::Processes => {
            let count = resources.and_then(|resources| resources.processes);
            let most = count.map_or_else(|| "it may".to_owned(), |count| count.to_string());
            let text = format!(
                "the run started more processes and threads than {most}; raise limits.processes of the project"
            );
            Stopped::failed(ReasonCode::TooManyProcesses, text)
        }
    }
}

/// Comes back when a program has used up what its run may; never else.
pub(crate) async fn watch(process: &dyn Process, workspace: &Workspace, limits: &LimitSettings) -> Stopped {
    let most = limits.disk_bytes();
    let (mut next, folders) = (Instant::now() + DISK_BEAT, workspace.folders());
    loop {
        tokio::time::sleep(BEAT).await;
        if let Some(exhausted) = process.exhausted() {
            return reached(exhausted, Some(limits));
        }
        if Instant::now() < next {
            continue;
        }
        let begun = Instant::now();
        if let Some(stopped) = disk(folders.clone(), most).await {
            return stopped;
        }
        next = Instant::now() + DISK_BEAT.max(begun.elapsed() * DISK_PART);
    }
}

/// Whether folders have more on the disk than they may.
pub(crate) async fn disk(folders: [PathBuf; 3], most: u64) -> Option<Stopped> {
    let used = tokio::task::spawn_blocking(move || {
        folders.iter().map(|folder| survey(folder, u64::MAX).map_or(0, |seen| seen.bytes)).sum::<u64>()
    });
    let used = used.await.unwrap_or_default();
    (used > most).then(|| {
        let text = format!(
            "workspace and home of the job have {used} bytes and the most is {most}; raise limits.diskBytes of the \
             project"
        );
        Stopped::failed(ReasonCode::DiskLimit, text)
    })
}
