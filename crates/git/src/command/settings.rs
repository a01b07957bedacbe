//! Writes the files that git reads or runs.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes a program that git runs. Replaces the file as a whole, because another process may be running it.
///
/// # Errors
/// The file cannot be written.
pub fn write_program(path: &Path, text: &str) -> io::Result<()> {
    replace(path, text, 0o700)
}

/// Replaces a file as a whole, because another process may be reading or running it.
pub(super) fn replace(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    std::fs::write(&draft, text)?;
    std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(mode))?;
    std::fs::rename(draft, path)
}
