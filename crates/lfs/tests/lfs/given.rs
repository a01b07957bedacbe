//! What the tests share.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream;
use journeyman_core::lfs::{Hasher, Pointer};
use journeyman_core::ports::{Blob, BlobContent, BlobError, Blobs, Credential, LfsUpload, Remote};
use journeyman_git::{Git, Runner};
use journeyman_lfs::Lfs;
use tempfile::TempDir;

/// Blobs in memory.
#[derive(Default)]
pub(crate) struct Memory(pub(crate) Mutex<BTreeMap<String, Vec<u8>>>);

#[async_trait]
impl Blobs for Memory {
    fn is_shared(&self) -> bool {
        true
    }

    async fn put(&self, key: &str, file: &Path) -> Result<(), BlobError> {
        self.0.lock().unwrap().insert(key.to_owned(), std::fs::read(file).unwrap());
        std::fs::remove_file(file).unwrap();
        Ok(())
    }

    async fn get(&self, _: &str, _: &Path) -> Result<bool, BlobError> {
        Err(BlobError("not used".to_owned()))
    }

    async fn size(&self, key: &str) -> Result<Option<u64>, BlobError> {
        Ok(self.0.lock().unwrap().get(key).map(|content| content.len() as u64))
    }

    async fn open(&self, key: &str) -> Result<Option<BlobContent>, BlobError> {
        let content = self.0.lock().unwrap().get(key).cloned();
        let open = |content: Vec<u8>| {
            let (bytes, pieces) = (content.len() as u64, content.chunks(7).map(<[u8]>::to_vec).collect::<Vec<_>>());
            BlobContent { bytes, body: Box::pin(stream::iter(pieces.into_iter().map(|piece| Ok(piece.into())))) }
        };
        Ok(content.map(open))
    }

    async fn delete(&self, _: &str) -> Result<(), BlobError> {
        Ok(())
    }

    async fn list(&self, _: &str, _: Option<&str>, _: usize) -> Result<Vec<Blob>, BlobError> {
        Ok(Vec::new())
    }
}

pub(crate) fn pointer(content: &[u8]) -> Pointer {
    let mut hasher = Hasher::default();
    hasher.update(content);
    hasher.pointer()
}

/// The objects of repositories, and a temporary folder.
pub(crate) struct Given {
    pub(crate) dir: TempDir,
    pub(crate) blobs: Arc<Memory>,
    pub(crate) lfs: Lfs,
}

impl Given {
    pub(crate) fn new() -> Self {
        let path = "/usr/local/bin:/usr/bin:/bin".into();
        let git = Git::new(Runner { program: "git".into(), path, environment: vec![], askpass: None });
        let (dir, blobs) = (tempfile::tempdir().unwrap(), Arc::new(Memory::default()));
        std::fs::create_dir(dir.path().join("in")).unwrap();
        let lfs = Lfs::new(git, Arc::clone(&blobs) as Arc<dyn Blobs>).with_pause(Duration::from_millis(1));
        Self { dir, blobs, lfs }
    }

    /// Returns the folder for downloads.
    pub(crate) fn folder(&self) -> PathBuf {
        self.dir.path().join("in")
    }

    /// Returns the content of a downloaded object.
    pub(crate) fn downloaded(&self, pointer: &Pointer) -> Option<Vec<u8>> {
        std::fs::read(self.folder().join(&pointer.oid)).ok()
    }

    /// Returns an upload of this content.
    pub(crate) fn upload(&self, content: &[u8]) -> LfsUpload {
        let pointer = pointer(content);
        let file = self.dir.path().join(&pointer.oid);
        std::fs::write(&file, content).unwrap();
        LfsUpload { pointer, file }
    }
}

pub(crate) fn remote(url: &str) -> Remote {
    let credential = Some(Credential { username: "bot".to_owned(), password: "secret".to_owned() });
    Remote { url: url.to_owned(), credential, is_ours: false }
}
