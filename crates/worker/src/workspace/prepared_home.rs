//! The prepared home of an agent: what the agent has unpacked into its home when it was started once. New homes of jobs
//! begin with it, so that no job waits for the same work again.
//!
//! The agent itself has made the content, so it is not trusted: it is unpacked like the session of a job
//! ([`super::home_archive`]), and a setup command with secrets that agents do not get never sees it.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use journeyman_core::agent::AgentSpec;
use journeyman_core::idempotency::Fingerprint;

use super::home_archive::{self, HomeLimits};
use crate::claim::deadline;

/// The folder of prepared homes in the data directory. Sandboxes cannot read it.
pub const PREPARED_HOMES: &str = "agent-homes";

/// The maximum size of a prepared home in bytes, before compression. It is unpacked for each new job.
pub const PREPARED_BYTES: u64 = 1 << 30;

/// The end of the names of archives.
const END: &str = ".tar.gz";

/// The number of bytes of the fingerprint in a name.
const NAME_BYTES: usize = 8;

/// The size of a prepared home.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HomeSize {
    /// The number of files.
    pub files: u64,
    /// The size of the files in bytes.
    pub bytes: u64,
}

/// Returns the path of the archive with the prepared home of an agent. It depends on the table of the agent, and on the
/// files that its command names, so that another version of the agent is prepared again. `search_path` finds a program
/// that is named without a folder.
pub(crate) fn archive_path(data: &Path, id: &str, spec: &AgentSpec, search_path: &str) -> PathBuf {
    let mut known = serde_json::to_vec(spec).unwrap_or_default();
    let mut files: Vec<PathBuf> = spec.command.iter().map(PathBuf::from).filter(|word| word.is_absolute()).collect();
    if files.is_empty() {
        let program = spec.command.first().map(String::as_str).unwrap_or_default();
        let found = std::env::split_paths(search_path).map(|folder| folder.join(program)).find(|path| path.is_file());
        files.extend(found);
    }
    for file in files {
        if let Ok(found) = file.metadata() {
            known.extend(format!("\n{} {} {}", file.display(), found.len(), found.mtime()).into_bytes());
        }
    }
    let Fingerprint(hash) = Fingerprint::of(id, &known);
    let hex: String = hash.iter().take(NAME_BYTES).map(|byte| format!("{byte:02x}")).collect();
    data.join(PREPARED_HOMES).join(format!("{id}.{hex}{END}"))
}

/// Stores `home` as the prepared home `archive` of the agent `id`, in place of one of an earlier version. A home without
/// files is stored too, so that the agent is not prepared again.
///
/// # Errors
/// [`io::ErrorKind::FileTooLarge`] if the home has more than `limit` bytes, [`io::ErrorKind::TimedOut`] if it took too
/// long, and the error of a file.
pub(crate) fn store(home: &Path, id: &str, archive: &Path, limit: u64) -> io::Result<HomeSize> {
    let folder = archive.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    std::fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    let draft = folder.join(format!("{id}.{}.draft", std::process::id()));
    let stored = home_archive::save(home, &draft, HomeLimits::bytes(limit), Instant::now() + deadline::ARCHIVE)
        .and_then(|()| {
            let size = size_of(&draft, limit)?;
            std::fs::File::open(&draft)?.sync_all()?;
            std::fs::rename(&draft, archive)?;
            std::fs::File::open(folder)?.sync_all()?;
            Ok(size)
        });
    match stored {
        Ok(_) => remove_others(folder, id, archive)?,
        Err(_) => std::fs::remove_file(&draft).or_else(is_missing)?,
    }
    stored
}

/// Returns the number and the size of the files in an archive.
fn size_of(archive: &Path, limit: u64) -> io::Result<HomeSize> {
    let mut size = HomeSize::default();
    // The headers of many small files take more space than the files.
    for entry in home_archive::open(archive, limit.saturating_mul(2))?.entries()? {
        let header = entry?.header().clone();
        if !header.entry_type().is_dir() {
            size.files += 1;
            size.bytes += header.size()?;
        }
    }
    Ok(size)
}

/// Removes the prepared homes of other versions of an agent.
fn remove_others(folder: &Path, id: &str, archive: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(END));
        let is_own = name.and_then(|name| name.rsplit_once('.')).is_some_and(|(of, _)| of == id);
        if is_own && path != archive {
            std::fs::remove_file(path).or_else(is_missing)?;
        }
    }
    Ok(())
}

fn is_missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Copies a prepared home to the new file `to`, which the caller may remove. Returns false if there is none.
pub(crate) async fn take(archive: &Path, to: &Path) -> io::Result<bool> {
    match tokio::fs::copy(archive, to).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        copied => copied.map(|_| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> AgentSpec {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn another_version_of_an_agent_has_another_archive() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("agent");
        std::fs::write(&program, "one").unwrap();
        let path = |spec: &AgentSpec| archive_path(dir.path(), "mine", spec, dir.path().to_str().unwrap());
        let by_path = spec(&format!(r#"{{"command": ["sh", {program:?}]}}"#));
        let by_name = spec(r#"{"command": ["agent"]}"#);
        let other = spec(&format!(r#"{{"command": ["sh", {program:?}, "--fast"]}}"#));
        let before = [path(&by_path), path(&by_name)];
        assert_eq!(before, [path(&by_path), path(&by_name)]);
        assert_ne!(path(&other), before[0]);
        assert_ne!(archive_path(dir.path(), "other", &by_path, ""), before[0]);
        std::fs::write(&program, "another one").unwrap();
        assert!(path(&by_path) != before[0] && path(&by_name) != before[1], "the program was replaced");
    }

    #[test]
    fn a_home_is_stored_in_place_of_the_one_of_an_earlier_version() {
        let dir = tempfile::tempdir().unwrap();
        let (home, folder) = (dir.path().join("home"), dir.path().join(PREPARED_HOMES));
        std::fs::create_dir_all(home.join("empty")).unwrap();
        let archive = |name: &str| folder.join(format!("{name}{END}"));
        let names = || {
            let all = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
            let mut all: Vec<_> = all.map(|name| name.into_string().unwrap()).collect();
            all.sort();
            all
        };
        assert_eq!(store(&home, "mine", &archive("mine.1"), 1 << 20).unwrap(), HomeSize::default());
        assert_eq!(names(), ["mine.1.tar.gz"], "an agent without files in its home is not prepared again");
        std::fs::write(home.join("file"), "text").unwrap();
        for name in ["mine.1", "mine.too.1", "mine.2"] {
            let id = name.rsplit_once('.').unwrap().0;
            assert_eq!(store(&home, id, &archive(name), 1 << 20).unwrap(), HomeSize { files: 1, bytes: 4 });
        }
        assert_eq!(names(), ["mine.2.tar.gz", "mine.too.1.tar.gz"]);
        assert_eq!(folder.metadata().unwrap().mode() & 0o777, 0o700);
        std::fs::write(home.join("large"), vec![7; 1 << 21]).unwrap();
        let error = store(&home, "mine", &archive("mine.3"), 1 << 20).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(names(), ["mine.2.tar.gz", "mine.too.1.tar.gz"], "the earlier one stays");
    }
}
