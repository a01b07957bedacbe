//! The objects of repositories at a path.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use journeyman_core::lfs::Pointer;
use journeyman_core::ports::{LfsError, LfsObjects, Reach, Remote};

use crate::fixtures::{Given, pointer};

/// Creates a repository with a working tree, and returns its git directory.
fn repository(given: &Given) -> (Remote, PathBuf) {
    let path = given.dir.path().join("shop");
    let made = Command::new("git").args(["init", "--quiet"]).arg(&path).status().unwrap();
    assert!(made.success());
    let url = path.to_str().unwrap().to_owned();
    (Remote { url, credential: None, is_ours: false, reach: Reach::Public }, path.join(".git"))
}

fn file(git_dir: &Path, pointer: &Pointer) -> PathBuf {
    git_dir.join("lfs/objects").join(&pointer.oid[..2]).join(&pointer.oid[2..4]).join(&pointer.oid)
}

#[tokio::test]
async fn objects_are_where_git_lfs_has_them() {
    let given = Given::new();
    let (remote, git_dir) = repository(&given);
    let upload = given.upload(b"content");
    let object = upload.pointer.clone();
    let missing = given.lfs.missing(&remote, "main", &[object.clone()]).await.unwrap();
    assert_eq!((missing.len(), &missing[0].error), (1, &LfsError::Missing));
    given.lfs.upload(&remote, "main", &[upload.clone()]).await.unwrap();
    assert_eq!(std::fs::read(file(&git_dir, &object)).unwrap(), b"content");
    assert_eq!(std::fs::read_dir(file(&git_dir, &object).parent().unwrap()).unwrap().count(), 1, "no draft is left");
    // A second upload changes nothing.
    given.lfs.upload(&remote, "main", &[upload]).await.unwrap();
    let by_url = Remote { url: format!("file://{}", remote.url), ..remote.clone() };
    assert_eq!(given.lfs.missing(&by_url, "main", &[object.clone()]).await, Ok(Vec::new()));
    assert_eq!(given.lfs.download(&by_url, &[object.clone()], &given.folder()).await, Ok(Vec::new()));
    assert_eq!(given.downloaded(&object).unwrap(), b"content");
}

#[tokio::test]
async fn a_damaged_object_is_refused_and_replaced_by_an_upload() {
    let given = Given::new();
    let (remote, git_dir) = repository(&given);
    let upload = given.upload(b"content");
    let object = upload.pointer.clone();
    std::fs::create_dir_all(file(&git_dir, &object).parent().unwrap()).unwrap();
    std::fs::write(file(&git_dir, &object), b"CONTENT").unwrap();
    let failures = given.lfs.download(&remote, &[object.clone()], &given.folder()).await.unwrap();
    assert!(failures[0].error.to_string().contains("damaged"), "{failures:?}");
    assert_eq!(given.downloaded(&object), None);
    // git-lfs, too, knows a damaged object by its size only.
    std::fs::write(file(&git_dir, &object), b"cut").unwrap();
    assert_eq!(given.lfs.missing(&remote, "main", &[object.clone()]).await.unwrap().len(), 1);
    given.lfs.upload(&remote, "main", &[upload]).await.unwrap();
    assert_eq!(std::fs::read(file(&git_dir, &object)).unwrap(), b"content");
}

#[tokio::test]
async fn links_in_the_repository_lead_nowhere() {
    let given = Given::new();
    let (remote, git_dir) = repository(&given);
    let upload = given.upload(b"content");
    let object = upload.pointer.clone();
    let outside = given.dir.path().join("outside");
    std::fs::create_dir_all(outside.join(&object.oid[..2]).join(&object.oid[2..4])).unwrap();
    std::fs::write(outside.join(&object.oid[..2]).join(&object.oid[2..4]).join(&object.oid), b"content").unwrap();
    std::fs::create_dir(git_dir.join("lfs")).unwrap();
    symlink(&outside, git_dir.join("lfs/objects")).unwrap();
    let failures = given.lfs.download(&remote, &[object.clone()], &given.folder()).await.unwrap();
    assert_eq!(failures[0].error, LfsError::Missing);
    assert!(given.lfs.upload(&remote, "main", &[upload]).await.is_err());
    std::fs::remove_file(git_dir.join("lfs/objects")).unwrap();
    std::fs::create_dir_all(file(&git_dir, &object).parent().unwrap()).unwrap();
    symlink("/dev/zero", file(&git_dir, &object)).unwrap();
    assert_eq!(given.lfs.missing(&remote, "main", &[object]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn other_content_is_not_stored() {
    let given = Given::new();
    let (remote, git_dir) = repository(&given);
    let mut upload = given.upload(b"content");
    upload.pointer = pointer(b"CONTENT");
    let refused = given.lfs.upload(&remote, "main", &[upload.clone()]).await;
    assert!(matches!(refused, Err(LfsError::Refused(_))), "{refused:?}");
    let folder = file(&git_dir, &upload.pointer);
    assert_eq!(std::fs::read_dir(folder.parent().unwrap()).unwrap().count(), 0, "no draft is left");
}

#[tokio::test]
async fn a_repository_that_is_not_used_has_no_objects() {
    let given = Given::new();
    let remote = Remote { url: "/nonexistent".to_owned(), credential: None, is_ours: false, reach: Reach::Public };
    let missing = given.lfs.missing(&remote, "main", &[pointer(b"x")]).await;
    assert!(matches!(missing, Err(LfsError::Unsupported(_))), "{missing:?}");
    let remote = Remote { url: "git@example.com:a/b".to_owned(), ..remote };
    let missing = given.lfs.missing(&remote, "main", &[pointer(b"x")]).await;
    assert!(matches!(&missing, Err(LfsError::Unsupported(text)) if text.contains("https://")), "{missing:?}");
}
