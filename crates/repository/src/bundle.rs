//! Commits that are not on the code host yet, in the blob store: another machine can publish a turn that ended here.

use journeyman_core::ids::{JobId, Sha};
use journeyman_core::job::{Job, Token};
use journeyman_core::ports::Blobs;
use journeyman_core::run::ReasonCode;

use crate::failure::Stopped;
use crate::mirror::{History, Mirror};
use crate::workspace::Workspace;

/// The folder of bundles in the blob store; below it one for each job.
pub(crate) const BUNDLES: &str = "bundles";

/// Where the commits up to `head` are kept as the lease `token` made them.
pub(crate) fn key(job: JobId, token: Token, head: &Sha) -> String {
    format!("{BUNDLES}/{job}/{}-{head}.bundle", token.0)
}

/// Keeps what leads to `head` from the newest commit that the code host has; its key. `None` where all machines that
/// there are read our mirror, or nothing is new.
pub(crate) async fn keep(
    blobs: &dyn Blobs,
    mirror: &Mirror,
    workspace: &Workspace,
    job: &Job,
    head: &Sha,
) -> Result<Option<String>, Stopped> {
    let Some(branch) = job.branch.as_ref().filter(|_| blobs.is_shared()) else { return Ok(None) };
    let known = branch.pushed.as_ref().unwrap_or(&branch.base);
    if known == head {
        return Ok(None);
    }
    // A bundle holds refs, not commits: the name that keeps the commit here is its name there.
    mirror.keep(&format!("{}/head", job.id), head).await?;
    let file = workspace.scratch("bundle").await?;
    let (path, not) = (file.to_string_lossy().into_owned(), format!("^{known}"));
    let name = format!("refs/jobs/{}/head", job.id);
    mirror.git.at(&mirror.path, ["bundle", "create", "--quiet", &path, &name, &not]).run().await?;
    let key = key(job.id, job.token, head);
    blobs.put(&key, &file).await?;
    Ok(Some(key))
}

/// Brings the job's unpublished commits into the mirror, if they are not there; whether its head is there now.
pub(crate) async fn fetch(
    blobs: &dyn Blobs,
    mirror: &Mirror,
    workspace: &Workspace,
    job: &Job,
) -> Result<bool, Stopped> {
    let Some(branch) = &job.branch else { return Ok(false) };
    if mirror.has(&branch.head).await {
        return Ok(true);
    }
    let Some(key) = &job.bundle else { return Ok(false) };
    let file = workspace.scratch("bundle").await?;
    if !blobs.get(key, &file).await? {
        tracing::warn!(job = %job.id, key, "the commits of a turn are not in the blob store; the turn is done again");
        return Ok(false);
    }
    let (path, name) = (file.to_string_lossy().into_owned(), format!("refs/jobs/{}/head", job.id));
    let target = format!("+{name}:{name}");
    let arguments = ["-c", "transfer.fsckObjects=true", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head"];
    let fetch = mirror.git.at(&mirror.path, arguments.into_iter().chain(["--no-recurse-submodules", &path, &target]));
    let fetched = fetch.run().await;
    tokio::fs::remove_file(&file).await?;
    fetched.map_err(|error| {
        let text = format!("the commits of a turn that ended on another machine cannot be read: {error}");
        Stopped::may_pass(ReasonCode::Internal, text)
    })?;
    Ok(mirror.has(&branch.head).await)
}
