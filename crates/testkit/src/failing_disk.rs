//! A disk that fails when told to.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A library that makes each fsync of a write-ahead log (a file whose name ends in `-wal`) fail with an I/O error as long as
/// a file exists. What was written stays readable, as it does on a disk whose pages the kernel could not write.
#[derive(Debug)]
pub struct FailingDisk {
    library: PathBuf,
    control: PathBuf,
}

impl FailingDisk {
    /// Builds the library in a folder.
    ///
    /// # Panics
    /// There is no C compiler.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        let (source, library) = (folder.join("failing_disk.c"), folder.join("failing_disk.so"));
        std::fs::write(&source, include_str!("failing_disk.c")).expect("the folder can be written");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
        assert!(compiler.status().is_ok_and(|status| status.success()), "the library was not built: {compiler:?}");
        Self { library, control: folder.join("failing_disk.on") }
    }

    /// The environment of a program that is to meet this disk.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, &Path); 2] {
        [("LD_PRELOAD", &self.library), ("FAIL_SYNC", &self.control)]
    }

    /// Begins to fail.
    ///
    /// # Panics
    /// The folder cannot be written.
    pub fn fail(&self) {
        std::fs::write(&self.control, "").expect("the folder can be written");
    }

    /// Works again.
    ///
    /// # Panics
    /// It did not fail.
    pub fn work(&self) {
        std::fs::remove_file(&self.control).expect("it fails");
    }
}
