//! Listings of a repository's refs, in the form of `git ls-remote --symref`.

use std::collections::BTreeMap;

use journeyman_core::ids::Sha;
use journeyman_core::run::ReasonCode;

use crate::RepositoryError;

/// The format for which `git for-each-ref` prints the same listing as `git ls-remote --symref`.
pub(crate) const FORMAT: &str =
    "--format=%(if:equals=*)%(HEAD)%(then)ref: %(refname)%09HEAD%0a%(end)%(objectname)%09%(refname)";

/// The branches of a remote.
pub(crate) struct Branches {
    /// The newest commit of each branch.
    pub(crate) heads: BTreeMap<String, Sha>,
    pub(crate) default_branch: String,
    /// True if the remote names its default branch; otherwise `default_branch` is a guess.
    pub(crate) names_default_branch: bool,
}

/// Reads the branches from a listing.
///
/// # Errors
/// The repository has no branches.
pub(crate) fn branches(listing: &str) -> Result<Branches, RepositoryError> {
    let (mut heads, mut default_branch) = (BTreeMap::new(), None);
    for line in listing.lines() {
        let Some((left, name)) = line.split_once('\t') else { continue };
        if let Some(target) = left.strip_prefix("ref: refs/heads/") {
            default_branch = Some(target.to_owned());
        } else if let (Some(branch), Ok(sha)) = (name.strip_prefix("refs/heads/"), left.parse()) {
            heads.insert(branch.to_owned(), sha);
        }
    }
    let empty = || {
        let text = "the repository has no commits; push a first one (a README will do), then send the message again";
        RepositoryError::failed(ReasonCode::RepositoryEmpty, text)
    };
    // Some servers send no HEAD, and HEAD may point to a branch that does not exist.
    let named = default_branch.filter(|branch| heads.contains_key(branch));
    let names_default_branch = named.is_some();
    let guess = || heads.keys().find(|branch| *branch == "main").or_else(|| heads.keys().next()).cloned();
    let default_branch = named.or_else(guess).ok_or_else(empty)?;
    Ok(Branches { heads, default_branch, names_default_branch })
}

/// Returns the refs of a listing and their objects, without `HEAD` and peeled tags.
pub(crate) fn refs(listing: &str) -> BTreeMap<&str, &str> {
    let lines = listing.lines().filter_map(|line| line.split_once('\t'));
    let refs =
        lines.filter(|(at, name)| !at.starts_with("ref: ") && name.starts_with("refs/") && !name.ends_with("^{}"));
    refs.map(|(at, name)| (name, at)).collect()
}
