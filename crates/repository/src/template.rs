//! The repository's own template for pull requests. Code hosts apply it only on their pages, not for pull requests that
//! a program opens.

use journeyman_core::ids::Sha;

use crate::{Mirror, RepositoryError};

/// The files in which code hosts look for a template, in lower case.
const FILES: [&str; 9] = [
    ".github/pull_request_template.md",
    "pull_request_template.md",
    "docs/pull_request_template.md",
    ".gitlab/merge_request_templates/default.md",
    ".gitea/pull_request_template.md",
    ".forgejo/pull_request_template.md",
    ".github/pull_request_template.txt",
    "pull_request_template.txt",
    ".bitbucket/pull_request_template.md",
];

/// The folders of these files.
const FOLDERS: [&str; 7] =
    ["", ".github/", "docs/", ".gitlab/merge_request_templates/", ".gitea/", ".forgejo/", ".bitbucket/"];

/// The maximum size of a template, in bytes. A larger one is not used.
const MOST_BYTES: usize = 64 << 10;

/// Returns the template for pull requests at a commit; `None` if there is none.
///
/// # Errors
/// git failed.
pub(crate) async fn of_repository(mirror: &Mirror, commit: &Sha) -> Result<Option<String>, RepositoryError> {
    let list = ["ls-tree", "--full-tree", "-z", "--name-only", commit.as_str(), "--"];
    let paths = FOLDERS.iter().map(|folder| if folder.is_empty() { "." } else { folder });
    let listed = mirror.git.at(&mirror.path, list.into_iter().chain(paths)).run().await?.stdout;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let found = FILES.iter().find_map(|file| listed.split('\0').find(|path| path.to_lowercase() == *file));
    let Some(path) = found else { return Ok(None) };
    let object = format!("{commit}:{path}");
    // The limit of the output is an error, and then there is no template.
    let text = mirror.git.at(&mirror.path, ["cat-file", "blob", &object]).stdout_bytes(MOST_BYTES).run().await;
    Ok(text.ok().and_then(|output| String::from_utf8(output.stdout).ok()).filter(|text| !text.trim().is_empty()))
}
