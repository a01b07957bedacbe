//! The limits of a run other than time, and the end of a run that exceeds one.

use std::time::{Duration, Instant};

use journeyman_core::ports::{Exhausted, Process};
use journeyman_core::project::LimitSettings;
use journeyman_core::run::ReasonCode;
use journeyman_core::worker::FreeSpace;

use crate::error::RunError;
use crate::sandbox::disk_limit::{Counted, Disk};
use crate::sandbox::job_sandbox::JobSandbox;
use crate::workspace::free_space::Growth;

/// The interval at which memory and processes are checked.
const INTERVAL: Duration = Duration::from_millis(250);

/// The minimum interval at which the free space of the disk is checked.
const MIN_INTERVAL: Duration = Duration::from_millis(20);

/// The rate of writing, in bytes per millisecond, that the intervals are made for: 4 GB/s into the page cache. With this
/// rate, a run reaches its limit no earlier than at the next check.
const WRITTEN_PER_MILLISECOND: u64 = 4_000_000;

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
    /// The bytes that the run may still use, as of the last check: 0 before the first one.
    left: u64,
    /// The time of the next check of memory and processes.
    next_usual: Instant,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(sandbox: &JobSandbox, limits: &'a LimitSettings) -> Self {
        let now = Instant::now();
        let (disk, growth) = (Disk::of(sandbox, limits), sandbox.space.enter());
        // The first count is made immediately, because growth is measured from it.
        Self { limits, disk, growth, next: now, soonest: now, first: None, last: None, left: 0, next_usual: now }
    }

    /// Returns the time until the next check: shorter, if less space is left for the run. The first check is due
    /// immediately.
    pub(crate) fn pause(&self) -> Duration {
        if self.first.is_none() {
            return Duration::ZERO;
        }
        Duration::from_millis(self.left / WRITTEN_PER_MILLISECOND).clamp(MIN_INTERVAL, INTERVAL)
    }

    /// Returns the error if the run must end. Call this after every [`Self::pause`].
    pub(crate) async fn check(&mut self, process: &dyn Process) -> Option<RunError> {
        let (now, free) = (Instant::now(), self.growth.free());
        if now >= self.next_usual {
            self.next_usual = now + INTERVAL;
            if let Some(exhausted) = process.exhausted() {
                return Some(reached(exhausted, self.limits));
            }
        }
        let counted = match self.disk.by_kernel().await {
            Some(counted) => Some(counted),
            None if now >= self.next || now >= self.soonest && free.is_some_and(|free| self.has_reason(free)) => {
                let counted = self.disk.count(Some(process)).await;
                let took = now.elapsed();
                self.next = Instant::now() + DISK_INTERVAL.max(took * DISK_PART);
                self.soonest = Instant::now() + MIN_INTERVAL.max(took * HURRIED_PART);
                Some(counted)
            }
            None => None,
        };
        match counted {
            Some(Counted::Bytes(bytes)) => self.note(bytes),
            Some(Counted::Exceeded(error)) => return Some(error),
            None => {}
        }
        self.left = self.left_after(free);
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

    /// Returns the bytes that the run may still use, if it has written everything by which the free space has fallen
    /// since the last count; the maximum if the file system does not report its free space.
    fn left_after(&self, free: Option<FreeSpace>) -> u64 {
        let Some((bytes, before)) = self.last else { return u64::MAX };
        let fallen = before.saturating_sub(free.map_or(before, |free| free.free_bytes));
        self.limits.disk_bytes().saturating_sub(bytes).saturating_sub(fallen)
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
        tokio::time::sleep(watch.pause()).await;
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
            left: 0,
            next_usual: now,
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
    async fn the_disk_is_checked_more_often_the_less_a_run_may_still_use() {
        const LIMIT: u64 = 10 << 30;
        let root = tempfile::tempdir().expect("a folder");
        let limits = LimitSettings { disk_bytes: Some(LIMIT), ..LimitSettings::default() };
        let (now, growth) = (Instant::now(), Space::new(root.path().to_owned(), Some(0)).enter());
        let disk = disk(&root, None, LIMIT);
        let (first, last, left) = (None, None, 0);
        let mut watch =
            Watch { limits: &limits, disk, growth, next: now, soonest: now, first, last, left, next_usual: now };
        assert_eq!(watch.pause(), Duration::ZERO, "the first count is made before the program can have written much");
        assert!(watch.check(&Holding(0)).await.is_none());
        assert_eq!(watch.pause(), INTERVAL, "nothing was used yet");
        let free = |free_bytes| Some(FreeSpace { free_bytes, reserve_bytes: 0 });
        watch.last = Some((LIMIT - 1_000_000_000, 50_000_000_000));
        for (free, left, pause) in [
            (free(50_000_000_000), 1_000_000_000, INTERVAL),
            (free(60_000_000_000), 1_000_000_000, INTERVAL),
            (free(49_600_000_000), 600_000_000, Duration::from_millis(150)),
            (free(49_000_000_001), 1, MIN_INTERVAL),
            (free(48_000_000_000), 0, MIN_INTERVAL),
            (None, 1_000_000_000, INTERVAL),
        ] {
            watch.left = watch.left_after(free);
            assert_eq!((watch.left, watch.pause()), (left, pause), "{free:?}");
        }
        watch.last = None;
        watch.left = watch.left_after(None);
        assert_eq!(watch.pause(), INTERVAL, "the file system does not report its free space");
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
            let (first, last, left) = (None, None, 0);
            let mut watch =
                Watch { limits: &limits, disk, growth, next: now, soonest: later, first, last, left, next_usual: now };
            let error = watch.check(&Holding(0)).await;
            assert_eq!(error.is_some(), ends, "{used}");
            let Some(error) = error else { continue };
            assert_eq!(code(&error), ReasonCode::DiskLimit);
            let text = error.to_string();
            assert!(text.contains(&used.to_string()) && text.contains("limits.diskBytes"), "{text}");
        }
    }
}
