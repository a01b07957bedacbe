//! The limits of a run other than time, and the end of a run that exceeds one.

use std::time::{Duration, Instant};

use journeyman_core::ports::{Exhausted, FreeSpace, Process};
use journeyman_core::project::LimitSettings;
use journeyman_core::run::ReasonCode;

use crate::error::RunError;
use crate::sandbox::disk_limit::{Counted, Disk};
use crate::sandbox::job_sandbox::JobSandbox;
use crate::workspace::free_space::Growth;

/// The interval at which memory and processes are checked.
pub(crate) const INTERVAL: Duration = Duration::from_millis(250);

/// The minimum interval at which the disk usage is counted.
const DISK_INTERVAL: Duration = Duration::from_secs(2);

/// Counting the disk usage takes at most this fraction (one part in 20) of the time.
const DISK_PART: u32 = 20;

/// The same divisor while the disk fills quickly or is nearly full.
const HURRIED_PART: u32 = 4;

/// Returns the error of a run that reached a limit of its project.
pub(crate) fn reached(exhausted: Exhausted, limits: &LimitSettings) -> RunError {
    let resources = limits.resources();
    match exhausted {
        Exhausted::Memory => {
            let bytes = resources.memory_bytes;
            let limit = bytes.map_or_else(String::new, |bytes| format!(" of {bytes} bytes"));
            let text = format!(
                "the run exceeded its memory limit{limit}, and one of its processes was killed; raise \
                 limits.memoryBytes of the project"
            );
            RunError::failed(ReasonCode::OutOfMemory, text)
        }
        Exhausted::Processes => {
            let count = resources.processes;
            let limit = count.map_or_else(String::new, |count| format!(" of {count}"));
            let text = format!(
                "the run exceeded its limit{limit} processes and threads; raise limits.processes of the project"
            );
            RunError::failed(ReasonCode::TooManyProcesses, text)
        }
    }
}

/// Checks the usage of a run at intervals.
pub(crate) struct Watch<'a> {
    limits: &'a LimitSettings,
    disk: Disk,
    growth: Growth,
    /// The time of the next count of the disk usage.
    next: Instant,
    /// The earliest time of the next count if there is a reason to count early.
    soonest: Instant,
    /// The bytes that the first count found.
    first: Option<u64>,
    /// The bytes that the last count found, and the free bytes at that time.
    last: Option<(u64, u64)>,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(sandbox: &JobSandbox, limits: &'a LimitSettings) -> Self {
        let now = Instant::now();
        let (disk, growth) = (Disk::of(sandbox, limits), sandbox.space.enter());
        // The first count is made immediately, because growth is measured from it.
        Self { limits, disk, growth, next: now, soonest: now, first: None, last: None }
    }

    /// Returns the error if the run must end. Call this every [`INTERVAL`].
    pub(crate) async fn check(&mut self, process: &dyn Process) -> Option<RunError> {
        if let Some(exhausted) = process.exhausted() {
            return Some(reached(exhausted, self.limits));
        }
        let (now, free) = (Instant::now(), self.growth.free());
        let counted = match self.disk.by_kernel().await {
            Some(counted) => Some(counted),
            None if now >= self.next || now >= self.soonest && free.is_some_and(|free| self.has_reason(free)) => {
                let counted = self.disk.count(Some(process)).await;
                let took = now.elapsed();
                self.next = Instant::now() + DISK_INTERVAL.max(took * DISK_PART);
                self.soonest = Instant::now() + INTERVAL.max(took * HURRIED_PART);
                Some(counted)
            }
            None => None,
        };
        match counted {
            Some(Counted::Bytes(bytes)) => self.note(bytes),
            Some(Counted::Exceeded(error)) => return Some(error),
            None => {}
        }
        self.growth.stop(free?, now)
    }

    /// Returns whether to count early: the disk has lost more free space than the run may still use, or has little
    /// left.
    fn has_reason(&self, free: FreeSpace) -> bool {
        let is_fast = self.last.is_some_and(|(bytes, before)| {
            before.saturating_sub(free.free_bytes) > self.limits.disk_bytes().saturating_sub(bytes)
        });
        is_fast || !free.is_enough()
    }

    fn note(&mut self, bytes: u64) {
        let first = *self.first.get_or_insert(bytes);
        self.growth.set(bytes.saturating_sub(first));
        self.last = self.growth.free().map(|free| (bytes, free.free_bytes));
    }
}

/// Waits until a program has exceeded a limit of its run; forever if it does not.
pub(crate) async fn watch(process: &dyn Process, sandbox: &JobSandbox, limits: &LimitSettings) -> RunError {
    let mut watch = Watch::new(sandbox, limits);
    loop {
        tokio::time::sleep(INTERVAL).await;
        if let Some(error) = watch.check(process).await {
            return error;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::disk_limit::tests::{Holding, code, disk};
    use crate::workspace::free_space::Space;

    #[tokio::test]
    async fn the_disk_is_counted_early_if_it_fills_quickly() {
        let root = tempfile::tempdir().expect("a folder");
        let limits = LimitSettings { disk_bytes: Some(100), ..LimitSettings::default() };
        let growth = Space::new(root.path().to_owned(), Some(0)).enter();
        let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(3600));
        let last = Some((90, 1000));
        let mut watch = Watch {
            limits: &limits,
            disk: disk(&root, None, 100),
            growth,
            next: later,
            soonest: now,
            first: None,
            last,
        };
        let free = |free_bytes, reserve_bytes| FreeSpace { free_bytes, reserve_bytes };
        assert!(!watch.has_reason(free(990, 0)), "the run may still use that much");
        assert!(watch.has_reason(free(989, 0)), "the run may have exceeded its limit");
        assert!(watch.has_reason(free(990, 991)), "the disk is nearly full");
        std::fs::write(root.path().join("tree/x"), "more than 100 bytes, as each entry counts").expect("a file");
        watch.last = Some((0, u64::MAX));
        assert!(watch.check(&Holding(0)).await.is_some(), "the folders were counted");
        watch.last = Some((0, 0));
        watch.soonest = Instant::now();
        assert!(
            watch.check(&Holding(0)).await.is_none(),
            "no space was lost since the last count, and the next is not due"
        );
    }

    #[tokio::test]
    async fn the_kernels_count_ends_a_run_without_walking_the_folders() {
        let root = tempfile::tempdir().expect("a folder");
        let limits = LimitSettings { disk_bytes: Some(100), ..LimitSettings::default() };
        for (used, ends) in [(99, false), (100, true), (105, true)] {
            let growth = Space::new(root.path().to_owned(), Some(0)).enter();
            let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(3600));
            let disk = disk(&root, Some(used), 100);
            // More than 100 bytes, if the folders were counted.
            std::fs::write(root.path().join("tree/x"), "x").expect("a file");
            let mut watch = Watch { limits: &limits, disk, growth, next: now, soonest: later, first: None, last: None };
            let error = watch.check(&Holding(0)).await;
            assert_eq!(error.is_some(), ends, "{used}");
            let Some(error) = error else { continue };
            assert_eq!(code(&error), ReasonCode::DiskLimit);
            let text = error.to_string();
            assert!(text.contains(&used.to_string()) && text.contains("limits.diskBytes"), "{text}");
        }
    }
}
