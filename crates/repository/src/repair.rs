//! Repairs a damaged mirror: builds a new mirror next to it, copies the readable commits that only the damaged mirror
//! has, and replaces it.

pub(crate) mod replacement;

use std::io;
use std::path::Path;

use journeyman_core::ports::Remote;

use self::replacement::{replace, restore};
use crate::sync::{folders_of, sync};
use crate::{Mirror, ProjectMirrors, RepositoryError};

impl ProjectMirrors {
    /// Rebuilds the mirror of a remote. Jobs that use the mirror meanwhile read the old one until the new one is
    /// complete.
    ///
    /// # Errors
    /// The remote cannot be read, or the disk failed.
    pub async fn repair(&self, remote: &Remote) -> Result<(), RepositoryError> {
        let path = self.path(&remote.url);
        let lock = self.lock(&path);
        let _held = lock.lock().await;
        restore(&path).await?;
        let (new, old) = (path.with_extension("new"), path.with_extension("old"));
        let leftovers = [new.clone(), old.clone()];
        for leftover in &leftovers {
            remove(leftover).await?;
        }
        let mirror = self.fetch_into(new.clone(), remote.clone()).await?;
        let folders = folders_of(&new).await?;
        mirror.copy_job_refs(&path).await;
        sync(folders).await?;
        let replaced = tokio::task::spawn_blocking(move || replace(&path, &new, &old)).await;
        replaced.map_err(io::Error::other)??;
        for leftover in &leftovers {
            remove(leftover).await?;
        }
        Ok(())
    }
}

impl Mirror {
    /// Fetches the commits of jobs from a damaged mirror, one ref at a time, as far as they are completely readable.
    /// They may be the only copy of work that was not published yet.
    async fn copy_job_refs(&self, damaged: &Path) {
        let list = self.git.at(damaged, ["for-each-ref", "--format=%(refname)", "refs/jobs"]).run().await;
        let Ok(names) = list.and_then(journeyman_git::Output::text) else { return };
        for name in names.lines() {
            let refspec = format!("+{name}:{name}");
            let url = damaged.to_string_lossy();
            let arguments = ["-c", "fetch.fsckObjects=true", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head"];
            let fetch = self.git.at(&self.path, arguments.into_iter().chain(["--", &url, &refspec]));
            if let Err(error) = fetch.run().await {
                tracing::warn!(
                    mirror = %damaged.display(), name, %error,
                    "a job's commits could not be copied from a damaged mirror"
                );
            }
        }
    }
}

/// Removes a mirror, if it exists. Only this service writes to mirrors, so there is nothing unusual in it.
async fn remove(mirror: &Path) -> io::Result<()> {
    match tokio::fs::remove_dir_all(mirror).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::path::PathBuf;
    use std::sync::Arc;

    use journeyman_core::ids::Sha;
    use journeyman_core::ports::Reach;
    use journeyman_git::{Git, Runner};

    use super::replacement::replace_in_two_steps;
    use super::*;
    use crate::Mirrors;

    /// Creates folders with the names as their only files.
    fn folders(dir: &Path, names: &[&str]) {
        for name in names {
            std::fs::create_dir(dir.join(name)).unwrap();
            std::fs::write(dir.join(name).join(name), "").unwrap();
        }
    }

    #[test]
    fn a_mirror_is_replaced_if_it_exists_and_if_it_is_missing() {
        for names in [["new", "path"].as_slice(), &["new"]] {
            let dir = tempfile::tempdir().unwrap();
            folders(dir.path(), names);
            let [path, new, old] = ["path", "new", "old"].map(|name| dir.path().join(name));
            replace(&path, &new, &old).unwrap();
            assert!(path.join("new").exists(), "{names:?}");
            let has_damaged = new.join("path").exists() || old.join("path").exists();
            assert_eq!(has_damaged, names.len() == 2, "{names:?}");
        }
    }

    #[test]
    fn a_mirror_is_replaced_in_two_steps_where_an_exchange_is_not_possible() {
        let dir = tempfile::tempdir().unwrap();
        folders(dir.path(), &["new", "path"]);
        let [path, new, old] = ["path", "new", "old"].map(|name| dir.path().join(name));
        replace_in_two_steps(&path, &new, &old).unwrap();
        assert!(path.join("new").exists() && old.join("path").exists() && !new.exists());
    }

    /// Creates a repository with one commit, and mirrors. Returns them with the commit.
    async fn mirrors(dir: &Path) -> (ProjectMirrors, Remote, Sha) {
        let git = Git::new(Runner {
            program: "git".into(),
            path: "/usr/local/bin:/usr/bin:/bin".into(),
            environment: vec![],
            askpass: None,
        });
        let origin: PathBuf = dir.join("origin.git");
        let init = git.command(["init", "--quiet", "--bare", "--initial-branch=main"]).env("GIT_DIR", &origin);
        init.run().await.unwrap();
        let tree = git.at(&origin, ["mktree"]).run().await.unwrap().sha().unwrap();
        let commit = git.at(&origin, ["commit-tree", "-m", "Begin", tree.as_str()]).run().await.unwrap().sha().unwrap();
        git.at(&origin, ["update-ref", "refs/heads/main", commit.as_str()]).run().await.unwrap();
        let remote =
            Remote { url: origin.to_str().unwrap().to_owned(), credential: None, is_ours: true, reach: Reach::Public };
        let mirrors = Arc::new(Mirrors::new(git, dir.join("mirrors")));
        (mirrors.of(&"shop".parse().unwrap()), remote, commit)
    }

    #[tokio::test]
    async fn a_repair_keeps_the_commits_of_jobs() {
        let dir = tempfile::tempdir().unwrap();
        let (mirrors, remote, commit) = mirrors(dir.path()).await;
        let mirror = mirrors.fetch(remote.clone()).await.unwrap();
        mirror.keep("job_1/head", &commit).await.unwrap();
        let mode = || mirror.path.metadata().unwrap().mode() & 0o777;
        assert_eq!(mode(), 0o700, "nobody else may read a mirror, until it is given a group");
        std::fs::set_permissions(&mirror.path, std::fs::Permissions::from_mode(0o750)).unwrap();
        mirrors.repair(&remote).await.unwrap();
        assert_eq!(mode(), 0o750, "those who may read the mirror may read the new one");
        mirror.git.at(&mirror.path, ["rev-parse", "--verify", "refs/jobs/job_1/head"]).run().await.unwrap();
        let names = std::fs::read_dir(dir.path().join("mirrors")).unwrap();
        assert_eq!(names.count(), 1, "the damaged mirror was removed");
    }

    #[tokio::test]
    async fn a_mirror_is_restored_after_a_crash_between_the_renames_of_a_repair() {
        let dir = tempfile::tempdir().unwrap();
        let (mirrors, remote, commit) = mirrors(dir.path()).await;
        let mirror = mirrors.fetch(remote.clone()).await.unwrap();
        mirror.keep("job_1/head", &commit).await.unwrap();
        for repairs in [false, true] {
            std::fs::rename(&mirror.path, mirror.path.with_extension("old")).unwrap();
            std::fs::create_dir(mirror.path.with_extension("new")).unwrap();
            if repairs {
                mirrors.repair(&remote).await.unwrap();
            } else {
                mirrors.fetch(remote.clone()).await.unwrap();
                std::fs::remove_dir(mirror.path.with_extension("new")).unwrap();
            }
            mirror.git.at(&mirror.path, ["rev-parse", "--verify", "refs/jobs/job_1/head"]).run().await.unwrap();
        }
    }
}
