//! Sandboxes in which agents run. [`Bubblewrap`] and [`Container`] isolate programs from the host; [`NoSandbox`] does
//! not.

mod bubblewrap;
mod cgroup;
mod container;
mod first;
mod inspect;
mod none;
mod open_files;
mod probe;
mod processor_time;
mod quota;
mod search;
mod settings;
mod shim;
mod tree;
mod users;

pub use bubblewrap::{Bubblewrap, BubblewrapSettings};
pub use cgroup::can_limit;
pub use container::{Container, ContainerSettings};
pub use none::NoSandbox;
pub use settings::CommonSettings;
pub use shim::run_if_asked;
pub use users::UserRange;

/// The names of all guarantees that a sandbox can give.
pub const GUARANTEES: [&str; 10] = [
    "files",
    "network",
    "environment",
    "lifetime",
    "privileges",
    "system-calls",
    "memory",
    "process-count",
    "cpu",
    "disk",
];

/// The note about a disk limit that the kernel does not enforce.
pub(crate) const DISK_NOTE: &str = "counted, not enforced by the kernel: a fast writer can briefly exceed \
                                    limits.diskBytes; runs are stopped when free disk space drops below disk-reserve";
