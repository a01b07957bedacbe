//! The free space of the disk with the workspaces. While it is below a reserve, no run is claimed, and runs are
//! stopped, beginning with the run that has grown most, so that the service itself never encounters a full disk.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use journeyman_core::run::ReasonCode;
use journeyman_core::worker::FreeSpace;
use rustix::fs::statvfs;

use crate::error::RunError;

/// The divisor of the disk's size for the default reserve.
const RESERVE_PART: u64 = 20;

/// The maximum of the default reserve in bytes.
const RESERVE_MOST: u64 = 4 << 30;

/// The time to wait for the removal of a stopped run's files before another run is stopped.
const RELIEF: Duration = Duration::from_secs(5);

/// The disk of the data directory, and the runs that write to it.
pub(crate) struct Space {
    folder: PathBuf,
    /// Bytes to keep free; `None`: a fraction of the disk.
    reserve: Option<u64>,
    runs: Mutex<Runs>,
}

#[derive(Default)]
struct Runs {
    /// The growth of each run in bytes.
    grown: BTreeMap<u64, u64>,
    count: u64,
    /// The time at which a run was last stopped.
    stopped: Option<Instant>,
}

impl Space {
    pub(crate) fn new(folder: PathBuf, reserve: Option<u64>) -> Arc<Self> {
        Arc::new(Self { folder, reserve, runs: Mutex::default() })
    }

    /// Returns the current free space; `None` if the file system does not report it.
    pub(crate) fn free(&self) -> Option<FreeSpace> {
        let disk = statvfs(&self.folder).ok()?;
        let total = disk.f_blocks.saturating_mul(disk.f_frsize);
        let reserve_bytes = self.reserve.unwrap_or_else(|| (total / RESERVE_PART).min(RESERVE_MOST));
        Some(FreeSpace { free_bytes: disk.f_bavail.saturating_mul(disk.f_frsize), reserve_bytes })
    }

    /// Adds a run to those that may be stopped, until the returned value is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> Growth {
        let mut runs = self.runs();
        runs.count += 1;
        let number = runs.count;
        runs.grown.insert(number, 0);
        Growth { space: Arc::clone(self), number }
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The growth of one run since it began.
pub(crate) struct Growth {
    space: Arc<Space>,
    number: u64,
}

impl Growth {
    pub(crate) fn free(&self) -> Option<FreeSpace> {
        self.space.free()
    }

    pub(crate) fn set(&self, bytes: u64) {
        self.space.runs().grown.insert(self.number, bytes);
    }

    /// Returns the reason if this run must stop at `now`: no other run has grown more, and no run was stopped just
    /// before.
    pub(crate) fn stop(&self, free: FreeSpace, now: Instant) -> Option<RunError> {
        let mut runs = self.space.runs();
        let most = runs.grown.iter().max_by_key(|(number, bytes)| (**bytes, **number)).map(|(number, _)| *number);
        let is_relieved = runs.stopped.is_none_or(|stopped| now.duration_since(stopped) >= RELIEF);
        if free.is_enough() || most != Some(self.number) || !is_relieved {
            return None;
        }
        runs.stopped = Some(now);
        let text = format!(
            "the worker's disk has {} bytes left, but {} must stay free (disk-reserve), so the run whose disk usage \
             had grown most was stopped; free space in the data directory, or lower limits.diskBytes of the project",
            free.free_bytes, free.reserve_bytes
        );
        Some(RunError::may_pass(ReasonCode::DiskFull, text))
    }
}

impl Drop for Growth {
    fn drop(&mut self) {
        self.space.runs().grown.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: FreeSpace = FreeSpace { free_bytes: 1, reserve_bytes: 2 };

    #[test]
    fn the_run_that_has_grown_most_is_stopped_and_others_only_if_that_is_not_enough() {
        let space = Space::new("/".into(), None);
        let (small, large) = (space.enter(), space.enter());
        let now = Instant::now();
        small.set(10);
        large.set(1000);
        assert!(large.stop(FreeSpace { free_bytes: 2, reserve_bytes: 2 }, now).is_none(), "there is enough");
        assert!(small.stop(LOW, now).is_none());
        let Some(RunError::Failed { reason, retry }) = large.stop(LOW, now) else { panic!("the run was not stopped") };
        assert_eq!((reason.code, retry), (ReasonCode::DiskFull, true));
        assert!(reason.text.contains("disk-reserve"), "{}", reason.text);
        drop(large);
        assert!(small.stop(LOW, now).is_none(), "the files of the other run are being removed");
        assert!(small.stop(LOW, now + RELIEF).is_some());
    }

    #[test]
    fn the_reserve_is_a_fraction_of_the_disk_or_the_configured_size() {
        let folder = tempfile::tempdir().expect("a folder");
        let free = |reserve| Space::new(folder.path().to_owned(), reserve).free().expect("a number");
        assert!(free(None).reserve_bytes > 0 && free(None).reserve_bytes <= RESERVE_MOST);
        assert_eq!(free(Some(7)).reserve_bytes, 7);
        assert!(!free(Some(u64::MAX)).is_enough() && free(Some(0)).is_enough());
        assert!(Space::new("/no/such/folder".into(), None).free().is_none());
    }
}
