//! Tests with repositories of git.

use std::collections::BTreeSet;
use std::fs::FileTimes;
use std::time::SystemTime;

use journeyman_core::ids::Sha;

use super::*;
use crate::Runner;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A bare repository.
struct Repository {
    _dir: tempfile::TempDir,
    path: PathBuf,
    git: Git,
}

impl Repository {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.git");
        let runner = Runner {
            program: "git".into(),
            path: "/usr/local/bin:/usr/bin:/bin".into(),
            environment: vec![],
            askpass: None,
        };
        let git = Git::new(runner);
        git.at(&path, ["init", "--quiet", "--bare", "--initial-branch=main"]).run().await.unwrap();
        Self { _dir: dir, path, git }
    }

    async fn run(&self, arguments: &[&str]) -> String {
        self.git.at(&self.path, arguments).run().await.unwrap().text().unwrap()
    }

    /// Makes a commit with one file, and a branch with it.
    async fn commit(&self, branch: &str) -> Sha {
        let name = branch.to_owned();
        let blob = self.git.at(&self.path, ["hash-object", "-w", "--stdin"]).stdin(name).run().await.unwrap();
        let entry = format!("100644 blob {}\ta\n", blob.sha().unwrap());
        let tree = self.git.at(&self.path, ["mktree"]).stdin(entry).run().await.unwrap().sha().unwrap();
        let commit = self.run(&["commit-tree", "-m", branch, tree.as_str()]).await;
        self.run(&["update-ref", &format!("refs/heads/{branch}"), &commit]).await;
        commit.parse().unwrap()
    }

    async fn has(&self, commit: &Sha) -> bool {
        self.git.at(&self.path, ["cat-file", "-e", commit.as_str()]).run().await.is_ok()
    }

    async fn objects(&self) -> BTreeSet<String> {
        let all = self.run(&["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]).await;
        all.lines().map(str::to_owned).collect()
    }

    async fn refs(&self) -> String {
        self.run(&["for-each-ref"]).await
    }

    fn contents(&self) -> Contents {
        Contents::of(&self.path).unwrap()
    }

    /// Sets what was done when; `None` stands for a repository without a record.
    fn record(&self, maintenance: Maintenance) {
        std::fs::write(self.path.join(RECORD), maintenance.text()).unwrap();
    }

    async fn begin(&self, now: Timestamp) -> Option<RepositoryMaintenance> {
        RepositoryMaintenance::begin(&self.git, &self.path, now).await.unwrap()
    }

    /// Carries out all steps that are due.
    async fn maintain(&self, now: Timestamp) -> bool {
        let Some(mut maintenance) = self.begin(now).await else { return false };
        maintenance.pack_objects().await.unwrap();
        maintenance.pack_refs(Vec::new()).await.unwrap();
        maintenance.remove_unreachable().await.unwrap();
        true
    }

    /// Repacks everything, as a week after the last time.
    async fn repack(&self, now: Timestamp) {
        let before = now - DAY * 8;
        self.record(Maintenance { packed_at: Some(before + DAY), swept_at: now, repacked_at: before });
        assert!(self.maintain(now).await);
    }

    /// Makes all files of objects look as if they were written before `age`.
    fn grow_old(&self, now: Timestamp, age: Duration) {
        let at = SystemTime::UNIX_EPOCH + (now - age).since(Timestamp::default());
        for entry in std::fs::read_dir(self.path.join("objects/pack")).unwrap() {
            let file = File::open(entry.unwrap().path()).unwrap();
            file.set_times(FileTimes::new().set_modified(at)).unwrap();
        }
    }

    async fn is_whole(&self) {
        self.run(&["fsck", "--strict", "--no-dangling"]).await;
    }
}

fn now() -> Timestamp {
    // Git compares with the times of files, which the system sets.
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().metadata().unwrap().modified().unwrap();
    Timestamp::default() + at.duration_since(SystemTime::UNIX_EPOCH).unwrap()
}

async fn with_branches(count: usize) -> Repository {
    let repository = Repository::new().await;
    for number in 0..count {
        repository.commit(&format!("team/{number}")).await;
    }
    repository
}

#[tokio::test]
async fn objects_and_refs_are_packed_and_nothing_is_lost() {
    let repository = with_branches(20).await;
    let unreachable = repository.commit("gone").await;
    repository.run(&["update-ref", "-d", "refs/heads/gone"]).await;
    let (objects, refs, now) = (repository.objects().await, repository.refs().await, now());
    assert!(repository.maintain(now).await);
    let after = repository.contents();
    assert_eq!((after.loose, after.packs.len(), after.refs), (0, 1, 0));
    assert_eq!((repository.objects().await, repository.refs().await), (objects, refs));
    assert!(repository.has(&unreachable).await);
    repository.is_whole().await;
    let folders = |folder: &str| std::fs::read_dir(repository.path.join(folder)).unwrap().count();
    assert_eq!((folders("objects"), folders("refs/heads")), (2, 0), "only `info` and `pack` are left");
}

#[tokio::test]
async fn a_repository_is_packed_again_after_an_hour_and_into_few_packs() {
    let repository = with_branches(20).await;
    let now = now();
    assert!(repository.maintain(now).await);
    for round in 1..=4 {
        for number in 0..20 {
            repository.commit(&format!("round/{round}/{number}")).await;
        }
        let hour = Duration::from_secs(3600);
        assert!(!repository.maintain(now + hour * round - Duration::from_secs(1)).await, "it is not due");
        assert!(repository.maintain(now + hour * round).await);
        let Contents { loose, packs, refs, .. } = repository.contents();
        assert_eq!((loose, refs), (0, 0));
        assert!(packs.len() <= 3, "{packs:?}");
    }
    repository.is_whole().await;
}

#[tokio::test]
async fn a_small_repository_and_one_that_another_process_packs_are_left_alone() {
    let small = with_branches(3).await;
    assert!(!small.maintain(now()).await && small.contents().loose > 0);
    let large = with_branches(20).await;
    let held = large.begin(now()).await;
    assert!(held.is_some() && large.begin(now() + DAY).await.is_none());
    drop(held);
    assert!(large.begin(now() + DAY).await.is_some());
}

#[tokio::test]
async fn packs_in_use_stay_and_unfinished_packs_of_dead_processes_go() {
    let repository = with_branches(20).await;
    let now = now();
    assert!(repository.maintain(now).await);
    let pack = repository.contents().packs.remove(0).name;
    let file = |name: &str| repository.path.join("objects/pack").join(name);
    std::fs::write(file(&format!("{pack}.keep")), "receive-pack 1\n").unwrap();
    for name in ["tmp_pack_old", ".tmp-1-pack-old"] {
        std::fs::write(file(name), "x").unwrap();
    }
    repository.grow_old(now, DAY * 2);
    std::fs::write(file("tmp_pack_new"), "x").unwrap();
    for number in 0..40 {
        repository.commit(&format!("more/{number}")).await;
    }
    assert!(repository.maintain(now + DAY).await);
    assert!(file(&format!("{pack}.pack")).exists() && file("tmp_pack_new").exists());
    assert!(!file("tmp_pack_old").exists() && !file(".tmp-1-pack-old").exists());
    repository.is_whole().await;
}

#[tokio::test]
async fn an_old_object_is_kept_for_two_weeks_after_it_was_found_unreachable() {
    let repository = with_branches(20).await;
    let (now, commit) = (now(), repository.commit("gone").await);
    assert!(repository.maintain(now).await);
    repository.grow_old(now, DAY * 100);
    repository.run(&["update-ref", "-d", "refs/heads/gone"]).await;
    repository.repack(now).await;
    assert!(repository.has(&commit).await && repository.contents().has_unreachable);
    // Git's own rule, the control: the pack of the commit is old.
    repository.repack(now + DAY * 13).await;
    assert!(repository.has(&commit).await, "it may be in use");
    repository.repack(now + DAY * 15).await;
    assert!(!repository.has(&commit).await && !repository.contents().has_unreachable);
    repository.is_whole().await;
}

#[tokio::test]
async fn an_unreachable_object_that_gets_a_ref_again_stays() {
    let repository = with_branches(20).await;
    let (now, commit) = (now(), repository.commit("gone").await);
    repository.run(&["update-ref", "-d", "refs/heads/gone"]).await;
    repository.repack(now).await;
    repository.run(&["update-ref", "refs/heads/back", commit.as_str()]).await;
    repository.repack(now + DAY * 30).await;
    assert!(repository.has(&commit).await && !repository.contents().has_unreachable);
    repository.is_whole().await;
}

#[tokio::test]
async fn refs_that_go_make_their_objects_unreachable_for_the_next_complete_packing() {
    let repository = with_branches(20).await;
    let now = now();
    repository.record(Maintenance { packed_at: Some(now - DAY * 9), swept_at: now - DAY, repacked_at: now - DAY * 8 });
    let mut maintenance = repository.begin(now).await.unwrap();
    assert!(maintenance.sweeps() && !maintenance.removes());
    maintenance.pack_refs(b"delete refs/heads/team/1\n".to_vec()).await.unwrap();
    drop(maintenance);
    assert_eq!(repository.contents().refs, 0);
    assert!(!repository.refs().await.contains("team/1\n"));
    let mut maintenance = repository.begin(now + DAY).await.unwrap();
    assert!(maintenance.removes(), "refs have changed since");
    maintenance.pack_refs(Vec::new()).await.unwrap();
    maintenance.remove_unreachable().await.unwrap();
    assert!(repository.contents().has_unreachable);
}

#[tokio::test]
async fn a_damaged_object_stays_as_it_is() {
    let repository = with_branches(20).await;
    let folder = std::fs::read_dir(repository.path.join("objects")).unwrap().map(|entry| entry.unwrap().path());
    let folder = folder.filter(|path| path.file_name().unwrap().len() == 2).min().unwrap();
    let object = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(&object).unwrap();
    std::fs::write(&object, "damaged").unwrap();
    let maintenance = repository.begin(now()).await.unwrap();
    maintenance.pack_objects().await.unwrap();
    assert_eq!(std::fs::read(&object).unwrap(), b"damaged");
    assert_eq!(repository.contents().loose, 1);
}

#[tokio::test]
async fn a_repository_with_a_damaged_pack_keeps_its_files_and_is_not_tried_at_once() {
    let repository = with_branches(20).await;
    let now = now();
    assert!(repository.maintain(now).await);
    let pack = repository.path.join(format!("objects/pack/{}.pack", repository.contents().packs[0].name));
    let mut bytes = std::fs::read(&pack).unwrap();
    let end = bytes.len() - 20;
    bytes[12..end].fill(0xff);
    std::fs::remove_file(&pack).unwrap();
    std::fs::write(&pack, bytes).unwrap();
    for number in 0..40 {
        repository.commit(&format!("more/{number}")).await;
    }
    let before = repository.contents();
    let maintenance = repository.begin(now + DAY).await.unwrap();
    let error = maintenance.pack_objects().await.unwrap_err();
    assert!(matches!(error, MaintenanceError::Git(_)), "{error}");
    assert_eq!(repository.contents(), before);
    drop(maintenance);
    assert!(repository.begin(now + DAY + Duration::from_secs(60)).await.is_none());
}

#[tokio::test]
async fn pushes_and_reads_during_the_packing_lose_nothing() {
    let repository = with_branches(40).await;
    let now = now();
    let packing = async {
        for round in 0..5 {
            repository.maintain(now + DAY * 8 * round).await;
        }
    };
    let pushing = async {
        for number in 0..60 {
            let commit = repository.commit(&format!("push/{number}")).await;
            repository.run(&["log", "--format=%T", commit.as_str()]).await;
        }
    };
    tokio::join!(packing, pushing);
    assert_eq!(repository.refs().await.lines().count(), 100);
    repository.is_whole().await;
}
