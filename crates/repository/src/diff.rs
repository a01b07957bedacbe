//! The changes of a job, read from the mirror of its repository.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use journeyman_core::job::Job;
use journeyman_core::ports::{Blobs, DiffError, Diffs, Forges};
use journeyman_core::project::Project;

use crate::{Mirrors, Scratch, bundle};

/// The maximum size of a diff in bytes.
const MAX_BYTES: usize = 64 << 20;

/// Reads diffs from the mirrors of a machine.
pub struct MirrorDiffs {
    forges: Arc<dyn Forges>,
    blobs: Arc<dyn Blobs>,
    mirrors: Arc<Mirrors>,
    scratch: Scratch,
}

impl MirrorDiffs {
    /// Returns a reader that uses these mirrors. `data` is the data directory.
    #[must_use]
    pub fn new(forges: Arc<dyn Forges>, blobs: Arc<dyn Blobs>, mirrors: Arc<Mirrors>, data: &Path) -> Self {
        Self { forges, blobs, mirrors, scratch: Scratch::new(data) }
    }
}

fn unavailable(error: &dyn std::fmt::Display) -> DiffError {
    DiffError::Unavailable(error.to_string())
}

#[async_trait]
impl Diffs for MirrorDiffs {
    async fn diff(&self, project: &Project, job: &Job) -> Result<Bytes, DiffError> {
        let Some(branch) = &job.branch else { return Ok(Bytes::new()) };
        let forge = self.forges.of(project).await.map_err(|error| unavailable(&error))?;
        let remote = forge.remote().await.map_err(|error| unavailable(&error))?;
        let path = self.mirrors.path(&remote.url);
        let mut head = &branch.head;
        if !self.mirrors.has(&path, head).await {
            // Another machine made the commit.
            let fetched = async {
                let mirror = self.mirrors.fetch(remote).await?;
                bundle::fetch(&*self.blobs, &mirror, &self.scratch, job).await
            };
            let has_head = fetched.await.map_err(|error| unavailable(&error))?;
            // Commits that are neither published nor in the blob store exist only on that machine.
            head = if has_head { head } else { branch.pushed.as_ref().unwrap_or(&branch.base) };
        }
        let range = format!("{}...{head}", branch.base);
        // The options override the repository's own configuration and attributes, which could select another format.
        let options =
            ["--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", "--binary"];
        let arguments = ["diff"].into_iter().chain(options).chain([range.as_str(), "--"]);
        let output = self.mirrors.git.at(&path, arguments).stdout_bytes(MAX_BYTES).run().await;
        output.map(|output| Bytes::from(output.stdout)).map_err(|error| unavailable(&error))
    }
}
