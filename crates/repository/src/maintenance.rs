//! The maintenance of mirrors: refs of deleted jobs go, objects and refs are packed, and unreachable objects are removed.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ids::JobId;
use journeyman_core::time::Timestamp;
use journeyman_git::{MaintenanceError, RepositoryMaintenance};

use crate::Mirrors;
use crate::mirrors::{HOSTED, LISTING, PROJECT};

/// The time after which a mirror that projects shared counts as unused. Processes of the previous version may run beside
/// this one for a while.
const UNUSED: Duration = Duration::from_secs(7 * 24 * 3600);

/// The extension of a mirror that is being removed.
const REMOVED: &str = "removed";

/// Knows which jobs exist.
#[async_trait]
pub trait KnownJobs: Sync {
    /// Returns whether a job exists.
    ///
    /// # Errors
    /// The store failed.
    async fn exists(&self, job: JobId) -> io::Result<bool>;
}

impl Mirrors {
    /// Returns the paths of all mirrors on this machine.
    ///
    /// # Errors
    /// The folder of the mirrors cannot be read.
    pub async fn paths(&self) -> io::Result<Vec<PathBuf>> {
        let mut paths = self.entries("git").await?;
        // A repair builds its mirror under another extension.
        paths.retain(|path| path.join("HEAD").exists());
        Ok(paths)
    }

    /// Returns the paths in the folder of the mirrors with an extension, sorted.
    async fn entries(&self, extension: &str) -> io::Result<Vec<PathBuf>> {
        let mut entries = match tokio::fs::read_dir(self.dir()).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut paths = Vec::new();
        while let Some(entry) = entries.next_entry().await? {
            let path = entry.path();
            if path.extension().is_some_and(|found| found == extension) {
                paths.push(path);
            }
        }
        paths.sort_unstable();
        Ok(paths)
    }

    /// Removes mirrors that nothing needs, with their caches of objects of Git LFS: of projects that are gone, of
    /// repositories of the built-in code host that are gone, and those that projects shared before version 0.10 once no
    /// commits of jobs are left in them. `is_gone` gets the path of a repository. Returns the number of removed mirrors.
    ///
    /// # Errors
    /// The folder of the mirrors cannot be read, or a mirror cannot be removed.
    pub async fn remove_gone(
        &self,
        is_project: impl Fn(&str) -> bool,
        is_gone: impl Fn(&Path) -> bool,
    ) -> io::Result<usize> {
        let mut removed = 0;
        for path in self.paths().await? {
            let project = tokio::fs::read_to_string(path.join(PROJECT)).await.ok();
            let hosted = tokio::fs::read_to_string(path.join(HOSTED)).await.ok();
            let is_needed = match project {
                Some(project) => is_project(&project),
                None => !self.is_unused(&path).await,
            };
            if is_needed && !hosted.is_some_and(|url| is_gone(Path::new(&url))) {
                continue;
            }
            let lock = self.lock(&path);
            let _held = lock.lock().await;
            tokio::fs::rename(&path, path.with_extension(REMOVED)).await?;
            removed += 1;
        }
        // Also those of a process that was killed.
        for path in self.entries(REMOVED).await? {
            for folder in [path.with_extension("lfs"), path] {
                match tokio::fs::remove_dir_all(folder).await {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(removed)
    }

    /// Returns whether a mirror without a project has no commits of jobs, and was not fetched for [`UNUSED`].
    async fn is_unused(&self, path: &Path) -> bool {
        let fetched = tokio::fs::metadata(path.join(LISTING)).await.and_then(|listing| listing.modified());
        let is_old = fetched.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > UNUSED));
        let list = ["for-each-ref", "--count=1", "refs/jobs"];
        is_old && self.git.at(path, list).run().await.is_ok_and(|output| output.stdout.is_empty())
    }

    /// Does what is due in the mirror at `path`, while runs may use it.
    ///
    /// # Errors
    /// Git, the disk or the store failed. The mirror can still be used.
    pub async fn maintain(&self, path: &Path, now: Timestamp, jobs: &dyn KnownJobs) -> Result<(), MaintenanceError> {
        let Some(mut maintenance) = RepositoryMaintenance::begin(&self.git, path, now).await? else { return Ok(()) };
        maintenance.pack_objects().await?;
        let changes = if maintenance.sweeps() { self.without_deleted_jobs(path, jobs).await? } else { Vec::new() };
        {
            // Git's locks on refs do not wait for long.
            let lock = self.lock(path);
            let _held = lock.lock().await;
            maintenance.pack_refs(changes).await?;
        }
        maintenance.remove_unreachable().await
    }

    /// Returns the changes of refs that delete those of jobs that no longer exist.
    async fn without_deleted_jobs(&self, path: &Path, jobs: &dyn KnownJobs) -> Result<Vec<u8>, MaintenanceError> {
        let listed = self.git.at(path, ["for-each-ref", "--format=%(refname)", "refs/jobs"]).run().await?.text()?;
        let (mut known, mut changes) = (HashMap::new(), String::new());
        for name in listed.lines() {
            let id = name.strip_prefix("refs/jobs/").and_then(|rest| rest.split('/').next()?.parse::<JobId>().ok());
            let Some(id) = id else { continue };
            let exists = match known.get(&id) {
                Some(exists) => *exists,
                None => jobs.exists(id).await?,
            };
            known.insert(id, exists);
            if !exists {
                changes.push_str(&format!("delete {name}\n"));
            }
        }
        Ok(changes.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use journeyman_core::git_maintenance::Maintenance;
    use journeyman_core::ids::Sha;
    use journeyman_core::ports::Remote;
    use uuid::Uuid;

    use super::*;
    use crate::fixture::Fixture;

    struct Jobs(BTreeSet<JobId>);

    #[async_trait]
    impl KnownJobs for Jobs {
        async fn exists(&self, job: JobId) -> io::Result<bool> {
            Ok(self.0.contains(&job))
        }
    }

    fn job(number: u128) -> JobId {
        JobId::from_uuid(Uuid::from_u128(number))
    }

    fn now() -> Timestamp {
        Timestamp::from_micros(1_900_000_000_000_000)
    }

    const DAY: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

    /// Sets the times of the last maintenance of a mirror.
    fn record(mirror: &Path, maintenance: Maintenance) {
        std::fs::write(mirror.join("journeyman-maintenance"), maintenance.text()).unwrap();
    }

    #[tokio::test]
    async fn refs_of_deleted_jobs_go_and_what_other_jobs_need_stays() {
        let fixture = Fixture::new().await;
        let mirrors = fixture.mirrors();
        let mirror = mirrors.fetch(fixture.remote()).await.unwrap();
        let mut heads: Vec<Sha> = Vec::new();
        for number in 1..=3 {
            fixture.run(&["reset", "--quiet", "--hard", fixture.base.as_str()]).await;
            heads.push(fixture.commit(&[("a", Some(&format!("of {number}")))]).await);
            let (clone, name) = (fixture.clone(), format!("+HEAD:refs/jobs/{}/head", job(number)));
            mirror.git.at(&mirror.path, ["fetch", "--quiet", clone.to_str().unwrap(), &name]).run().await.unwrap();
        }
        mirror.keep(&format!("{}/1", job(2)), &fixture.base).await.unwrap();
        mirror.keep("people", &fixture.base).await.unwrap();
        let jobs = Jobs([job(1), job(3)].into());
        record(&mirror.path, Maintenance { packed_at: None, swept_at: now() - DAY, repacked_at: now() - DAY });
        mirrors.maintain(&mirror.path, now(), &jobs).await.unwrap();
        let list = mirror.git.at(&mirror.path, ["for-each-ref", "--format=%(refname)", "refs/jobs"]);
        let names = list.run().await.unwrap().text().unwrap();
        let expected = [format!("refs/jobs/{}/head", job(1)), format!("refs/jobs/{}/head", job(3))];
        assert_eq!(names, format!("{}\n{}\nrefs/jobs/people", expected[0], expected[1]));
        // The complete packings of the following weeks.
        for weeks in [1, 4] {
            let at = now() + DAY * 7 * weeks;
            mirrors.maintain(&mirror.path, at, &jobs).await.unwrap();
        }
        for (head, is_kept) in heads.iter().zip([true, false, true]) {
            assert_eq!(mirrors.has(&mirror.path, head).await, is_kept, "{head}");
        }
        mirror.git.at(&mirror.path, ["fsck"]).run().await.unwrap();
        let again = mirrors.fetch(fixture.remote()).await.unwrap();
        assert_eq!(again.heads, mirror.heads);
    }

    #[tokio::test]
    async fn turns_and_fetches_go_on_while_a_mirror_is_packed() {
        let fixture = Fixture::new().await;
        let mirrors = fixture.mirrors();
        let mirror = mirrors.fetch(fixture.remote()).await.unwrap();
        let jobs = Jobs((1..=30).map(job).collect());
        let turns = async {
            for number in 1..=30 {
                let folders = mirror.folders().await.unwrap();
                let tree = format!("{}^{{tree}}", fixture.base);
                let message = number.to_string();
                let commit = ["commit-tree", "-m", &message, "-p", fixture.base.as_str(), &tree];
                let commit = mirror.git.at(&mirror.path, commit).run().await.unwrap().sha().unwrap();
                mirror.keep(&format!("{}/head", job(number)), &commit).await.unwrap();
                mirror.sync(folders).await.unwrap();
                fixture.commit(&[("a", Some(&format!("of {message}")))]).await;
                fixture.publish(&format!("team/{number}")).await;
                mirrors.fetch(fixture.remote()).await.unwrap();
            }
        };
        let packing = async {
            for round in 0..6 {
                record(
                    &mirror.path,
                    Maintenance { packed_at: Some(now() - DAY), swept_at: now() - DAY, repacked_at: now() - DAY * 8 },
                );
                mirrors.maintain(&mirror.path, now() + DAY * round, &jobs).await.unwrap();
            }
        };
        tokio::join!(turns, packing);
        for number in 1..=30 {
            let name = format!("refs/jobs/{}/head", job(number));
            mirror.git.at(&mirror.path, ["rev-parse", "--verify", &name]).run().await.unwrap();
        }
        mirror.git.at(&mirror.path, ["fsck", "--connectivity-only"]).run().await.unwrap();
        assert_eq!(mirrors.fetch(fixture.remote()).await.unwrap().heads.len(), 31);
    }

    #[tokio::test]
    async fn mirrors_that_nothing_needs_are_removed() {
        let fixture = Fixture::new().await;
        let mirrors = fixture.mirrors();
        let mirror = mirrors.fetch(fixture.remote()).await.unwrap();
        let remove =
            async |projects: &[&str]| mirrors.remove_gone(|id| projects.contains(&id), |_| false).await.unwrap();
        assert_eq!(remove(&["shop"]).await, 0);
        assert_eq!(remove(&["other"]).await, 1, "the project is gone");
        assert!(!mirror.path.exists());

        let mirror = fixture.mirror(&mirrors).await;
        std::fs::remove_file(mirror.path.join(PROJECT)).unwrap();
        assert_eq!(remove(&[]).await, 0, "the previous version may still use a shared mirror");
        let listing = std::fs::File::options().append(true).open(mirror.path.join(LISTING)).unwrap();
        listing.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(remove(&[]).await, 0, "it has a commit of a job");
        mirror.git.at(&mirror.path, ["update-ref", "-d", "refs/jobs/clone"]).run().await.unwrap();
        assert_eq!(remove(&[]).await, 1);
    }

    #[tokio::test]
    async fn mirrors_of_repositories_that_are_gone_are_removed_with_their_caches() {
        let fixture = Fixture::new().await;
        let mirrors = fixture.mirrors();
        let elsewhere = mirrors.fetch(Remote { is_ours: false, ..fixture.remote() }).await.unwrap();
        assert_eq!(mirrors.remove_gone(|_| true, |_| true).await.unwrap(), 0, "it is not on the built-in host");
        let hosted = mirrors.fetch(Remote { is_ours: true, ..fixture.remote() }).await.unwrap();
        assert_eq!(hosted.path, elsewhere.path);
        let cache = hosted.path.with_extension("lfs");
        std::fs::create_dir_all(cache.join("aa")).unwrap();
        let url = fixture.remote().url;
        assert_eq!(mirrors.remove_gone(|_| true, |path| path != Path::new(&url)).await.unwrap(), 0);
        assert!(hosted.path.exists() && cache.exists());
        let killed = hosted.path.with_file_name("x.removed");
        std::fs::create_dir(&killed).unwrap();
        assert_eq!(mirrors.remove_gone(|_| true, |path| path == Path::new(&url)).await.unwrap(), 1);
        assert!(!hosted.path.exists() && !cache.exists() && !killed.exists());
        mirrors.fetch(fixture.remote()).await.unwrap();
    }

    #[tokio::test]
    async fn only_complete_mirrors_are_listed() {
        let fixture = Fixture::new().await;
        let mirrors = fixture.mirrors();
        assert!(mirrors.paths().await.unwrap().is_empty(), "there is no folder yet");
        let mirror = mirrors.fetch(fixture.remote()).await.unwrap();
        for name in ["x.git", "x.new", "x.old"] {
            std::fs::create_dir(mirror.path.with_file_name(name)).unwrap();
        }
        std::fs::write(mirror.path.with_file_name("x.new").join("HEAD"), "").unwrap();
        assert_eq!(mirrors.paths().await.unwrap(), [mirror.path]);
    }
}
