//! Control groups: how much the processes of a sandbox may use together, whoever of them uses it, and whether they came
//! up against it. Both versions of the kernel's interface, 1 with a hierarchy for each controller and 2 with one for all
//! (cgroups(7)).

mod version;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use journeyman_core::ports::{Exhausted, Resources};
use rustix::process::{Pid, Signal, kill_process};

use version::{Version, parent_of};

/// What can be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Controller {
    Memory,
    Processes,
    Cpu,
}

/// Where groups for sandboxes are made. A controller has a folder of its own (version 1) or one with the others.
#[derive(Debug)]
pub(crate) struct Cgroups {
    places: Vec<Place>,
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        for place in &self.places {
            // Another process of the same installation may have groups in it.
            let _ = std::fs::remove_dir(&place.folder);
        }
    }
}

/// A folder in which a controller has a group, or groups.
#[derive(Debug)]
struct Place {
    controller: Controller,
    version: Version,
    folder: PathBuf,
}

impl Cgroups {
    /// Finds out which controllers this process may use; `name` keeps the groups of services on one machine apart.
    pub(crate) fn find(name: &str) -> Self {
        let mut places = Vec::new();
        for controller in [Controller::Memory, Controller::Processes, Controller::Cpu] {
            let Some((version, parent)) = parent_of(controller) else { continue };
            let folder = parent.join(name);
            if version.make(&folder, controller).is_ok() {
                places.push(Place { controller, version, folder });
            }
        }
        Self { places }
    }

    pub(crate) fn has(&self, controller: Controller) -> bool {
        self.places.iter().any(|place| place.controller == controller)
    }

    /// Kills what an earlier service has left behind and removes its groups.
    pub(crate) fn sweep(&self) {
        for place in &self.places {
            let Ok(groups) = place.folder.read_dir() else { continue };
            for group in groups.flatten().filter(|group| group.path().is_dir()) {
                for pid in members(&group.path()) {
                    // It may have ended by itself.
                    let _ = kill_process(pid, Signal::KILL);
                }
                // One whose processes still end is removed at the next start.
                let _ = std::fs::remove_dir(group.path());
            }
        }
    }

    /// A group with limits.
    pub(crate) fn make(&self, name: &str, resources: Resources) -> io::Result<Cgroup> {
        let mut group = Cgroup { places: Vec::new() };
        for Place { controller, version, folder } in &self.places {
            let folder = folder.join(name);
            match std::fs::create_dir(&folder) {
                // With version 2 for the controller before.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made?,
            }
            group.places.push(Place { controller: *controller, version: *version, folder: folder.clone() });
            version.limit(&folder, *controller, resources)?;
        }
        Ok(group)
    }
}

/// The group of one sandbox. Dropped, it is removed, if nothing is left in it.
#[derive(Debug)]
pub(crate) struct Cgroup {
    places: Vec<Place>,
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

    /// The limit that its processes have come up against.
    pub(crate) fn exhausted(&self) -> Option<Exhausted> {
        let refused = |controller| {
            let place = self.places.iter().find(|place| place.controller == controller)?;
            place.version.refusals(&place.folder, controller)
        };
        if refused(Controller::Memory) > Some(0) {
            Some(Exhausted::Memory)
        } else if refused(Controller::Processes) > Some(0) {
            Some(Exhausted::Processes)
        } else {
            None
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for place in &self.places {
            // What is still in it is swept away at the next start.
            let _ = std::fs::remove_dir(&place.folder);
        }
    }
}

fn members(group: &Path) -> Vec<Pid> {
    let text = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect()
}
