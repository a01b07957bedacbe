//! Keeps the memory of this process, which contains keys and passwords, out of core dumps.

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Turns core dumps off, for this process and the programs that it starts.
///
/// The limit (`RLIMIT_CORE`) applies to files, and programs that are started keep it. A kernel whose
/// `/proc/sys/kernel/core_pattern` is a pipe ignores it; therefore the process also marks itself as not dumpable
/// (`PR_SET_DUMPABLE`). Other processes of the same user can then neither trace it nor read its memory. The mark ends
/// when the process starts another program, so it does not keep sandboxes from writing their user ID maps.
///
/// # Errors
/// The kernel refuses one of the calls, which it does for no process in the documented cases.
pub(crate) fn turn_off() -> Result<(), Errno> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
}
