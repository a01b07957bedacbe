//! The objects of the built-in code host.

use journeyman_core::ports::{LfsError, LfsFailure, LfsObjects, Remote};

use crate::fixtures::{Given, pointer};

#[tokio::test]
async fn an_uploaded_object_can_be_downloaded_from_the_same_repository_only() {
    let given = Given::new();
    let ours = given.hosted("shop").await;
    let upload = given.upload(b"content of a model");
    let object = upload.pointer.clone();
    let missing = vec![LfsFailure { pointer: object.clone(), error: LfsError::Missing }];
    assert_eq!(given.lfs.missing(&ours, "main", &[object.clone()]).await, Ok(missing.clone()));
    assert_eq!(given.lfs.download(&ours, &[object.clone()], &given.folder()).await, Ok(missing.clone()));
    given.lfs.upload(&ours, "main", &[upload]).await.unwrap();
    assert_eq!(given.blobs.keys(), [format!("lfs/shop/{}", object.oid)]);
    assert_eq!(given.lfs.missing(&ours, "main", &[object.clone()]).await, Ok(Vec::new()));
    assert_eq!(given.lfs.download(&ours, &[object.clone()], &given.folder()).await, Ok(Vec::new()));
    assert_eq!(given.downloaded(&object).unwrap(), b"content of a model");
    let other = given.hosted("other").await;
    assert_eq!(given.lfs.missing(&other, "main", &[object.clone()]).await, Ok(missing));
    let none = Remote { url: format!("{}x", ours.url), ..ours };
    assert!(matches!(given.lfs.missing(&none, "main", &[object]).await, Err(LfsError::Unsupported(_))));
}

#[tokio::test]
async fn content_that_does_not_match_its_pointer_is_neither_stored_nor_given_out() {
    let given = Given::new();
    let ours = given.hosted("shop").await;
    let mut upload = given.upload(b"right");
    upload.pointer = pointer(b"other");
    let refused = given.lfs.upload(&ours, "main", &[upload]).await;
    assert!(matches!(refused, Err(LfsError::Refused(_))), "{refused:?}");
    assert!(given.blobs.keys().is_empty());
    let damaged = pointer(b"right");
    for (content, expected) in [(b"wrong".as_slice(), "hash"), (b"right and more", "longer"), (b"rig", "ended after")] {
        given.blobs.insert(&damaged.blob_key("shop"), content);
        let failures = given.lfs.download(&ours, &[damaged.clone()], &given.folder()).await.unwrap();
        assert!(failures[0].error.to_string().contains(expected), "{failures:?}");
        assert_eq!(given.downloaded(&damaged), None);
    }
}
