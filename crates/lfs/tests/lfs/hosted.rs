//! The objects of the built-in code host.

use journeyman_core::ports::{LfsError, LfsFailure, LfsObjects, Remote};

use crate::given::{Given, pointer};

fn ours() -> Remote {
    Remote { url: "/srv/repositories/shop.git".to_owned(), credential: None, is_ours: true }
}

#[tokio::test]
async fn an_uploaded_object_can_be_downloaded_from_the_same_repository_only() {
    let given = Given::new();
    let upload = given.upload(b"content of a model");
    let object = upload.pointer.clone();
    let missing = vec![LfsFailure { pointer: object.clone(), error: LfsError::Missing }];
    assert_eq!(given.lfs.missing(&ours(), "main", &[object.clone()]).await, Ok(missing.clone()));
    assert_eq!(given.lfs.download(&ours(), &[object.clone()], &given.folder()).await, Ok(missing.clone()));
    given.lfs.upload(&ours(), "main", &[upload]).await.unwrap();
    let keys: Vec<String> = given.blobs.0.lock().unwrap().keys().cloned().collect();
    assert_eq!(keys, [format!("lfs/shop/{}", object.oid)]);
    assert_eq!(given.lfs.missing(&ours(), "main", &[object.clone()]).await, Ok(Vec::new()));
    assert_eq!(given.lfs.download(&ours(), &[object.clone()], &given.folder()).await, Ok(Vec::new()));
    assert_eq!(given.downloaded(&object).unwrap(), b"content of a model");
    let other = Remote { url: "/srv/repositories/other.git".to_owned(), ..ours() };
    assert_eq!(given.lfs.missing(&other, "main", &[object]).await, Ok(missing));
}

#[tokio::test]
async fn content_that_does_not_match_its_pointer_is_neither_stored_nor_given_out() {
    let given = Given::new();
    let mut upload = given.upload(b"right");
    upload.pointer = pointer(b"other");
    let refused = given.lfs.upload(&ours(), "main", &[upload]).await;
    assert!(matches!(refused, Err(LfsError::Refused(_))), "{refused:?}");
    assert!(given.blobs.0.lock().unwrap().is_empty());
    let damaged = pointer(b"right");
    for (content, expected) in [(b"wrong".as_slice(), "hash"), (b"right and more", "longer"), (b"rig", "ended after")] {
        given.blobs.0.lock().unwrap().insert(damaged.blob_key("shop"), content.to_vec());
        let failures = given.lfs.download(&ours(), &[damaged.clone()], &given.folder()).await.unwrap();
        assert!(failures[0].error.to_string().contains(expected), "{failures:?}");
        assert_eq!(given.downloaded(&damaged), None);
    }
}
