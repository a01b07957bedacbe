//! Finds out whether a mirror is damaged, after git has failed on the repository of an agent, which reads the objects of
//! the mirror. Otherwise damage of the machine's disk would be the agent's fault.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::Path;

use journeyman_core::ids::Sha;
use journeyman_core::left_out::path_text;
use journeyman_git::{Failure, GitError};

use crate::{Mirror, RepositoryError};

/// The maximum number of objects in a message of git that are checked.
const NAMED: usize = 16;

/// The size of a pack without objects, in bytes: a header, and a SHA-1 hash (gitformat-pack(5)).
const LEAST_PACK: u64 = 12 + 20;

/// The size of an index of a pack without objects, in bytes, of version 2: a header, the numbers of objects by their first
/// byte, and two SHA-1 hashes.
const LEAST_INDEX: u64 = 8 + 256 * 4 + 2 * 20;

/// Fails if a mirror has a pack, or an index of one, that is too short to be one, as a file system may leave it after a power
/// failure. Git ignores such files: it fetches what is missing again, and the commits of jobs stay lost. Reads no file.
///
/// # Errors
/// There is such a file ([`RepositoryError::MirrorDamaged`]), or the disk failed.
pub(crate) fn check_packs(mirror: &Path) -> Result<(), RepositoryError> {
    let packs = match std::fs::read_dir(mirror.join("objects/pack")) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        packs => packs?,
    };
    for pack in packs {
        let pack = pack?;
        let name = pack.file_name();
        let least = match Path::new(&name).extension().and_then(OsStr::to_str) {
            Some("pack") => LEAST_PACK,
            Some("idx") => LEAST_INDEX,
            _ => continue,
        };
        // The upkeep of the mirror may have removed it meanwhile.
        let Ok(found) = pack.metadata() else { continue };
        if found.len() < least {
            let text = format!("{} has {} bytes, which is too short", name.display(), found.len());
            return Err(RepositoryError::MirrorDamaged(text));
        }
    }
    Ok(())
}

impl Mirror {
    /// Returns whether objects of these commits are missing in the mirror, or objects that `message`, an error message of
    /// git, names cannot be read. Reads no other content of files.
    ///
    /// # Errors
    /// Git could not be run, or did not end.
    pub async fn is_damaged(&self, commits: &[&Sha], message: &str) -> Result<bool, RepositoryError> {
        let wanted: Vec<u8> = commits.iter().flat_map(|commit| [commit.as_str().as_bytes(), b"\n"].concat()).collect();
        let connected = ["rev-list", "--objects", "--quiet", "--stdin"];
        if let Err(error) = self.git.at(&self.path, connected).stdin(wanted).run().await {
            return match error.failure() {
                // A missing commit is one of the other failures.
                Failure::Damaged | Failure::Other => Ok(true),
                _ => Err(error.into()),
            };
        }
        for object in named(message) {
            // An object that the mirror does not have is one of the agent.
            let exists = self.git.at(&self.path, ["cat-file", "-e", object.as_str()]).run().await;
            let read = match exists {
                Err(GitError::Failed { code: Some(1), .. }) => continue,
                Err(error) => Err(error),
                Ok(_) => self.git.at(&self.path, ["cat-file", "-p", object.as_str()]).run_while(|_| true).await,
            };
            match read {
                Err(error @ GitError::NotStarted(_)) => return Err(error.into()),
                Err(_) => return Ok(true),
                Ok(_) => {}
            }
        }
        Ok(false)
    }
}

impl Mirror {
    /// Returns the path of a file of a commit whose object `message`, an error message of git, names: git refuses what the
    /// repository already has.
    ///
    /// # Errors
    /// Git failed.
    pub async fn file_named(&self, commit: &Sha, message: &str) -> Result<Option<String>, RepositoryError> {
        let objects = named(message);
        if objects.is_empty() {
            return Ok(None);
        }
        let list = self.git.at(&self.path, ["ls-tree", "-r", "-z", "--full-tree", commit.as_str()]).run().await?.stdout;
        // An entry is a mode, a type, an object, a tab, and a path.
        let path = |entry: &[u8]| {
            let tab = entry.iter().position(|byte| *byte == b'\t')?;
            let object: Sha = std::str::from_utf8(entry.get(..tab)?).ok()?.split(' ').nth(2)?.parse().ok()?;
            objects.contains(&object).then(|| path_text(entry.get(tab + 1..).unwrap_or_default()))
        };
        Ok(list.split(|byte| *byte == 0).find_map(path))
    }
}

/// Returns the names of objects in a message of git.
#[must_use]
pub fn named(message: &str) -> BTreeSet<Sha> {
    let words = message.split(|letter: char| !letter.is_ascii_hexdigit());
    words.filter_map(|word| word.parse().ok()).take(NAMED).collect()
}

#[cfg(test)]
mod tests {
    use crate::RepositoryError;
    use crate::fixture::Fixture;

    #[tokio::test]
    async fn a_pack_that_a_power_failure_has_cut_is_found_before_a_fetch_and_repaired() {
        let fixture = Fixture::new().await;
        let mirrors = fixture.mirrors();
        let mirror = mirrors.fetch(fixture.remote()).await.unwrap();
        let files = std::fs::read_dir(mirror.path.join("objects/pack")).unwrap();
        let files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        for kind in ["pack", "idx"] {
            let file = files.iter().find(|file| file.extension().is_some_and(|extension| extension == kind)).unwrap();
            let content = std::fs::read(file).unwrap();
            std::fs::remove_file(file).unwrap();
            for length in [0, 20] {
                std::fs::write(file, &content[..length]).unwrap();
                let found = mirrors.fetch(fixture.remote()).await;
                assert!(matches!(found, Err(RepositoryError::MirrorDamaged(_))), "{} {length}", file.display());
            }
            std::fs::write(file, &content).unwrap();
            mirrors.fetch(fixture.remote()).await.unwrap();
        }
        files.iter().for_each(|file| std::fs::remove_file(file).unwrap());
        files.iter().for_each(|file| std::fs::write(file, "").unwrap());
        mirrors.repair(&fixture.remote()).await.unwrap();
        let repaired = mirrors.fetch(fixture.remote()).await.unwrap();
        repaired.git.at(&repaired.path, ["fsck", "--connectivity-only"]).run().await.unwrap();
    }

    #[tokio::test]
    async fn damage_of_the_mirror_is_told_from_that_of_an_agent() {
        let fixture = Fixture::new().await;
        let mirrors = fixture.mirrors();
        let mirror = mirrors.fetch(fixture.remote()).await.unwrap();
        let base = fixture.base.clone();
        let object =
            mirror.git.at(&mirror.path, ["rev-parse", &format!("{base}:a")]).run().await.unwrap().sha().unwrap();
        let message = format!("error: unable to read sha1 file of a ({object})");
        assert!(!mirror.is_damaged(&[&base], &message).await.unwrap(), "the object can be read");
        let other = "ab".repeat(20);
        assert!(
            !mirror.is_damaged(&[&base], &format!("fatal: bad object {other}")).await.unwrap(),
            "an agent's object"
        );

        // In a pack, an object cannot be damaged alone.
        for pack in std::fs::read_dir(mirror.path.join("objects/pack")).unwrap() {
            let pack = pack.unwrap().path();
            if pack.extension().is_some_and(|extension| extension == "pack") {
                let content = std::fs::read(&pack).unwrap();
                std::fs::remove_file(&pack).unwrap();
                mirror.git.at(&mirror.path, ["unpack-objects", "-q"]).stdin(content).run().await.unwrap();
            }
        }
        let (start, end) = object.as_str().split_at(2);
        let path = mirror.path.join("objects").join(start).join(end);
        let content = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(mirror.is_damaged(&[&base], "fatal: something").await.unwrap(), "an object is missing");
        for damaged in [&content[..10], &[]] {
            std::fs::write(&path, damaged).unwrap();
            assert!(mirror.is_damaged(&[&base], &message).await.unwrap(), "{damaged:?}");
            assert!(!mirror.is_damaged(&[&base], "fatal: something").await.unwrap(), "its content is not read");
        }
    }
}
