//! Listings of a repository's refs, in the form of `git ls-remote --symref`. The names of refs are bytes: those that are
//! not UTF-8 are mirrored like all others, but a job cannot name them.

use std::collections::BTreeMap;

use journeyman_core::ids::Sha;
use journeyman_core::left_out::path_text;
use journeyman_core::run::ReasonCode;
use journeyman_git::pairs;

use crate::RepositoryError;

/// The format for which `git for-each-ref` prints the same listing as `git ls-remote --symref`.
pub(crate) const FORMAT: &str =
    "--format=%(if:equals=*)%(HEAD)%(then)ref: %(refname)%09HEAD%0a%(end)%(objectname)%09%(refname)";

/// The branches of a remote.
pub(crate) struct Branches {
    /// The newest commit of each branch whose name is UTF-8.
    pub(crate) heads: BTreeMap<String, Sha>,
    /// The default branch. It is not in `heads` if its name is not UTF-8; the name then has escapes.
    pub(crate) default_branch: String,
    /// True if the remote names its default branch; otherwise `default_branch` is a guess.
    pub(crate) names_default_branch: bool,
}

/// Reads the branches from a listing.
///
/// # Errors
/// The repository has no branches.
pub(crate) fn branches(listing: &[u8]) -> Result<Branches, RepositoryError> {
    let (mut heads, mut unnamed, mut default_branch) = (BTreeMap::new(), Vec::new(), None);
    for (left, name) in pairs(listing, b'\t') {
        if let Some(target) = left.strip_prefix(b"ref: refs/heads/") {
            default_branch = Some(path_text(target));
        } else if let (Some(branch), Some(sha)) = (name.strip_prefix(b"refs/heads/"), sha(left)) {
            match std::str::from_utf8(branch) {
                Ok(branch) => drop(heads.insert(branch.to_owned(), sha)),
                Err(_) => unnamed.push(path_text(branch)),
            }
        }
    }
    let empty = || {
        let text = "the repository has no commits; push a first one (a README will do), then send the message again";
        RepositoryError::failed(ReasonCode::RepositoryEmpty, text)
    };
    // Some servers send no HEAD, and HEAD may point to a branch that does not exist.
    let named = default_branch.filter(|branch| heads.contains_key(branch) || unnamed.contains(branch));
    let names_default_branch = named.is_some();
    let guess = || heads.keys().find(|branch| *branch == "main").or_else(|| heads.keys().next()).cloned();
    let default_branch = named.or_else(guess).or_else(|| unnamed.into_iter().next()).ok_or_else(empty)?;
    Ok(Branches { heads, default_branch, names_default_branch })
}

/// Returns the refs of a listing and their objects, without `HEAD` and peeled tags.
pub(crate) fn refs(listing: &[u8]) -> BTreeMap<&[u8], &[u8]> {
    let is_ref = |(at, name): &(&[u8], &[u8])| {
        !at.starts_with(b"ref: ") && name.starts_with(b"refs/") && !name.ends_with(b"^{}")
    };
    pairs(listing, b'\t').filter(is_ref).map(|(at, name)| (name, at)).collect()
}

fn sha(hash: &[u8]) -> Option<Sha> {
    std::str::from_utf8(hash).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_not_text_are_refs_but_no_branches_of_jobs() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let listing = [
            b"ref: refs/heads/caf".to_vec(),
            b"\xe9\tHEAD\n".to_vec(),
            format!("{a}\tHEAD\n{a}\trefs/heads/caf").into_bytes(),
            b"\xe9\n".to_vec(),
            format!("{b}\trefs/heads/main\n{b}\trefs/tags/caf").into_bytes(),
            b"\xe9\n".to_vec(),
        ]
        .concat();
        let found = branches(&listing).unwrap();
        assert_eq!(found.heads.keys().collect::<Vec<_>>(), ["main"]);
        assert_eq!((found.default_branch.as_str(), found.names_default_branch), ("caf\\xe9", true));
        let expected: [(&[u8], &[u8]); 3] = [
            (b"refs/heads/caf\xe9", a.as_bytes()),
            (b"refs/heads/main", b.as_bytes()),
            (b"refs/tags/caf\xe9", b.as_bytes()),
        ];
        assert_eq!(refs(&listing), expected.into());
        assert!(branches(b"").is_err(), "there is no branch");
    }
}
