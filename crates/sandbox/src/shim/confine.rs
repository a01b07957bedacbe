//! What the shim takes away from itself, and so from everything that it starts.

use std::io;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, Scope,
};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};

use super::syscalls;
use super::wire::Plan;

/// Descriptors that a process may have open.
const DESCRIPTORS: u64 = 65_536;

/// When memory runs out on the whole machine, what runs in sandboxes goes first (proc_pid_oom_score_adj(5)).
const FIRST_TO_GO: &str = "500";

/// Why that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConfineError {
    #[error("a limit could not be set: {0}")]
    Limit(#[from] rustix::io::Errno),
    #[error("its processes could not be marked: {0}")]
    Mark(#[from] io::Error),
    #[error("Landlock: {0}")]
    Landlock(#[from] RulesetError),
    #[error("seccomp: {0}")]
    Seccomp(#[from] syscalls::FilterError),
}

/// Takes it away for good.
pub(super) fn apply(plan: &Plan) -> Result<(), ConfineError> {
    match std::fs::write("/proc/self/oom_score_adj", FIRST_TO_GO) {
        // A machine's limit for its own services may be higher already.
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(error.into()),
        _ => {}
    }
    // Programs here have the shim's user: they must not trace it, nor read its memory.
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
    Ok(syscalls::apply()?)
}

/// Sets a limit, or leaves what is lower already.
fn limit(resource: Resource, most: u64) -> Result<(), rustix::io::Errno> {
    let now = getrlimit(resource).maximum.map_or(most, |now| now.min(most));
    setrlimit(resource, Rlimit { current: Some(now), maximum: Some(now) })
}

/// What the mounts say, once more by another part of the kernel: everything may be read and run, little be written. A
/// kernel without Landlock goes without.
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
