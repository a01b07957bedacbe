//! Listings of a repository's refs, in the form of `git ls-remote --symref`. The names of refs are bytes: those that are
//! not UTF-8 are mirrored like all others, but a job cannot name them.

use std::collections::BTreeMap;

use journeyman_core::branch;
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
    /// The default branch; `None` if none of several branches can be preferred ([`branch::default_branch`]). It is not in
    /// `heads` if its name is not UTF-8; the name then has escapes.
    pub(crate) default_branch: Option<String>,
    /// True if the remote names its default branch; otherwise `default_branch` is a guess.
    pub(crate) names_default_branch: bool,
}

/// Reads the branches from a listing.
///
/// # Errors
/// The repository has no branches.
pub(crate) fn branches(listing: &[u8]) -> Result<Branches, RepositoryError> {
    let (mut heads, mut names, mut named) = (BTreeMap::new(), Vec::new(), None);
    for (left, name) in pairs(listing, b'\t') {
        if let Some(target) = left.strip_prefix(b"ref: refs/heads/") {
            named = Some(target);
        } else if let (Some(branch), Some(sha)) = (name.strip_prefix(b"refs/heads/"), sha(left)) {
            names.push(branch);
            if let Ok(branch) = std::str::from_utf8(branch) {
                heads.insert(branch.to_owned(), sha);
            }
        }
    }
    if names.is_empty() {
        let text = "the repository has no commits; push a first one (a README will do), then send the message again";
        return Err(RepositoryError::failed(ReasonCode::RepositoryEmpty, text));
    }
    // Some servers send no HEAD, and HEAD may point to a branch that does not exist.
    let named = named.filter(|branch| names.contains(branch));
    let names_default_branch = named.is_some();
    let default_branch = branch::default_branch(named.as_slice(), &names).map(path_text);
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
        assert_eq!((found.default_branch.as_deref(), found.names_default_branch), (Some("caf\\xe9"), true));
        let expected: [(&[u8], &[u8]); 3] = [
            (b"refs/heads/caf\xe9", a.as_bytes()),
            (b"refs/heads/main", b.as_bytes()),
            (b"refs/tags/caf\xe9", b.as_bytes()),
        ];
        assert_eq!(refs(&listing), expected.into());
        assert!(branches(b"").is_err(), "there is no branch");
    }

    #[test]
    fn a_branch_is_not_preferred_because_of_the_alphabet() {
        let a = "a".repeat(40);
        let listing = |names: &[&str]| -> String {
            let head = "ref: refs/heads/main\tHEAD\n".to_owned();
            names.iter().map(|name| format!("{a}\trefs/heads/{name}\n")).fold(head, |text, line| text + &line)
        };
        for (names, expected) in [
            (&["dependabot", "develop", "master"] as &[&str], Some("master")),
            (&["dependabot"], Some("dependabot")),
            (&["dependabot", "develop"], None),
        ] {
            let found = branches(listing(names).as_bytes()).unwrap();
            assert_eq!((found.default_branch.as_deref(), found.names_default_branch), (expected, false));
        }
    }
}
