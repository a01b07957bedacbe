use uuid::Uuid;

use super::*;
use crate::ProjectMirrors;
use crate::fixture::Fixture;

const OID: &str = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393";

fn pointer(bytes: u64) -> Pointer {
    Pointer { oid: OID.to_owned(), bytes }
}

fn file(path: &str, bytes: u64) -> LfsFile {
    LfsFile { path: path.into(), pointer: pointer(bytes) }
}

struct Setup {
    fixture: Fixture,
    mirrors: ProjectMirrors,
    scratch: Scratch,
    job: JobId,
}

impl Setup {
    async fn new() -> Self {
        let fixture = Fixture::new().await;
        let (mirrors, scratch) = (fixture.mirrors(), Scratch::new(fixture.dir.path()));
        Self { fixture, mirrors, scratch, job: JobId::from_uuid(Uuid::from_u128(1)) }
    }

    async fn tree(&self, commit: &Sha) -> LfsTree {
        let mirror = self.fixture.mirror(&self.mirrors).await;
        let tree = mirror.lfs_tree(commit, &self.scratch, self.job).await.unwrap();
        assert!(mirror.tree_sizes.lfs(commit).is_some(), "the next time, no git is started");
        (*tree).clone()
    }

    async fn changes(&self, base: &Sha, head: &Sha) -> LfsChanges {
        let mirror = self.fixture.mirror(&self.mirrors).await;
        mirror.lfs_changes(base, None, head, &self.scratch, self.job).await.unwrap()
    }
}

#[tokio::test]
async fn files_in_lfs_are_found_by_the_attributes_of_the_commit() {
    let setup = Setup::new().await;
    let text = pointer(7).text();
    let base = setup.fixture.base.clone();
    assert_eq!(setup.tree(&base).await, LfsTree::default());
    let other = setup.fixture.commit(&[(".gitattributes", Some("*.txt text\n")), ("m.bin", Some(&text))]).await;
    assert_eq!(setup.tree(&other).await, LfsTree::default());
    let head = setup
        .fixture
        .commit(&[
            (".gitattributes", Some("[attr]big filter=lfs\n*.bin big\nplain.bin -filter\n")),
            ("sub/.gitattributes", Some("*.dat filter=lfs\n")),
            ("sub/x.dat", Some(&pointer(8).text())),
            ("y.dat", Some(&text)),
            ("plain.bin", Some(&text)),
            ("raw.bin", Some("content")),
            ("empty.bin", Some("")),
        ])
        .await;
    let files = vec![file("m.bin", 7), file("sub/x.dat", 8)];
    assert_eq!(setup.tree(&head).await, LfsTree { is_used: true, files, other_server: None });
    assert!(!setup.fixture.dir.path().join("scratch").join(format!("{}.lfs-index", setup.job)).exists());
}

#[tokio::test]
async fn another_server_is_found() {
    let setup = Setup::new().await;
    for (config, expected) in [
        ("[lfs]\n\turl = https://example.com/lfs\n", Some("lfs.url")),
        ("[remote \"origin\"]\n\tlfsurl = https://example.com/lfs\n", Some("remote.origin.lfsurl")),
        ("[lfs]\n\tfetchexclude = x\n", None),
        ("[lfs\n", Some("a setting that git cannot read")),
    ] {
        let files = [(".gitattributes", Some("*.bin filter=lfs\n")), (LFS_CONFIG, Some(config))];
        let commit = setup.fixture.commit(&files).await;
        assert_eq!(setup.tree(&commit).await.other_server.as_deref(), expected, "{config}");
    }
}

#[tokio::test]
async fn changes_are_those_of_all_commits() {
    let setup = Setup::new().await;
    let base = setup.fixture.commit(&[(".gitattributes", Some("*.bin filter=lfs\n"))]).await;
    setup.fixture.commit(&[("a.bin", Some(&pointer(1).text())), ("b.txt", Some("x"))]).await;
    let clean = setup.fixture.commit(&[("a.bin", Some(&pointer(2).text())), ("empty.bin", Some(""))]).await;
    let found = setup.changes(&base, &clean).await;
    assert_eq!((found.pointers.len(), &found.content), (2, &None));
    assert!(found.pointers.contains(&file("a.bin", 1)) && found.pointers.contains(&file("a.bin", 2)));
    setup.fixture.commit(&[("raw.bin", Some("content"))]).await;
    let head = setup.fixture.commit(&[("raw.bin", Some(&pointer(3).text()))]).await;
    let found = setup.changes(&base, &head).await;
    assert_eq!((found.pointers.len(), found.content), (3, Some("raw.bin".into())));
    assert_eq!(setup.changes(&head, &head).await, LfsChanges::default());
    let removed = setup.fixture.commit(&[("raw.bin", None), (".gitattributes", None)]).await;
    assert_eq!(setup.changes(&head, &removed).await, LfsChanges::default());
}
