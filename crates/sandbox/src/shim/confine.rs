//! Drops rights of the shim, and so of every program that it starts.

use std::io;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, Scope,
};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};

use super::syscalls;
use super::wire::Plan;

/// The maximum number of descriptors that a process may have open.
const DESCRIPTORS: u64 = 65_536;

/// The adjustment of the out-of-memory score: if the whole machine runs out of memory, the processes of sandboxes are
/// killed first (proc_pid_oom_score_adj(5)).
const OOM_SCORE_ADJ: &str = "500";

/// An error from dropping rights.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConfineError {
    #[error("a limit could not be set: {0}")]
    Limit(#[from] rustix::io::Errno),
    #[error("the out-of-memory score could not be set: {0}")]
    Mark(#[from] io::Error),
    #[error("Landlock: {0}")]
    Landlock(#[from] RulesetError),
    #[error("seccomp: {0}")]
    Seccomp(#[from] syscalls::FilterError),
}

/// Drops the rights for good.
pub(super) fn apply(plan: &Plan) -> Result<(), ConfineError> {
    match std::fs::write("/proc/self/oom_score_adj", OOM_SCORE_ADJ) {
        // The service may have a higher score already, which an ordinary user cannot lower.
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(error.into()),
        _ => {}
    }
    // Programs in the sandbox have the shim's user. They must not trace the shim or read its memory.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    limit(Resource::Core, 0)?;
    limit(Resource::Nofile, DESCRIPTORS)?;
    if let Some(processes) = plan.processes {
        limit(Resource::Nproc, processes.into())?;
    }
    if let Some(bytes) = plan.file_bytes {
        limit(Resource::Fsize, bytes)?;
    }
    restrict_files(&plan.writable)?;
    Ok(syscalls::apply(plan.may_allocate)?)
}

/// Sets a limit, or keeps a limit that is already lower.
fn limit(resource: Resource, most: u64) -> Result<(), rustix::io::Errno> {
    let now = getrlimit(resource).maximum.map_or(most, |now| now.min(most));
    setrlimit(resource, Rlimit { current: Some(now), maximum: Some(now) })
}

/// Restricts access to files with Landlock, in addition to the mounts: programs may read and run everything, and write
/// only to a few folders. A kernel without Landlock does not restrict anything here.
fn restrict_files(writable: &[PathBuf]) -> Result<(), RulesetError> {
    let abi = ABI::V6;
    let read = AccessFs::from_read(abi);
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?
        .create()?;
    let mut rules = match PathFd::new("/") {
        Ok(root) => rules.add_rule(PathBeneath::new(root, read))?,
        Err(_) => rules,
    };
    let usual = ["/dev", "/proc", "/tmp"].map(PathBuf::from);
    for path in usual.iter().chain(writable) {
        if let Ok(folder) = PathFd::new(path) {
            rules = rules.add_rule(PathBeneath::new(folder, AccessFs::from_all(abi)))?;
        }
    }
    rules.restrict_self()?;
    Ok(())
}
