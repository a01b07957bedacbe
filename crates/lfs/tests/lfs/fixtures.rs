//! What the tests share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use journeyman_core::lfs::{Hasher, Pointer};
use journeyman_core::ports::{Blobs, Credential, LfsUpload, Reach, Remote};
use journeyman_git::{Git, Runner};
use journeyman_lfs::Lfs;
use journeyman_net::Outbound;
use journeyman_testkit::{MemoryBlobs, World};
use tempfile::TempDir;

pub(crate) fn pointer(content: &[u8]) -> Pointer {
    let mut hasher = Hasher::default();
    hasher.update(content);
    hasher.pointer()
}

/// The objects of repositories, and a temporary folder.
pub(crate) struct Given {
    pub(crate) dir: TempDir,
    pub(crate) blobs: Arc<MemoryBlobs>,
    pub(crate) lfs: Lfs,
    pub(crate) git: Git,
}

impl Given {
    pub(crate) fn new() -> Self {
        let path = "/usr/local/bin:/usr/bin:/bin".into();
        let git = Git::new(Runner { program: "git".into(), path, environment: vec![], askpass: None });
        let world = World::new();
        let (dir, blobs) = (tempfile::tempdir().unwrap(), Arc::new(MemoryBlobs::new(world.clone())));
        std::fs::create_dir(dir.path().join("in")).unwrap();
        let lfs = Lfs::new(git.clone(), Arc::clone(&blobs) as Arc<dyn Blobs>, world);
        // Other servers than that of the repository are on this machine too.
        let networks = Arc::from(["127.0.0.0/8".parse().unwrap()]);
        let lfs = lfs.with_outbound(Outbound { networks, ..Outbound::default() });
        let lfs = lfs.with_pause(Duration::from_millis(1));
        Self { dir, blobs, lfs, git }
    }

    /// Creates an empty repository of the built-in host, and returns it as a remote.
    pub(crate) async fn hosted(&self, name: &str) -> Remote {
        let path = self.dir.path().join("repositories").join(format!("{name}.git"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        self.git.at(&path, ["init", "--quiet", "--bare"]).run().await.unwrap();
        Remote { url: path.to_str().unwrap().to_owned(), credential: None, is_ours: true, reach: Reach::Public }
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
    Remote { url: url.to_owned(), credential, is_ours: false, reach: Reach::Private }
}
