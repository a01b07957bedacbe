//! A code host and a job's commits for tests of pushes, with real repositories.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use journeyman_core::ids::{JobId, Sha};
use journeyman_core::job::{Branch, Job, Source};
use journeyman_core::ports::{Blob, BlobContent, BlobError, Blobs, Reach, Remote};
use journeyman_core::project::CiFiles;
use journeyman_core::time::Timestamp;
use journeyman_git::{Git, Runner};
use tempfile::TempDir;

use crate::push::{Outgoing, Push, Pushed};
use crate::signing::Signer;
use crate::{Mirror, Mirrors, ProjectMirrors, RepositoryError, Scratch};

/// The branch of the job.
pub(crate) const BRANCH: &str = "journeyman/a-1";

/// A file of a CI pipeline, which the repository has.
pub(crate) const WORKFLOW: &str = ".github/workflows/ci.yml";

/// A blob store that only this machine uses.
struct OwnBlobs;

#[async_trait]
impl Blobs for OwnBlobs {
    fn is_shared(&self) -> bool {
        false
    }

    async fn put(&self, _: &str, _: &Path) -> Result<(), BlobError> {
        Ok(())
    }

    async fn check_writes(&self) -> Result<(), BlobError> {
        Ok(())
    }

    async fn get(&self, _: &str, _: &Path) -> Result<bool, BlobError> {
        Ok(false)
    }

    async fn find(&self, _: &str) -> Result<Option<Blob>, BlobError> {
        Ok(None)
    }

    async fn renew(&self, _: &str) -> Result<bool, BlobError> {
        Ok(false)
    }

    async fn open(&self, _: &str) -> Result<Option<BlobContent>, BlobError> {
        Ok(None)
    }

    async fn delete(&self, _: &str) -> Result<(), BlobError> {
        Ok(())
    }

    async fn list(&self, _: &str, _: Option<&str>, _: usize) -> Result<Vec<Blob>, BlobError> {
        Ok(Vec::new())
    }
}

/// A code host with the branch `main`, and a clone in which the commits of a job are made.
pub(crate) struct Fixture {
    pub(crate) dir: TempDir,
    pub(crate) git: Git,
    /// The commit that the job starts from.
    pub(crate) base: Sha,
    /// The project's patterns of more files of CI pipelines.
    pub(crate) ci_paths: Vec<String>,
    /// Signs the job's commits.
    pub(crate) signer: Option<Arc<Signer>>,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        let path = "/usr/local/bin:/usr/bin:/bin".into();
        let git = Git::new(Runner { program: "git".into(), path, environment: vec![], askpass: None });
        let dir = tempfile::tempdir().unwrap();
        let base = "0".repeat(40).parse().unwrap();
        let mut fixture = Self { dir, git, base, ci_paths: Vec::new(), signer: None };
        let origin = fixture.origin();
        let init = ["init", "--quiet", "--bare", "--initial-branch=main"];
        fixture.git.command(init).env("GIT_DIR", &origin).run().await.unwrap();
        fixture.run(&["init", "--quiet", "--initial-branch=main", "."]).await;
        fixture.base = fixture.commit(&[(WORKFLOW, Some("on: push")), ("a", Some("1"))]).await;
        fixture.publish("main").await;
        fixture
    }

    pub(crate) fn origin(&self) -> PathBuf {
        self.dir.path().join("origin.git")
    }

    pub(crate) fn clone(&self) -> PathBuf {
        let clone = self.dir.path().join("clone");
        std::fs::create_dir_all(&clone).unwrap();
        clone
    }

    pub(crate) async fn run(&self, arguments: &[&str]) -> String {
        self.git.command(arguments).directory(&self.clone()).run().await.unwrap().text().unwrap()
    }

    pub(crate) async fn publish(&self, branch: &str) {
        let refspec = format!("HEAD:refs/heads/{branch}");
        self.run(&["push", "--quiet", self.origin().to_str().unwrap(), &refspec]).await;
    }

    /// Commits files; `None` removes a file. Returns the commit.
    pub(crate) async fn commit(&self, files: &[(&str, Option<&str>)]) -> Sha {
        for (file, text) in files {
            let path = self.clone().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            match text {
                Some(text) => std::fs::write(&path, text).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
        }
        self.commit_all().await
    }

    pub(crate) async fn commit_all(&self) -> Sha {
        self.run(&["add", "--all"]).await;
        self.run(&["commit", "--quiet", "--message", "Change"]).await;
        self.head().await
    }

    pub(crate) async fn head(&self) -> Sha {
        self.run(&["rev-parse", "HEAD"]).await.parse().unwrap()
    }

    /// Pushes the head of the clone as the commit of a job.
    pub(crate) async fn push(&self, ci_files: CiFiles, is_ours: bool) -> Result<Pushed, RepositoryError> {
        let head = self.head().await;
        self.push_commit(&head, ci_files, is_ours).await
    }

    /// Returns the mirrors of all projects.
    pub(crate) fn machine_mirrors(&self) -> Arc<Mirrors> {
        let mirrors = Mirrors::new(self.git.clone(), self.dir.path().join("mirrors"));
        Arc::new(mirrors.signing(self.signer.clone()))
    }

    /// Returns the mirrors of the project `shop`.
    pub(crate) fn mirrors(&self) -> ProjectMirrors {
        self.machine_mirrors().of(&"shop".parse().unwrap())
    }

    pub(crate) fn remote(&self) -> Remote {
        Remote {
            url: self.origin().to_str().unwrap().to_owned(),
            credential: None,
            is_ours: false,
            reach: Reach::Public,
        }
    }

    /// Returns the mirror of the code host, which also has the commits of the clone.
    pub(crate) async fn mirror(&self, mirrors: &ProjectMirrors) -> Mirror {
        let mirror = mirrors.fetch(self.remote()).await.unwrap();
        let clone = self.clone();
        let fetch = ["fetch", "--quiet", clone.to_str().unwrap(), "+HEAD:refs/jobs/clone"];
        mirror.git.at(&mirror.path, fetch).run().await.unwrap();
        mirror
    }

    pub(crate) async fn push_commit(
        &self,
        head: &Sha,
        ci_files: CiFiles,
        is_ours: bool,
    ) -> Result<Pushed, RepositoryError> {
        let mirrors = self.mirrors();
        let remote = Remote { is_ours, ..self.remote() };
        let mirror = self.mirror(&mirrors).await;
        let source = Source { repository: remote.url.clone(), reference: "main".to_owned() };
        let id = JobId::from_uuid(uuid::Uuid::from_u128(1));
        let job = Job::new(id, "shop".parse().unwrap(), source, Timestamp::default());
        let (name, base) = (BRANCH.to_owned(), self.base.clone());
        let branch =
            Branch { name, generation: 1, base, head: head.clone(), pushed: None, repository: None, existed: false };
        let scratch = Scratch::new(self.dir.path());
        let push = Push { mirrors: &mirrors, mirror: &mirror, remote: &remote, blobs: &OwnBlobs, scratch: &scratch };
        let outgoing = Outgoing {
            branch: &branch,
            head,
            commits: &[],
            left_out: &[],
            base: "main",
            ci_files,
            ci_paths: &self.ci_paths,
        };
        push.run(&job, &outgoing).await
    }

    /// Returns the commit of the branch on the code host.
    pub(crate) async fn pushed(&self) -> Option<Sha> {
        let name = format!("refs/heads/{BRANCH}");
        let found = self.git.at(&self.origin(), ["rev-parse", "--verify", "--quiet", &name]).run().await;
        found.ok().map(|found| found.sha().unwrap())
    }
}
