//! Repairs a damaged mirror: builds a new one next to it, copies the readable commits that only the damaged one has,
//! and replaces it.

use std::path::Path;

use journeyman_core::ports::Remote;

use crate::failure::Stopped;
use crate::mirror::{Mirror, Mirrors, look_at, synced};
use crate::removal::remove_folder;

impl Mirrors {
    /// Recreates the mirror of a remote. Jobs that use the mirror meanwhile find the old one until the new one is
    /// complete.
    pub(crate) async fn repair(&self, remote: &Remote) -> Result<(), Stopped> {
        let path = self.path(&remote.url);
        let turn = self.turn(&path);
        let _turn = turn.lock().await;
        let (new, old) = (path.with_extension("new"), path.with_extension("old"));
        for left in [&new, &old] {
            remove_folder(left).await?;
        }
        let mirror = self.fetch_into(new.clone(), remote.clone()).await?;
        let folders = look_at(&new).await?;
        mirror.take_over(&path).await;
        synced(folders).await?;
        match tokio::fs::rename(&path, &old).await {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        tokio::fs::rename(&new, &path).await?;
        Ok(remove_folder(&old).await?)
    }
}

impl Mirror {
    /// Fetches the commits of jobs from a damaged mirror, one ref at a time, if they are completely readable. They may
    /// be the only copy of work that was not published yet.
    async fn take_over(&self, damaged: &Path) {
        let list = self.git.at(damaged, ["for-each-ref", "--format=%(refname)", "refs/jobs"]).run().await;
        let Ok(names) = list.and_then(journeyman_git::Output::text) else { return };
        for name in names.lines() {
            let refspec = format!("+{name}:{name}");
            let url = damaged.to_string_lossy();
            let arguments = ["-c", "fetch.fsckObjects=true", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head"];
            let fetch = self.git.at(&self.path, arguments.into_iter().chain(["--", &url, &refspec]));
            if let Err(error) = fetch.run().await {
                tracing::warn!(
                    mirror = %damaged.display(), name, %error,
                    "a job's commits could not be copied from a damaged mirror"
                );
            }
        }
    }
}
