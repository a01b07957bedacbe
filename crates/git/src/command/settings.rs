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

/// Replaces a file as a whole, because another process may be reading or running it. A file that has this text already
/// stays, so that a service can start on a full disk.
pub(super) fn replace(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let has_mode = std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o7777 == mode);
    if has_mode && std::fs::read(path).is_ok_and(|found| found == text.as_bytes()) {
        return Ok(());
    }
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    std::fs::write(&draft, text)?;
    std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(mode))?;
    std::fs::rename(draft, path)
}
