//! The contract of all blob stores, tested on a folder and on an object store in memory.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::PathBuf;
use std::sync::Arc;

use futures::TryStreamExt;
use journeyman_blobs::{Bucket, Folder};
use journeyman_core::ports::Blobs;
use tempfile::TempDir;

struct Setup {
    name: &'static str,
    blobs: Arc<dyn Blobs>,
    dir: TempDir,
}

fn setups() -> Vec<Setup> {
    let dir = || tempfile::tempdir().unwrap();
    let folder = dir();
    vec![
        Setup { name: "folder", blobs: Arc::new(Folder::new(folder.path().join("blobs"), false)), dir: folder },
        Setup { name: "bucket", blobs: Arc::new(Bucket::open("memory:///some/folder", []).unwrap()), dir: dir() },
    ]
}

impl Setup {
    fn file(&self, name: &str, text: &[u8]) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    async fn read(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.dir.path().join("read");
        self.blobs.get(key, &path).await.unwrap().then(|| std::fs::read(&path).unwrap())
    }

    async fn keys(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<String> {
        let blobs = self.blobs.list(prefix, after, limit).await.unwrap();
        assert!(blobs.iter().all(|blob| blob.written_at.as_micros() > 0), "{}", self.name);
        assert!(blobs.iter().all(|blob| blob.bytes == 1), "{}", self.name);
        blobs.into_iter().map(|blob| blob.key).collect()
    }
}

#[tokio::test]
async fn a_blob_can_be_read_until_it_is_deleted() {
    for setup in setups() {
        let name = setup.name;
        // Larger than one part of an upload.
        let large: Vec<u8> = (0..12 << 20).map(|number: usize| (number % 251) as u8).collect();
        for (key, text) in [("sessions/job_1/1.tar.gz", b"a".as_slice()), ("sessions/job_1/2.tar.gz", &large)] {
            let file = setup.file("new", text);
            setup.blobs.put(key, &file).await.unwrap();
            assert!(!file.exists(), "{name}: the file was moved");
            assert_eq!(setup.read(key).await.as_deref(), Some(text), "{name}");
            assert_eq!(setup.blobs.find(key).await.unwrap().unwrap().bytes, text.len() as u64, "{name}");
            let opened = setup.blobs.open(key).await.unwrap().unwrap();
            assert_eq!(opened.bytes, text.len() as u64, "{name}");
            let pieces: Vec<_> = opened.body.try_collect().await.unwrap();
            assert_eq!(pieces.concat(), text, "{name}");
        }
        setup.blobs.put("sessions/job_1/1.tar.gz", &setup.file("new", b"b")).await.unwrap();
        assert_eq!(setup.read("sessions/job_1/1.tar.gz").await.as_deref(), Some(b"b".as_slice()), "{name}: replaced");
        for _ in 0..2 {
            setup.blobs.delete("sessions/job_1/1.tar.gz").await.unwrap();
            assert_eq!(setup.read("sessions/job_1/1.tar.gz").await, None, "{name}");
            assert_eq!(setup.blobs.find("sessions/job_1/1.tar.gz").await.unwrap(), None, "{name}");
            assert!(setup.blobs.open("sessions/job_1/1.tar.gz").await.unwrap().is_none(), "{name}");
        }
    }
}

#[tokio::test]
async fn a_renewed_blob_is_as_young_as_a_new_one() {
    const KEY: &str = "lfs/shop/a";
    for setup in setups() {
        let name = setup.name;
        assert!(!setup.blobs.renew(KEY).await.unwrap(), "{name}: there is none");
        let file = setup.file("old", b"x");
        std::fs::File::open(&file).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        setup.blobs.put(KEY, &file).await.unwrap();
        let written = setup.blobs.find(KEY).await.unwrap().unwrap();
        assert!(written.written_at.as_micros() > 0, "{name}: the time of the file does not count");
        if name == "folder" {
            let path = setup.dir.path().join("blobs").join(KEY);
            std::fs::File::open(path).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
            assert_eq!(setup.blobs.find(KEY).await.unwrap().unwrap().written_at.as_micros(), 0);
        }
        assert!(setup.blobs.renew(KEY).await.unwrap(), "{name}");
        let renewed = setup.blobs.find(KEY).await.unwrap().unwrap();
        assert!(renewed.written_at >= written.written_at, "{name}");
        assert_eq!(setup.read(KEY).await.as_deref(), Some(b"x".as_slice()), "{name}");
        assert_eq!(setup.keys("lfs", None, 9).await, [KEY], "{name}");
        setup.blobs.delete(KEY).await.unwrap();
        assert!(!setup.blobs.renew(KEY).await.unwrap(), "{name}");
        assert!(setup.blobs.list("renewed", None, 9).await.unwrap().is_empty(), "{name}");
    }
}

#[tokio::test]
async fn a_listing_continues_after_a_key() {
    for setup in setups() {
        let name = setup.name;
        assert!(setup.keys("sessions", None, 9).await.is_empty(), "{name}: the store is empty");
        let all = [
            "sessions/job_1/1.tar.gz",
            "sessions/job_1/2.tar.gz",
            "sessions/job_10/1.tar.gz",
            "sessions/job_2/1.tar.gz",
        ];
        for key in all.iter().rev().chain(&["bundles/job_1/1-a.bundle"]) {
            setup.blobs.put(key, &setup.file("new", b"x")).await.unwrap();
        }
        assert_eq!(setup.keys("sessions", None, 9).await, all, "{name}");
        assert_eq!(setup.keys("sessions", None, 2).await, all[..2], "{name}");
        assert_eq!(setup.keys("sessions", Some(all[1]), 9).await, all[2..], "{name}");
        assert_eq!(setup.keys("sessions/job_1", None, 9).await, all[..2], "{name}: without job_10");
    }
}

#[tokio::test]
async fn a_listing_is_in_the_order_of_whole_keys() {
    for setup in setups() {
        // A hyphen and a dot come before the slash, digits and letters after it.
        let all = ["homes/a-x/1.tar", "homes/a.x/1.tar", "homes/a/1.tar", "homes/a0/1.tar", "homes/ax/1.tar"];
        for key in all {
            setup.blobs.put(key, &setup.file("new", b"x")).await.unwrap();
        }
        assert_eq!(setup.keys("homes", None, 9).await, all, "{}", setup.name);
        for (number, key) in all.into_iter().enumerate() {
            assert_eq!(setup.keys("homes", Some(key), 9).await, all[number + 1..], "{} after {key}", setup.name);
        }
    }
}

#[tokio::test]
async fn a_destination_that_cannot_be_written_is_an_error() {
    for setup in setups() {
        let file = setup.dir.path().join("missing/read");
        assert_eq!(setup.blobs.get("a/b", &file).await, Ok(false), "{}", setup.name);
        setup.blobs.put("a/b", &setup.file("new", b"x")).await.unwrap();
        let error = setup.blobs.get("a/b", &file).await.unwrap_err();
        assert!(error.to_string().contains("No such file"), "{}: {error}", setup.name);
    }
}

#[tokio::test]
async fn errors_name_their_cause() {
    for setup in setups() {
        let missing = setup.dir.path().join("missing");
        let error = setup.blobs.put("a/b", &missing).await.unwrap_err();
        assert!(error.to_string().contains("No such file"), "{}: {error}", setup.name);
    }
    for url in ["nonsense", "gopher://x/y"] {
        assert!(Bucket::open(url, []).is_err(), "{url}");
    }
}
