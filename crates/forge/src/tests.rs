//! Tests of the built-in host with real git and the reference store.

mod serve;

use std::path::Path;
use std::sync::Arc;

use journeyman_core::ports::{ForgeError, Forges, PullPages, PullPagesError};
use journeyman_core::project::Project;
use journeyman_core::pull::{Ensured, NewPull, PullEnding, PullState, ensure};
use journeyman_core::run::ReasonCode;
use journeyman_core::time::Timestamp;
use journeyman_git::{Git, Runner};
use journeyman_store::MemoryStore;
use journeyman_testkit::{Seeds as _, World};

use crate::CodeHosts;

struct Setup {
    git: Git,
    store: Arc<MemoryStore>,
    hosts: CodeHosts,
    project: Project,
    dir: tempfile::TempDir,
}

fn project(repository: &str) -> Project {
    Project::new("shop".parse().unwrap(), repository.to_owned(), Timestamp::default())
}

/// Creates a repository on the built-in host: `main` with one commit, and a clone of it.
async fn setup() -> Setup {
    let dir = tempfile::tempdir().unwrap();
    let path = "/usr/local/bin:/usr/bin:/bin".into();
    let git = Git::new(Runner { program: "git".into(), path, environment: vec![], askpass: None });
    let store = Arc::new(MemoryStore::default());
    let url = "http://localhost:8080".to_owned();
    let (pulls, secrets) = (store.clone(), store.clone());
    let hosts = CodeHosts::new(git.clone(), dir.path().join("repos"), url, pulls, secrets, World::new());
    let setup = Setup { git, store, hosts, project: project("local:shop"), dir };
    setup.hosts.prepare(&setup.project).await.unwrap();
    setup.run(&["clone", "-q", "repos/shop.git", "clone"], setup.dir.path()).await;
    setup.commit("main", "README", "hello\n").await;
    setup
}

impl Setup {
    async fn run(&self, arguments: &[&str], directory: &Path) {
        self.git.command(arguments).directory(directory).run().await.unwrap();
    }

    /// Commits a file on top of the clone's checked-out commit, and pushes the commit as `branch`.
    async fn commit(&self, branch: &str, file: &str, text: &str) {
        let clone = self.dir.path().join("clone");
        std::fs::write(clone.join(file), text).unwrap();
        self.run(&["add", "-A"], &clone).await;
        self.run(&["commit", "-q", "-m", &format!("Write {file}")], &clone).await;
        self.run(&["push", "-q", "origin", &format!("HEAD:refs/heads/{branch}")], &clone).await;
    }

    async fn checkout(&self, commit: &str) {
        self.run(&["checkout", "-q", commit], &self.dir.path().join("clone")).await;
    }
}

fn at() -> Timestamp {
    Timestamp::from_micros(1_800_000_000_000_000)
}

fn pull(head: &str) -> NewPull {
    NewPull { title: "T".into(), body: "B".into(), head: head.into(), base: None, draft: false, labels: vec![] }
}

#[tokio::test]
async fn a_branch_becomes_a_pull_request_once_and_is_merged() {
    let setup = setup().await;
    setup.commit("topic", "a.txt", "a\n").await;
    let forge = setup.hosts.of(&setup.project).await.unwrap();
    let Ensured::Opened(opened) = ensure(&*forge, &pull("topic")).await.unwrap() else { panic!("not opened") };
    assert_eq!(opened.url, "http://localhost:8080/projects/shop/pulls/1");
    assert_eq!(ensure(&*forge, &pull("topic")).await, Ok(Ensured::Found(opened)));
    assert_eq!(forge.open_pull(&pull("topic")).await, Err(ForgeError::AlreadyExists));
    let pages = setup.hosts.local();
    let detail = pages.pull(&setup.project, 1).await.unwrap();
    assert_eq!(detail.commits.len(), 1);
    assert_eq!(detail.commits[0].subject, "Write a.txt");
    assert!(detail.diff.contains("+++ b/a.txt\n@@ -0,0 +1 @@\n+a\n"), "{}", detail.diff);
    assert!(detail.mergeable);
    let ends = pages.ends(&setup.project, 1).await.unwrap().unwrap();
    assert_eq!(pages.merge(&setup.project, 1, "ci", at()).await, Ok(ends.clone()));
    let (_, head) = pages.merge(&setup.project, 1, "ci", at()).await.unwrap();
    assert_eq!(head, ends.1, "a merge that was not recorded is repeated without another commit");
    let between = Some(ends);
    setup.store.end_pull("shop", 1, PullEnding { state: PullState::Merged, at: at(), between }).await.unwrap();
    assert_eq!(forge.pull_state(1).await, Ok(Some(PullState::Merged)));
    assert_eq!(pages.merge(&setup.project, 1, "ci", at()).await, Err(PullPagesError::NotOpen));
    assert_eq!(pages.pull(&setup.project, 1).await.unwrap().diff, detail.diff, "the page does not change");
    assert_eq!(ensure(&*forge, &pull("topic")).await, Ok(Ensured::NoChanges), "main contains the branch");
}

#[tokio::test]
async fn branches_that_conflict_are_not_merged() {
    let setup = setup().await;
    setup.commit("topic", "README", "topic\n").await;
    setup.checkout("HEAD~1").await;
    setup.commit("main", "README", "main\n").await;
    let forge = setup.hosts.of(&setup.project).await.unwrap();
    forge.open_pull(&pull("topic")).await.unwrap().unwrap();
    let pages = setup.hosts.local();
    assert!(!pages.pull(&setup.project, 1).await.unwrap().mergeable);
    let refused = pages.merge(&setup.project, 1, "ci", at()).await;
    assert!(matches!(refused, Err(PullPagesError::Conflict { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_missing_base_or_head_is_refused_by_name() {
    let setup = setup().await;
    let forge = setup.hosts.of(&setup.project).await.unwrap();
    let refused = forge.open_pull(&pull("nowhere")).await.unwrap_err();
    assert!(refused.to_string().contains("\"nowhere\""), "{refused}");
    let based = NewPull { base: Some("gone".into()), ..pull("main") };
    assert!(forge.open_pull(&based).await.unwrap_err().to_string().contains("\"gone\""));
}

#[tokio::test]
async fn restricted_hosts_are_recognized_by_their_address() {
    let setup = setup().await;
    let found = setup.hosts.restricted_host("git@0xa9fea9fe:x.git").await.map(|host| host.to_string());
    assert_eq!(found.as_deref(), Some("169.254.169.254, a cloud metadata service"));
    // `localhost` is resolved without a network.
    assert!(setup.hosts.addresses("localhost").await.iter().all(|address| address.is_loopback()));
    for other in ["http://localhost:3000/x", "local:shop", "/srv/git/x.git"] {
        assert_eq!(setup.hosts.restricted_host(other).await, None, "{other}");
    }
}

#[tokio::test]
async fn a_plain_remote_opens_no_pull_request_and_says_why() {
    let setup = setup().await;
    let elsewhere = project("/srv/git/elsewhere.git");
    setup.hosts.prepare(&elsewhere).await.unwrap();
    let forge = setup.hosts.of(&elsewhere).await.unwrap();
    assert_eq!(forge.remote().await.unwrap().url, "/srv/git/elsewhere.git");
    let Err(ForgeError::NoPulls(reason)) = ensure(&*forge, &pull("x")).await else { panic!("pull request opened") };
    assert_eq!(reason.code, ReasonCode::NoCodeHost);
    assert_eq!(setup.hosts.local().pulls(&elsewhere).await, Err(PullPagesError::NotFound));
}
