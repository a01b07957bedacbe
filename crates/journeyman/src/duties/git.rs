//! Keeps the git repositories of the service small.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use async_trait::async_trait;
use journeyman_core::ids::JobId;
use journeyman_core::ports::Store;
use journeyman_core::project::{Address, parse_address};
use journeyman_core::time::Clock;
use journeyman_forge::LocalHost;
use journeyman_git::MaintenanceError;
use journeyman_lfs::Keeper;
use journeyman_repository::Mirrors;
use journeyman_repository::maintenance::KnownJobs;

use super::duty::{Duty, Scope};
use crate::system::Machine;

/// The repositories of git that a process keeps small. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Repositories {
    /// The mirrors of this machine.
    pub(crate) mirrors: Arc<Mirrors>,
    /// The built-in code host, whose repositories machines may share.
    pub(crate) host: LocalHost,
    /// The objects of Git LFS of the built-in code host.
    pub(crate) objects: Keeper,
}

/// Packs mirrors and repositories, removes what nothing refers to, and measures repositories. Each repository records what was done when, so
/// that several processes share the work, and one that starts again does not repeat it.
pub(super) struct MaintainGit {
    pub(super) store: Arc<dyn Store>,
    pub(super) repositories: Repositories,
}

impl MaintainGit {
    /// Removes the mirrors of projects and repositories that were removed.
    async fn remove_mirrors(&self) -> anyhow::Result<()> {
        let Repositories { mirrors, host, .. } = &self.repositories;
        let projects = self.store.projects().await?;
        // A disk that is not mounted has no repositories, but the projects are there.
        let used: BTreeSet<PathBuf> = projects
            .iter()
            .filter_map(|project| match parse_address(&project.repository) {
                Ok(Address::Local(name)) => Some(host.path(&name)),
                _ => None,
            })
            .collect();
        let is_gone = |path: &Path| !used.contains(path) && !path.exists();
        let ids: BTreeSet<&str> = projects.iter().map(|project| project.id.as_str()).collect();
        let removed = mirrors
            .remove_gone(|project| ids.contains(project), is_gone)
            .await
            .context("mirrors of removed repositories stay")?;
        if removed > 0 {
            tracing::info!(removed, "mirrors of removed projects and repositories were removed");
        }
        Ok(())
    }
}

struct JobsOf<'a>(&'a dyn Store);

#[async_trait]
impl KnownJobs for JobsOf<'_> {
    async fn exists(&self, job: JobId) -> io::Result<bool> {
        Ok(self.0.job(job).await.map_err(io::Error::other)?.is_some())
    }
}

#[async_trait]
impl Duty for MaintainGit {
    fn name(&self) -> &'static str {
        "git_maintenance"
    }

    fn period(&self) -> Duration {
        Duration::from_secs(600)
    }

    fn scope(&self) -> Scope {
        Scope::Machine
    }

    async fn carry_out(&self) -> anyhow::Result<()> {
        let Repositories { mirrors, host, objects } = &self.repositories;
        let (mut all, mut failed) = (0, 0);
        let mut note = |repository: &str, done: Result<(), MaintenanceError>| {
            all += 1;
            if let Err(error) = done {
                failed += 1;
                tracing::warn!(repository, %error, "a git repository could not be packed; it can be used as before");
            }
        };
        if let Err(error) = host.finish_removals().await {
            tracing::warn!(%error, "the repository of a deleted project could not be removed; the next attempt continues");
        }
        self.remove_mirrors().await?;
        for path in mirrors.paths().await.context("the folder of the mirrors cannot be read")? {
            let done = mirrors.maintain(&path, Machine.now(), &JobsOf(&*self.store)).await;
            note(&path.to_string_lossy(), done);
        }
        for name in host.names().await.context("the folder of the repositories cannot be read")? {
            let mut done = host.maintain(&name, Machine.now()).await;
            if done.is_ok() {
                done = objects.maintain(&host.path(&name), Machine.now()).await;
            }
            note(&name, done);
        }
        anyhow::ensure!(failed == 0, "{failed} of {all} git repositories could not be packed; the log names them");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use journeyman_core::ports::{Forges as _, Reach, Remote};
    use journeyman_core::project::Project;
    use journeyman_core::time::Timestamp;
    use journeyman_forge::{CodeHosts, Parts};
    use journeyman_git::{Git, Runner};
    use journeyman_lfs::Lfs;
    use journeyman_store::SqliteStore;
    use journeyman_testkit::{Seeds as _, World};

    use super::*;

    const FILES: usize = 60;

    /// Returns the number of files of objects and refs in a repository.
    fn files(folder: &Path) -> usize {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| if path.is_dir() { files(&path) } else { 1 }).sum()
    }

    fn objects(repository: &Path) -> usize {
        files(&repository.join("objects"))
    }

    /// Writes single objects into a repository.
    async fn fill(git: &Git, repository: &Path) {
        for number in 0..FILES {
            let write = git.at(repository, ["hash-object", "-w", "--stdin"]).stdin(number.to_string());
            write.run().await.unwrap();
        }
    }

    #[tokio::test]
    async fn mirrors_and_repositories_are_packed_and_a_damaged_one_stops_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = "/usr/local/bin:/usr/bin:/bin".into();
        let git = Git::new(Runner { program: "git".into(), path, environment: vec![], askpass: None });
        let store = Arc::new(SqliteStore::temporary(World::new()).unwrap());
        let blobs = Arc::new(journeyman_blobs::Folder::new(dir.path().join("blobs"), false));
        let keeper = Keeper::new(Lfs::new(git.clone(), blobs, Arc::new(Machine)), dir.path().join("scratch"));
        let hosts = CodeHosts::new(Parts {
            git: git.clone(),
            repositories: dir.path().join("repositories"),
            hooks: dir.path().join("hooks"),
            public_url: String::new(),
            pulls: store.clone(),
            comparisons: store.clone(),
            users: store.clone(),
            secrets: store.clone(),
            hosts: store.clone(),
            configured: Vec::new(),
            outbound: journeyman_net::Outbound::default(),
            objects: Arc::new(keeper.clone()),
            clock: Arc::new(Machine),
        });
        let project = |name: &str| Project::new("shop".parse().unwrap(), format!("local:{name}"), Timestamp::default());
        for name in ["a-damaged", "shop"] {
            hosts.prepare(&project(name)).await.unwrap();
            fill(&git, &hosts.local().path(name)).await;
        }
        let mirrors = Arc::new(Mirrors::new(git.clone(), dir.path().join("mirrors")));
        let url = hosts.local().path("shop").to_string_lossy().into_owned();
        let shop = project("shop");
        store.create_project(shop.clone(), [].into()).await.unwrap();
        let of_shop = mirrors.of(&shop.id);
        let mirror = of_shop.path(&url);
        // An empty repository has no default branch to mirror, but its mirror exists afterward.
        let _ = of_shop.fetch(Remote { url, credential: None, is_ours: true, reach: Reach::Public }).await;
        fill(&git, &mirror).await;
        std::fs::write(hosts.local().path("a-damaged").join("HEAD"), "damaged").unwrap();
        let repositories = Repositories { mirrors, host: hosts.local().clone(), objects: keeper };
        let duty = MaintainGit { store, repositories };
        let error = duty.carry_out().await.unwrap_err();
        assert!(error.to_string().starts_with("1 of 3 git repositories"), "{error}");
        assert!(objects(&hosts.local().path("a-damaged")) >= FILES);
        for repository in [&hosts.local().path("shop"), &mirror] {
            assert!(objects(repository) <= 3, "{}", objects(repository));
        }
    }
}
