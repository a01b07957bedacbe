//! Control groups: how much the processes of a sandbox may use together, whoever of them uses it, and whether they came
//! up against it. Both versions of the kernel's interface, 1 with a hierarchy for each controller and 2 with one for all
//! (cgroups(7)).

mod version;

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use journeyman_core::ports::{Exhausted, Resources};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

use version::{Version, make_dir, parent_of};

/// What can be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Controller {
    Memory,
    Processes,
    Cpu,
}

/// The folder of a service's groups begins so.
const PREFIX: &str = "journeyman-";

/// How often a folder is made that others take away, and the time between: the kernel takes a while to remove a group.
const ATTEMPTS: usize = 50;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(10);

/// The groups of a service, one for each sandbox that there is at a time.
///
/// They are used again and again: a group that is removed lives on in the kernel as long as a file that was read in it is
/// cached, and thousands of such make a machine slow.
#[derive(Debug, Clone)]
pub(crate) struct Cgroups(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    places: Vec<Place>,
    /// Held as long as the service lives, so that another knows whose groups are nobody's.
    _lock: Option<File>,
    slots: Mutex<Slots>,
}

/// Numbers of groups.
#[derive(Debug, Default)]
struct Slots {
    free: Vec<usize>,
    made: usize,
}

/// A folder in which a controller has groups, or a group.
#[derive(Debug, Clone)]
struct Place {
    controller: Controller,
    version: Version,
    folder: PathBuf,
}

impl Place {
    /// Makes the folder and locks it, again where somebody who looks for groups that are nobody's removes it in between;
    /// `None` if that cannot be done.
    fn make_and_lock(&self) -> Option<File> {
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                std::thread::sleep(ATTEMPT_PAUSE);
            }
            match self.version.make(&self.folder, self.controller) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                made => made.ok()?,
            }
            let lock = lock(&self.folder).and_then(|lock| Some((lock.metadata().ok()?.ino(), lock)));
            if let Some((ours, lock)) = lock
                && self.folder.metadata().is_ok_and(|there| there.ino() == ours)
            {
                return Some(lock);
            }
        }
        None
    }
}

impl Cgroups {
    /// Finds out which controllers this process may use, and removes what services have left behind that are dead; `name`
    /// tells those that live apart.
    pub(crate) fn find(name: &str) -> Self {
        let (mut places, mut held) = (Vec::new(), None);
        // All before the first is made: that may move this process.
        let controllers = [Controller::Memory, Controller::Processes, Controller::Cpu];
        for (controller, parent) in controllers.map(|controller| (controller, parent_of(controller))) {
            let Some((version, parent)) = parent else { continue };
            let folder = parent.join(format!("{PREFIX}{name}"));
            let place = Place { controller, version, folder };
            let is_made = match &held {
                Some(_) => version.make(&place.folder, controller).is_ok(),
                None => {
                    held = place.make_and_lock();
                    held.is_some()
                }
            };
            if is_made {
                places.push(place);
            }
        }
        sweep(&places);
        Self(Arc::new(Pool { places, _lock: held, slots: Mutex::default() }))
    }

    pub(crate) fn has(&self, controller: Controller) -> bool {
        self.0.places.iter().any(|place| place.controller == controller)
    }

    /// An empty group with limits.
    pub(crate) fn take(&self, resources: Resources) -> io::Result<Cgroup> {
        let slot = {
            let mut slots = self.0.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.free.pop().unwrap_or_else(|| {
                slots.made += 1;
                slots.made
            })
        };
        let pool = Arc::clone(&self.0);
        let mut group = Cgroup { pool, slot, places: Vec::new(), before: [0; 2], is_frozen: false };
        for place in &self.0.places {
            let folder = place.folder.join(slot.to_string());
            make_dir(&folder)?;
            place.version.limit(&folder, place.controller, resources)?;
            group.places.push(Place { folder, ..place.clone() });
        }
        group.before = group.refusals();
        Ok(group)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for place in &self.places {
            remove(&place.folder);
        }
    }
}

/// The group of one sandbox. Dropped, it is free for another, if nothing is left in it.
#[derive(Debug)]
pub(crate) struct Cgroup {
    pool: Arc<Pool>,
    slot: usize,
    places: Vec<Place>,
    /// What others that had it have come up against.
    before: [u64; 2],
    is_frozen: bool,
}

impl Cgroup {
    /// The files into which a process with one thread writes `0` to enter.
    ///
    /// It goes by itself because the kernel need not wait then for all processors: 0.1 ms and not 25 (version 1; "current"
    /// in `cgroup_procs_write_start`, kernel/cgroup/cgroup.c).
    pub(crate) fn doors(&self) -> io::Result<Vec<File>> {
        let open = |place: &Place| File::options().write(true).open(place.folder.join(place.version.door()));
        self.places.iter().map(open).collect()
    }

    /// Whether its processes can be frozen by it: groups of version 2 are their own freezers (since Linux 5.2), those of
    /// version 1 have none, and their processes stay in the freezer that they were started in.
    pub(crate) fn has_freezer(&self) -> bool {
        self.freezer().is_some()
    }

    /// Stops its processes where they are, until [`Cgroup::thaw`]. False if they could not be held.
    pub(crate) async fn freeze(&mut self) -> bool {
        let Some(folder) = self.freezer() else { return false };
        self.is_frozen = true;
        version::freeze(&folder).await
    }

    /// Lets them go on.
    pub(crate) fn thaw(&mut self) -> bool {
        let thawed = self.freezer().is_some_and(|folder| version::thaw(&folder).is_ok());
        self.is_frozen &= !thawed;
        thawed
    }

    fn freezer(&self) -> Option<PathBuf> {
        let place = self.places.iter().find(|place| place.version.has_freezer(&place.folder))?;
        Some(place.folder.clone())
    }

    /// The limit that its processes have come up against.
    pub(crate) fn exhausted(&self) -> Option<Exhausted> {
        let now = self.refusals();
        if now[0] > self.before[0] {
            Some(Exhausted::Memory)
        } else if now[1] > self.before[1] {
            Some(Exhausted::Processes)
        } else {
            None
        }
    }

    /// How often memory and processes were refused.
    fn refusals(&self) -> [u64; 2] {
        [Controller::Memory, Controller::Processes].map(|controller| {
            let place = self.places.iter().find(|place| place.controller == controller);
            place.and_then(|place| place.version.refusals(&place.folder, controller)).unwrap_or_default()
        })
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Whoever has it next must not be stopped by it.
        let is_usable = !self.is_frozen || self.thaw();
        let is_whole = is_usable && self.places.len() == self.pool.places.len();
        if is_whole && self.places.iter().all(|place| is_empty(&place.folder)) {
            self.pool.slots.lock().unwrap_or_else(PoisonError::into_inner).free.push(self.slot);
        }
    }
}

/// Locks a folder against those who look for groups that are nobody's.
fn lock(folder: &Path) -> Option<File> {
    let file = File::open(folder).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}

/// Removes groups of services that are dead, in all hierarchies; whose are, the lock in the first one tells.
fn sweep(places: &[Place]) {
    let Some(parent) = places.first().and_then(|place| place.folder.parent()) else { return };
    let others = parent.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    for other in others.filter(|path| path.is_dir()) {
        let Some(name) = other.file_name().filter(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes())) else {
            continue;
        };
        // Held until they are gone: a service that begins in this moment makes them again.
        if let Some(_lock) = lock(&other) {
            places.iter().filter_map(|place| place.folder.parent()).for_each(|parent| remove(&parent.join(name)));
        }
    }
}

/// Kills what is left in the groups of a service and removes them. Those whose processes still end are removed at the next
/// start.
fn remove(folder: &Path) {
    for group in folder.read_dir().into_iter().flatten().flatten().filter(|group| group.path().is_dir()) {
        for pid in members(&group.path()) {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = std::fs::remove_dir(group.path());
    }
    let _ = std::fs::remove_dir(folder);
}

fn is_empty(group: &Path) -> bool {
    std::fs::read_to_string(group.join("cgroup.procs")).is_ok_and(|text| text.is_empty())
}

fn members(group: &Path) -> Vec<Pid> {
    let text = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect()
}
