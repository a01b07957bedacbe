//! Tests with repositories of git and blobs in memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use journeyman_core::lfs::{Hasher, Pointer};
use journeyman_core::ports::{HostedObjects as _, LfsObjects as _, Reach, Remote};
use journeyman_core::time::Clock as _;
use journeyman_git::Runner;
use journeyman_testkit::{MemoryBlobs, World};

use super::*;
use crate::{Keeper, Lfs};

const DAY: Duration = Duration::from_secs(24 * 3600);

struct Setup {
    dir: tempfile::TempDir,
    git: Git,
    git_dir: PathBuf,
    world: Arc<World>,
    blobs: Arc<MemoryBlobs>,
    lfs: Lfs,
    keeper: Keeper,
}

fn pointer(content: &str) -> Pointer {
    let mut hasher = Hasher::default();
    hasher.update(content.as_bytes());
    hasher.pointer()
}

impl Setup {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = "/usr/local/bin:/usr/bin:/bin".into();
        let git = Git::new(Runner { program: "git".into(), path, environment: vec![], askpass: None });
        let git_dir = dir.path().join("shop.git");
        git.at(&git_dir, ["init", "--quiet", "--bare"]).run().await.unwrap();
        let world = World::new();
        let blobs = Arc::new(MemoryBlobs::new(world.clone()));
        let lfs = Lfs::new(git.clone(), blobs.clone(), world.clone());
        let keeper = Keeper::new(lfs.clone(), dir.path().join("scratch"));
        Self { dir, git, git_dir, world, blobs, lfs, keeper }
    }

    /// Uploads an object.
    fn object(&self, content: &str) -> Pointer {
        let pointer = pointer(content);
        self.blobs.insert(&pointer.blob_key("shop"), content.as_bytes());
        pointer
    }

    /// Writes a file of the repository, which no ref leads to.
    async fn write(&self, text: String) {
        self.git.at(&self.git_dir, ["hash-object", "-w", "--stdin"]).stdin(text).run().await.unwrap();
    }

    async fn maintain(&self) -> StorageRecord {
        self.keeper.maintain(&self.git_dir, self.world.now()).await.unwrap();
        assert!(self.dir.path().join("scratch").read_dir().unwrap().next().is_none(), "temporary files are removed");
        StorageRecord::read(&std::fs::read_to_string(self.git_dir.join(RECORD)).unwrap()).unwrap()
    }

    fn has(&self, pointer: &Pointer) -> bool {
        self.blobs.keys().contains(&pointer.blob_key("shop"))
    }

    fn remote(&self) -> Remote {
        Remote { url: self.git_dir.to_str().unwrap().to_owned(), credential: None, is_ours: true, reach: Reach::Public }
    }
}

#[tokio::test]
async fn an_object_that_nothing_names_is_removed_after_two_weeks() {
    let setup = Setup::new().await;
    let (named, other_form, unnamed) = (setup.object("named"), setup.object("form"), setup.object("nothing"));
    setup.write(named.text()).await;
    setup.write(format!("oid sha256:{}\r\n", other_form.oid.to_uppercase())).await;
    let storage = setup.maintain().await.storage;
    assert_eq!((storage.lfs_objects, storage.lfs_bytes), (3, 16));
    assert!(storage.git_bytes > 100, "{storage:?}");
    setup.world.advance(DAY * 14);
    assert!(setup.maintain().await.pruned_at.is_none(), "nothing is old enough");
    setup.world.advance(DAY);
    let young = setup.object("young");
    let record = setup.maintain().await;
    assert!(!setup.has(&unnamed));
    for kept in [&named, &other_form, &young] {
        assert!(setup.has(kept), "{kept:?}");
    }
    assert_eq!((record.storage.lfs_objects, record.storage.lfs_bytes), (3, 14));
    assert_eq!(record.pruned_at, Some(setup.world.now()));
}

#[tokio::test]
async fn an_object_that_a_client_was_told_about_stays_for_its_push() {
    let setup = Setup::new().await;
    let (asked, forgotten) = (setup.object("asked"), setup.object("forgotten"));
    setup.world.advance(DAY * 30);
    assert!(setup.lfs.missing(&setup.remote(), "main", std::slice::from_ref(&asked)).await.unwrap().is_empty());
    setup.maintain().await;
    assert!(setup.has(&asked) && !setup.has(&forgotten));
    setup.world.advance(DAY * 15);
    setup.maintain().await;
    assert!(!setup.has(&asked), "its push never came");
}

#[tokio::test]
async fn nothing_is_removed_while_a_client_is_told_what_exists() {
    let setup = Setup::new().await;
    let object = setup.object("object");
    setup.world.advance(DAY * 30);
    let upkeep = Upkeep { git: &setup.git, blobs: &*setup.blobs, git_dir: &setup.git_dir, now: setup.world.now() };
    let scratch = setup.dir.path().to_owned();
    let held = Lock::shared(&setup.git_dir).await.unwrap();
    assert_eq!(upkeep.remove_unnamed(&scratch).await.unwrap(), Removed::default());
    // The client was told: the object is renewed between the listing and the removal.
    let page = upkeep.page(None).await.unwrap();
    setup.blobs.renew(&object.blob_key("shop")).await.unwrap();
    drop(held);
    let mut removed = Removed::default();
    assert!(upkeep.remove(&[&page[0]], &mut removed).await.unwrap());
    assert_eq!(removed, Removed::default());
    assert!(setup.has(&object));
}

#[tokio::test]
async fn a_repository_that_cannot_be_read_loses_no_object() {
    let setup = Setup::new().await;
    let object = setup.object("object");
    setup.world.advance(DAY * 30);
    std::fs::write(setup.git_dir.join("HEAD"), "damaged").unwrap();
    setup.keeper.maintain(&setup.git_dir, setup.world.now()).await.unwrap_err();
    assert!(setup.has(&object));
    setup.keeper.maintain(&setup.git_dir, setup.world.now()).await.unwrap();
    assert!(setup.has(&object), "the failure is not repeated at once");
}

#[tokio::test]
async fn names_are_read_in_parts_of_their_first_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let mut named = Named::create(&dir.path().join("named")).unwrap();
    let oids: Vec<String> = (0..=255_u8).map(|first| format!("{first:02x}{}", "0".repeat(62))).collect();
    oids.iter().for_each(|oid| named.add(oid));
    named.add("nonsense");
    let (all, until) = named.next().unwrap();
    assert_eq!((all.len(), until), (256, 256));
    // As if there were too many for one part.
    let mut named = Named { from: 0, ..named };
    for _ in 0..NAMES * 3 {
        named.add(&oids[200]);
    }
    let mut found = Vec::new();
    let mut ends = Vec::new();
    while ends.last() != Some(&256) {
        let (part, until) = named.next().unwrap();
        assert!(part.iter().all(|oid| u64::from(oid[0]) < until));
        found.extend(part.into_iter().map(|oid| oid[0]));
        ends.push(until);
    }
    found.sort_unstable();
    assert_eq!(found, (0..=255).collect::<Vec<u8>>());
    assert_eq!(ends, [64, 128, 192, 256]);
}

#[tokio::test]
async fn a_removed_repository_leaves_no_object_of_its_name() {
    let setup = Setup::new().await;
    let objects: Vec<Pointer> = (0..3).map(|number| setup.object(&format!("object {number}"))).collect();
    setup.blobs.insert(&objects[0].blob_key("shop2"), b"of another repository");
    let held = Lock::shared(&setup.git_dir).await.unwrap();
    let error = setup.keeper.remove("shop", &setup.git_dir).await.unwrap_err();
    assert!(error.to_string().contains("still being uploaded"), "{error}");
    drop(held);
    setup.keeper.remove("shop", &setup.git_dir).await.unwrap();
    assert_eq!(setup.blobs.keys(), [objects[0].blob_key("shop2")]);
}
