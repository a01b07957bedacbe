//! Writes files of the service into the home of an agent.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use bytes::Bytes;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

use crate::workspace::owner::as_owner;
use crate::workspace::remove::{open, remove_at};

/// Replaces a folder of the home of an agent that is not running, with the rights of the owner of the home. The agent may
/// have left links or other files in its place, which are removed.
///
/// # Errors
/// The disk failed, or is full.
pub(super) fn write(home: &Path, folder: &str, files: &[(String, Bytes)]) -> io::Result<()> {
    let home = File::from(open(CWD, home)?);
    as_owner(&home, || write_beneath(&home, folder, files))
}

fn write_beneath(home: &File, folder: &str, files: &[(String, Bytes)]) -> io::Result<()> {
    remove_at(home, folder)?;
    mkdirat(home, folder, Mode::from_raw_mode(0o755))?;
    let folder = open(home, folder)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for (name, content) in files {
        let file = openat(&folder, name.as_str(), flags, Mode::from_raw_mode(0o644))?;
        File::from(file).write_all(content)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, read_to_string};
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn logs_replace_those_of_an_earlier_failure() {
        let home = tempfile::tempdir().unwrap();
        for (name, text) in [("1-old.log", "old"), ("1-test.log", "new")] {
            write(home.path(), "ci", &[(name.to_owned(), Bytes::from(text))]).unwrap();
        }
        let names: Vec<_> =
            home.path().join("ci").read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["1-test.log"]);
        assert_eq!(read_to_string(home.path().join("ci/1-test.log")).unwrap(), "new");
    }

    #[test]
    fn a_link_of_the_agent_is_not_followed() {
        let (home, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        symlink(outside.path(), home.path().join("ci")).unwrap();
        write(home.path(), "ci", &[("1-test.log".to_owned(), Bytes::from("log"))]).unwrap();
        assert_eq!(outside.path().read_dir().unwrap().count(), 0);
        assert_eq!(read_to_string(home.path().join("ci/1-test.log")).unwrap(), "log");
    }

    #[test]
    fn a_folder_of_the_agent_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        create_dir_all(home.path().join("ci/1-test.log/deep")).unwrap();
        write(home.path(), "ci", &[("1-test.log".to_owned(), Bytes::from("log"))]).unwrap();
        assert_eq!(read_to_string(home.path().join("ci/1-test.log")).unwrap(), "log");
    }
}
