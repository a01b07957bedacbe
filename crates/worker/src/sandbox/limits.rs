//! What a run may use beside time: how it ends when it has used it up.

use std::time::{Duration, Instant};

use journeyman_core::ports::{Exhausted, FreeSpace, Process};
use journeyman_core::project::LimitSettings;
use journeyman_core::run::ReasonCode;

use crate::disk_limit::{Counted, Disk};
use crate::failure::Stopped;
use crate::room::Room;
use crate::space::Growth;

/// How often memory and processes are looked at.
pub(crate) const BEAT: Duration = Duration::from_millis(250);

/// How often the disk is, at most.
const DISK_BEAT: Duration = Duration::from_secs(2);

/// The disk is looked at for one part in so many of the time.
const DISK_PART: u32 = 20;

/// The same divisor while the disk fills quickly or is nearly full.
const HURRIED_PART: u32 = 4;

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
    disk: Disk,
    growth: Growth,
    /// When the disk is looked at again.
    next: Instant,
    /// The earliest time of the next count if there is a reason to count early.
    soonest: Instant,
    /// The bytes that the first count found.
    first: Option<u64>,
    /// The bytes that the last count found, and the free bytes at that time.
    last: Option<(u64, u64)>,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(room: &Room, limits: &'a LimitSettings) -> Self {
        let now = Instant::now();
        let (disk, growth) = (Disk::of(room, limits), room.space.enter());
        // The first count is made immediately, because growth is measured from it.
        Self { limits, disk, growth, next: now, soonest: now, first: None, last: None }
    }

    /// To be called every [`BEAT`]: why the run ends, if it does.
    pub(crate) async fn look(&mut self, process: &dyn Process) -> Option<Stopped> {
        if let Some(exhausted) = process.exhausted() {
            return Some(reached(exhausted, self.limits));
        }
        let (now, free) = (Instant::now(), self.growth.free());
        let counted = match self.disk.by_kernel().await {
            Some(counted) => Some(counted),
            None if now >= self.next || now >= self.soonest && free.is_some_and(|free| self.has_reason(free)) => {
                let counted = self.disk.count(Some(process)).await;
                let took = now.elapsed();
                self.next = Instant::now() + DISK_BEAT.max(took * DISK_PART);
                self.soonest = Instant::now() + BEAT.max(took * HURRIED_PART);
                Some(counted)
            }
            None => None,
        };
        match counted {
            Some(Counted::Bytes(bytes)) => self.note(bytes),
            Some(Counted::Stopped(stopped)) => return Some(stopped),
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

/// Comes back when a program has used up what its run may; never else.
pub(crate) async fn watch(process: &dyn Process, room: &Room, limits: &LimitSettings) -> Stopped {
    let mut watch = Watch::new(room, limits);
    loop {
        tokio::time::sleep(BEAT).await;
        if let Some(stopped) = watch.look(process).await {
            return stopped;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk_limit::tests::{Holding, code, disk};
    use crate::space::Space;

    #[tokio::test]
    async fn a_disk_that_fills_quickly_is_looked_at_before_it_is_time() {
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
        assert!(!watch.has_reason(free(990, 0)), "it may still use as much");
        assert!(watch.has_reason(free(989, 0)), "it may have used more than it may");
        assert!(watch.has_reason(free(990, 991)), "there is little left");
        std::fs::write(root.path().join("tree/x"), "more than 100 bytes, as each entry counts").expect("a file");
        watch.last = Some((0, u64::MAX));
        assert!(watch.look(&Holding(0)).await.is_some(), "it was looked at");
        watch.last = Some((0, 0));
        watch.soonest = Instant::now();
        assert!(watch.look(&Holding(0)).await.is_none(), "nothing is lost since, and it is not time");
    }

    #[tokio::test]
    async fn what_the_kernel_counts_ends_a_run_at_any_look_and_nothing_is_looked_through() {
        let root = tempfile::tempdir().expect("a folder");
        let limits = LimitSettings { disk_bytes: Some(100), ..LimitSettings::default() };
        for (used, ends) in [(99, false), (100, true), (105, true)] {
            let growth = Space::new(root.path().to_owned(), Some(0)).enter();
            let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(3600));
            let disk = disk(&root, Some(used), 100);
            // More than 100 bytes, if the folders were counted.
            std::fs::write(root.path().join("tree/x"), "x").expect("a file");
            let mut watch = Watch { limits: &limits, disk, growth, next: now, soonest: later, first: None, last: None };
            let stopped = watch.look(&Holding(0)).await;
            assert_eq!(stopped.is_some(), ends, "{used}");
            let Some(stopped) = stopped else { continue };
            assert_eq!(code(&stopped), ReasonCode::DiskLimit);
            let text = stopped.to_string();
            assert!(text.contains(&used.to_string()) && text.contains("limits.diskBytes"), "{text}");
        }
    }
}
