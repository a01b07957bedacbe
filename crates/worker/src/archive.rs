//! The agent's home between turns: a compressed archive beside the workspaces, so that a session goes on after its
//! workspace is gone, and goes back to where it was when a turn is repeated.

use std::fs::File;
use std::io;
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

/// Writes `home` to `archive`, whole or not at all.
pub(crate) fn save(home: &Path, archive: &Path) -> io::Result<()> {
    let partial = archive.with_extension("partial");
    let mut builder = tar::Builder::new(GzEncoder::new(File::create(&partial)?, Compression::fast()));
    // A link that the agent planted is stored as a link, and what it points to is not.
    builder.follow_symlinks(false);
    builder.append_dir_all(".", home)?;
    builder.into_inner()?.finish()?.sync_all()?;
    std::fs::rename(&partial, archive)
}

/// Makes `home` what `archive` says; empty if there is none.
pub(crate) fn restore(home: &Path, archive: &Path) -> io::Result<()> {
    if home.exists() {
        std::fs::remove_dir_all(home)?;
    }
    std::fs::create_dir_all(home)?;
    match File::open(archive) {
        // `unpack` refuses entries that would leave the folder.
        Ok(file) => tar::Archive::new(GzDecoder::new(file)).unpack(home),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
