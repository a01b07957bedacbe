//! The limits of the resources of a sandbox.

/// The resource limits of a program and everything that it starts, together; `None` means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resources {
    /// The memory in bytes, including files in memory.
    pub memory_bytes: Option<u64>,
    /// The number of processes and threads.
    pub processes: Option<u32>,
    /// The processor time in thousandths of one processor. A program that needs more is delayed.
    pub cpu_millis: Option<u32>,
    /// The size in bytes of each file that the program writes.
    pub file_bytes: Option<u64>,
    /// The size in bytes of all files on the disk that the program's user owns, if the back end lets the kernel enforce
    /// it. The kernel's limit is slightly higher.
    pub disk_bytes: Option<u64>,
}
