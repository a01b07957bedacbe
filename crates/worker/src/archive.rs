//! The agent's home between turns: a compressed archive in the blob store, so that a session goes on after its workspace,
//! or its machine, is gone, and goes back to where it was when a turn is repeated.
//!
//! Keys name the job and the lease that wrote them: what a worker writes whose lease was taken over is in nobody's way.

use std::fs::File;
use std::io::{self, Read, Write};
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

/// Writes `home` to `archive`. The agent is paused, but what has left its process group may be running: a file that is
/// changed meanwhile is stored as long as it was when it was looked at, and one that is gone is left out.
pub(crate) fn save(home: &Path, archive: &Path) -> io::Result<()> {
    let mut builder = tar::Builder::new(GzEncoder::new(File::create(archive)?, Compression::fast()));
    // A link that the agent planted is stored as a link, and what it points to is not.
    builder.follow_symlinks(false);
    add_folder(&mut builder, home, Path::new("."))?;
    builder.into_inner()?.finish()?;
    Ok(())
}

fn add_folder(builder: &mut tar::Builder<impl Write>, folder: &Path, name: &Path) -> io::Result<()> {
    builder.append_dir(name, folder)?;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let (path, name) = (entry.path(), name.join(entry.file_name()));
        match add(builder, &path, &name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done?,
        }
    }
    Ok(())
}

fn add(builder: &mut tar::Builder<impl Write>, path: &Path, name: &Path) -> io::Result<()> {
    let note = path.symlink_metadata()?;
    if note.is_dir() {
        return add_folder(builder, path, name);
    }
    if note.is_symlink() {
        return builder.append_path_with_name(path, name);
    }
    // Sockets and pipes are nothing without who has opened them.
    if !note.is_file() {
        return Ok(());
    }
    let mut header = tar::Header::new_gnu();
    header.set_metadata(&note);
    let exactly = File::open(path)?.chain(io::repeat(0)).take(note.len());
    builder.append_data(&mut header, name, exactly)
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    struct Sets<'a>(&'a AtomicBool);

    impl Drop for Sets<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_home_comes_back_with_its_links_and_without_its_sockets() {
        let dir = tempfile::tempdir().unwrap();
        let (home, archive, back) = (dir.path().join("home"), dir.path().join("a"), dir.path().join("back"));
        std::fs::create_dir_all(home.join("deep/empty")).unwrap();
        std::fs::write(home.join("deep/file"), "text").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", home.join("link")).unwrap();
        let _socket = UnixListener::bind(home.join("socket")).unwrap();
        save(&home, &archive).unwrap();
        restore(&back, Some(&archive)).unwrap();
        assert_eq!(std::fs::read_to_string(back.join("deep/file")).unwrap(), "text");
        assert_eq!(std::fs::read_link(back.join("link")).unwrap(), Path::new("/etc/passwd"));
        assert!(back.join("deep/empty").is_dir() && !back.join("socket").exists());
    }

    #[test]
    fn a_file_that_grows_while_it_is_stored_does_no_harm() {
        let dir = tempfile::tempdir().unwrap();
        let (home, archive, back) = (dir.path().join("home"), dir.path().join("a"), dir.path().join("back"));
        std::fs::create_dir(&home).unwrap();
        std::fs::write(home.join("after"), "text").unwrap();
        let log = home.join("log");
        std::fs::write(&log, "x").unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut log = File::options().append(true).open(&log).unwrap();
                while !over.load(Ordering::SeqCst) {
                    log.write_all(&[b'x'; 4096]).unwrap();
                    log.set_len(log.metadata().unwrap().len() % (1 << 20)).unwrap();
                }
            });
            // Also where an assertion fails.
            let _over = Sets(&over);
            for _ in 0..20 {
                save(&home, &archive).unwrap();
                restore(&back, Some(&archive)).unwrap();
                assert_eq!(std::fs::read_to_string(back.join("after")).unwrap(), "text");
            }
        });
    }
}
