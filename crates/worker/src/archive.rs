//! The agent's home between turns: a compressed archive in the blob store, so that a session goes on after its workspace,
//! or its machine, is gone, and goes back to where it was when a turn is repeated.
//!
//! Keys name the job and the lease that wrote them: what a worker writes whose lease was taken over is in nobody's way.

use std::fs::File;
use std::io;
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use journeyman_core::ids::JobId;
use journeyman_core::job::Token;

/// The folder of archives in the blob store; below it one for each job.
pub(crate) const SESSIONS: &str = "sessions";

/// Where the home is kept as the lease `token` left it.
pub(crate) fn key(job: JobId, token: Token) -> String {
    format!("{SESSIONS}/{job}/{}.tar.gz", token.0)
}

/// Writes `home` to `archive`.
pub(crate) fn save(home: &Path, archive: &Path) -> io::Result<()> {
    let mut builder = tar::Builder::new(GzEncoder::new(File::create(archive)?, Compression::fast()));
    // A link that the agent planted is stored as a link, and what it points to is not.
    builder.follow_symlinks(false);
    builder.append_dir_all(".", home)?;
    builder.into_inner()?.finish()?;
    Ok(())
}

/// Makes `home` what `archive` says; empty if there is none.
pub(crate) fn restore(home: &Path, archive: Option<&Path>) -> io::Result<()> {
    if home.exists() {
        std::fs::remove_dir_all(home)?;
    }
    std::fs::create_dir_all(home)?;
    match archive {
        // `unpack` refuses entries that would leave the folder.
        Some(archive) => tar::Archive::new(GzDecoder::new(File::open(archive)?)).unpack(home),
        None => Ok(()),
    }
}
