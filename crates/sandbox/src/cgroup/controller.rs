//! The controllers of control groups.

/// A controller of control groups that sandboxes use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Controller {
    Memory,
    Processes,
    Cpu,
    /// Freezes and thaws the processes, and limits nothing.
    Freezer,
}

impl Controller {
    /// Returns the name of the controller in the files of the kernel.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Processes => "pids",
            Self::Cpu => "cpu",
            Self::Freezer => "freezer",
        }
    }
}
