//! Pushes the sample repository over HTTP, as a user would.

use journeyman_core::ports::{Credential, Reach, Remote};
use journeyman_git::Git;

const README: &str = "# Demo\n";

/// Pushes a first commit to an empty repository. Returns false, and pushes nothing, if the repository has branches.
pub(in crate::cli) async fn push(git: &Git, url: &str, key: &str) -> anyhow::Result<bool> {
    let credential = Some(Credential { username: "demo".to_owned(), password: key.to_owned() });
    let remote = Remote { url: url.to_owned(), credential, is_ours: false, reach: Reach::Private };
    let route = git.route(&remote).await?;
    let heads = git.command(["ls-remote", "--heads", url]).through(&route).run().await?.stdout;
    if !heads.trim_ascii().is_empty() {
        return Ok(false);
    }
    let dir = tempfile::tempdir()?;
    let clone = dir.path().join("demo");
    git.command(["clone", "--quiet", url, "demo"]).directory(dir.path()).through(&route).run().await?;
    std::fs::write(clone.join("README.md"), README)?;
    let here = |arguments: &[&str]| git.command(arguments).directory(&clone).through(&route);
    here(&["add", "--all"]).run().await?;
    here(&["commit", "--quiet", "--message", "Begin"]).run().await?;
    here(&["push", "--quiet", "origin", "HEAD:main"]).run().await?;
    Ok(true)
}
