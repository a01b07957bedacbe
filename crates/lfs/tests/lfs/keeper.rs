//! Imports of objects into the built-in code host.

use journeyman_core::lfs::Pointer;
use journeyman_core::ports::{HostedObjects, LfsError, Reach, Remote};
use journeyman_lfs::Keeper;

use crate::fixtures::{Given, pointer};

/// A repository at a path with pointers, and the objects of some of them.
async fn source(given: &Given, objects: &[&str], pointers: &[Pointer]) -> Remote {
    let path = given.dir.path().join("source.git");
    given.git.at(&path, ["init", "--quiet", "--bare"]).run().await.unwrap();
    for pointer in pointers {
        given.git.at(&path, ["hash-object", "-w", "--stdin"]).stdin(pointer.text()).run().await.unwrap();
    }
    for content in objects {
        let oid = pointer(content.as_bytes()).oid;
        let folder = path.join("lfs/objects").join(&oid[..2]).join(&oid[2..4]);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(&oid), content).unwrap();
    }
    Remote { url: path.to_str().unwrap().to_owned(), credential: None, is_ours: false, reach: Reach::Public }
}

#[tokio::test]
async fn an_import_copies_the_objects_that_are_named_and_tells_which_are_missing() {
    let given = Given::new();
    let to = given.hosted("shop").await;
    let keeper = Keeper::new(given.lfs.clone(), given.dir.path().join("scratch"));
    let named: Vec<Pointer> = ["one", "two", "gone", ""].iter().map(|text| pointer(text.as_bytes())).collect();
    let from = source(&given, &["one", "two", "of nothing"], &named).await;
    let scratch = given.dir.path().join("staging");
    std::fs::create_dir(&scratch).unwrap();
    for _ in 0..2 {
        let imported = keeper.import(&from, from.url.as_ref(), to.url.as_ref(), &scratch).await.unwrap();
        assert_eq!((imported.copied, imported.failed), (2, 1));
        let example = imported.example.unwrap();
        assert_eq!((example.pointer, example.error), (named[2].clone(), LfsError::Missing));
        let mut expected = [named[0].blob_key("shop"), named[1].blob_key("shop")];
        expected.sort_unstable();
        assert_eq!(given.blobs.keys(), expected);
    }
}

#[tokio::test]
async fn an_import_from_a_server_without_objects_goes_on_and_says_why() {
    let given = Given::new();
    let to = given.hosted("shop").await;
    let keeper = Keeper::new(given.lfs.clone(), given.dir.path().join("scratch"));
    let staged = source(&given, &[], &[pointer(b"one"), pointer(b"two")]).await;
    let from = Remote { url: "git@host.example:acme/shop.git".to_owned(), ..staged.clone() };
    let scratch = given.dir.path().join("staging");
    std::fs::create_dir(&scratch).unwrap();
    let imported = keeper.import(&from, staged.url.as_ref(), to.url.as_ref(), &scratch).await.unwrap();
    assert_eq!((imported.copied, imported.failed), (0, 2));
    assert!(matches!(imported.example.unwrap().error, LfsError::Unsupported(text) if text.contains("only over HTTP")));
    assert!(given.blobs.keys().is_empty());
}
