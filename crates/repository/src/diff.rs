//! What a job changes, read from the mirror.

use async_trait::async_trait;
use bytes::Bytes;
use journeyman_core::job::Job;
use journeyman_core::ports::{DiffError, Diffs};
use journeyman_core::project::Project;

use crate::bundle;
use crate::worker::Host;
use crate::workspace::Workspace;

/// A diff may have so many bytes.
const BYTES: usize = 64 << 20;

fn unavailable(error: &dyn std::fmt::Display) -> DiffError {
    DiffError::Unavailable(error.to_string())
}

#[async_trait]
impl Diffs for Host {
    async fn diff(&self, project: &Project, job: &Job) -> Result<Bytes, DiffError> {
        let Some(branch) = &job.branch else { return Ok(Bytes::new()) };
        let forge = self.forges.of(project).await.map_err(|error| unavailable(&error))?;
        let remote = forge.remote().await.map_err(|error| unavailable(&error))?;
        let path = self.mirrors.path(&remote.url);
        let mut head = &branch.head;
        if !self.mirrors.has(&path, head).await {
            // Another machine has made it.
            let fetched = async {
                let mirror = self.mirrors.fetch(remote).await?;
                bundle::fetch(&*self.blobs, &mirror, &Workspace::new(&self.data, job, &self.instance), job).await
            };
            let there = fetched.await.map_err(|stopped| unavailable(&stopped))?;
            // What is not published and not shared is only there.
            head = if there { head } else { branch.pushed.as_ref().unwrap_or(&branch.base) };
        }
        let range = format!("{}...{head}", branch.base);
        // The options keep the repository's own configuration and attributes from choosing another form.
        let options =
            ["--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", "--binary"];
        let arguments = ["diff"].into_iter().chain(options).chain([range.as_str(), "--"]);
        let output = self.mirrors.git().at(&path, arguments).stdout_bytes(BYTES).run().await;
        output.map(|output| Bytes::from(output.stdout)).map_err(|error| unavailable(&error))
    }
}
