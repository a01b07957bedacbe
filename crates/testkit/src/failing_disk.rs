//! A disk that fails on request.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A library for `LD_PRELOAD` that makes each fsync of a write-ahead log (a file whose name ends in `-wal`) fail with
/// an I/O error as long as a control file exists. Written data stays readable, as on a disk whose pages the kernel
/// could not write.
#[derive(Debug)]
pub struct FailingDisk {
    library: PathBuf,
    control: PathBuf,
}

impl FailingDisk {
    /// Builds the library in a folder.
    ///
    /// # Panics
    /// No C compiler is installed.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        let (source, library) = (folder.join("failing_disk.c"), folder.join("failing_disk.so"));
        std::fs::write(&source, include_str!("failing_disk.c")).expect("the folder can be written");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
        assert!(compiler.status().is_ok_and(|status| status.success()), "the library was not built: {compiler:?}");
        Self { library, control: folder.join("failing_disk.on") }
    }

    /// Returns the environment variables that make a program use this disk.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, &Path); 2] {
        [("LD_PRELOAD", &self.library), ("FAIL_SYNC", &self.control)]
    }

    /// Makes the disk fail from now on.
    ///
    /// # Panics
    /// The folder is not writable.
    pub fn fail(&self) {
        std::fs::write(&self.control, "").expect("the folder can be written");
    }

    /// Makes the disk work again.
    ///
    /// # Panics
    /// The disk was not failing.
    pub fn work(&self) {
        std::fs::remove_file(&self.control).expect("the disk is failing");
    }
}
