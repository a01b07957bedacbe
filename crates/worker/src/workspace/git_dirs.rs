//! The git directories of a workspace: the agent's repository, and the committer's.
//!
//! The host writes the files itself instead of running `git init` (gitrepository-layout(5)), which saves a process.

use std::io;
use std::path::Path;

use journeyman_core::ids::Sha;
use journeyman_repository::Mirror;

use super::Workspace;

/// The configuration of the committer's repository, without hooks and helpers.
pub(crate) const COMMITTER_CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\
     \thooksPath = /dev/null\n\tfsmonitor = false\n\tsafecrlf = false\n\texcludesFile = /dev/null\n\tattributesFile = \
     /dev/null\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n";

/// Creates the repository of a tree, with the branch `branch` at the commit `head`, or with a detached head. It uses the
/// objects of the mirror. An existing index is kept.
pub(crate) async fn create_repository(
    tree: &Path,
    mirror: &Mirror,
    head: &Sha,
    branch: Option<&str>,
) -> io::Result<()> {
    let git = tree.join(".git");
    let (at, head) = (format!("{head}\n"), branch.map(|branch| format!("ref: refs/heads/{branch}\n")));
    for dir in ["info", "objects/info", "objects/pack", "refs/heads", "refs/tags"] {
        tokio::fs::create_dir_all(git.join(dir)).await?;
    }
    let files = [
        ("HEAD", head.unwrap_or_else(|| at.clone())),
        ("config", "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n".to_owned()),
        ("objects/info/alternates", format!("{}\n", mirror.objects().display())),
    ];
    for (name, text) in files {
        tokio::fs::write(git.join(name), text).await?;
    }
    if let Some(branch) = branch {
        let file = git.join("refs/heads").join(branch);
        tokio::fs::create_dir_all(file.parent().unwrap_or(&git)).await?;
        tokio::fs::write(file, at).await?;
    }
    Ok(())
}

/// Creates the committer's folder for a tree that will have the commit `head` checked out, with the index that the tree has.
pub(crate) async fn create_commit_dir(workspace: &Workspace, mirror: &Mirror, head: &Sha) -> io::Result<()> {
    let git = workspace.commit_dir.join("git");
    for dir in ["objects/info", "objects/pack", "refs"] {
        tokio::fs::create_dir_all(git.join(dir)).await?;
    }
    let alternates = format!("{}\n", mirror.objects().display());
    // HEAD must name the commit that the index belongs to.
    let head = format!("{head}\n");
    for (name, text) in
        [("HEAD", head.as_str()), ("config", COMMITTER_CONFIG), ("objects/info/alternates", &alternates)]
    {
        tokio::fs::write(git.join(name), text).await?;
    }
    match tokio::fs::copy(workspace.tree.join(".git/index"), workspace.index()).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
