//! The names of the branches that jobs work on.

use crate::ids::JobId;

/// Returns `journeyman/<slug>-<short id>`. After a pull request was merged or closed, the job continues on `…-2`, `…-3`
/// and so on. The slug consists of the title's ASCII letters and digits, with hyphens in place of other characters, and
/// has at most 40 characters.
#[must_use]
pub fn branch_name(title: &str, job: &JobId, generation: u32) -> String {
    let mut slug = String::new();
    for c in title.chars() {
        if slug.len() >= 40 {
            break;
        }
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = match slug.trim_end_matches('-') {
        "" => "job",
        slug => slug,
    };
    let name = format!("journeyman/{slug}-{}", job.short());
    if generation > 1 { format!("{name}-{generation}") } else { name }
}

/// Returns the branch among `branches` because of which no branch `name` can be created: the name of one is a folder in
/// the name of the other (git-check-ref-format(1)).
#[must_use]
pub fn blocking_branch<'a>(mut branches: impl Iterator<Item = &'a str>, name: &str) -> Option<&'a str> {
    let is_below = |one: &str, other: &str| one.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'));
    branches.find(|branch| is_below(name, branch) || is_below(branch, name))
}

/// Says what to do about a branch that keeps another from being created.
#[must_use]
pub fn blocked(name: &str, by: &str) -> String {
    format!(
        "the branch {name:?} cannot be created, because the repository has the branch {by:?}; rename {by:?}, or set \
         another branch in a new job"
    )
}

/// The names that a default branch usually has, in the order in which they are chosen.
const USUAL_DEFAULTS: [&[u8]; 3] = [b"main", b"master", b"trunk"];

/// Chooses the default branch of a repository from its branches: the first of `named` that exists, such as the branch
/// that `HEAD` names; otherwise `main`, `master` or `trunk`; otherwise the only branch. Returns `None` if the repository
/// has no branches, or several of which none can be preferred. The names are bytes, because those of git need not be
/// UTF-8.
#[must_use]
pub fn default_branch<'a>(named: &[&[u8]], branches: &[&'a [u8]]) -> Option<&'a [u8]> {
    let find = |name: &&[u8]| branches.iter().find(|branch| *branch == name).copied();
    let only = || match branches {
        [only] => Some(*only),
        _ => None,
    };
    named.iter().chain(&USUAL_DEFAULTS).find_map(find).or_else(only)
}

/// The length of a SHA-1 hash in hexadecimal digits.
const SHA1_DIGITS: usize = 40;

/// Says what keeps jobs from using a repository whose branch has this hash, if anything.
#[must_use]
pub const fn unsupported(hash: &str) -> Option<&'static str> {
    if hash.len() > SHA1_DIGITS {
        Some("the repository has the object format SHA-256, which jobs cannot use; convert it to SHA-1")
    } else {
        None
    }
}

/// Says that jobs cannot use a repository that is a shallow clone of another one, and what to do.
pub const SHALLOW: &str = "the repository is a shallow clone, which lacks a part of its history, so jobs cannot use it; \
                           run `git fetch --unshallow` in it, or use the repository that it was cloned from";

/// Says that a repository is damaged, and what to do.
pub const DAMAGED: &str = "the repository is damaged: objects or refs are missing or cannot be read. Run `git fsck` in \
                           it, and restore it from a backup or a clone";

/// Says that a repository at a path on this machine cannot be written, and what to do.
pub const READ_ONLY: &str = "the repository is read-only for the service: its folder or its disk cannot be written; let \
                             the user that the service runs as write to it, or mount the disk for writing";

/// An error for a text that is not a valid name of a branch or ref.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a valid name for a branch or ref")]
pub struct InvalidRefName(String);

/// Checks the name of a branch, tag or commit from a client. Applies the rules of git-check-ref-format(1) and refuses a
/// leading `-`, so that git never reads the name as an option.
///
/// # Errors
/// Returns an error if the name is not valid.
pub fn check_ref_name(name: &str) -> Result<(), InvalidRefName> {
    let bad_char = |c: char| c.is_ascii_control() || " ~^:?*[\\\u{7f}".contains(c);
    let bad_part = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    let bad = name.is_empty()
        || name.len() > 200
        || name.starts_with('-')
        || name.ends_with('.')
        || name == "@"
        || name.contains("..")
        || name.contains("@{")
        || name.chars().any(bad_char)
        || name.split('/').any(bad_part);
    if bad { Err(InvalidRefName(name.chars().take(80).collect())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_branch_is_blocked_by_one_that_is_its_folder_or_in_it() {
        for (branch, name, is_blocking) in [
            ("journeyman", "journeyman/fix-1", true),
            ("feature/a/b", "feature/a", true),
            ("journeymen", "journeyman/fix-1", false),
            ("journeyman/fix-1", "journeyman/fix-1", false),
            ("journeyman/fix-1", "journeyman/fix-1-2", false),
        ] {
            assert_eq!(blocking_branch([branch].into_iter(), name).is_some(), is_blocking, "{branch} {name}");
        }
    }

    #[test]
    fn a_branch_is_named_after_the_title() {
        let job = JobId::from_uuid(Uuid::from_u128(0xabcd_1234));
        for (title, generation, name) in [
            ("Fix the login page!", 1, "journeyman/fix-the-login-page-abcd1234"),
            ("Fix the login page!", 2, "journeyman/fix-the-login-page-abcd1234-2"),
            ("  ../../etc  ", 1, "journeyman/etc-abcd1234"),
            ("日本語", 1, "journeyman/job-abcd1234"),
            (&"x".repeat(99), 1, &format!("journeyman/{}-abcd1234", "x".repeat(40))),
        ] {
            assert_eq!(branch_name(title, &job, generation), name);
            assert!(check_ref_name(name).is_ok());
        }
    }

    #[test]
    fn the_default_branch_is_the_named_one_or_a_usual_one_or_the_only_one() {
        for (named, branches, chosen) in [
            (&["dev"] as &[&str], &["a", "dev", "main"] as &[&str], Some("dev")),
            (&["gone", "dev"], &["a", "dev", "main"], Some("dev")),
            (&["gone"], &["a", "main", "master", "trunk"], Some("main")),
            (&["main"], &["dependabot/npm/foo", "develop", "master"], Some("master")),
            (&[], &["a", "trunk"], Some("trunk")),
            (&["main"], &["only"], Some("only")),
            (&["main"], &["a", "b"], None),
            (&["main"], &[], None),
        ] {
            let bytes = |names: &[&'static str]| names.iter().map(|name| name.as_bytes()).collect::<Vec<_>>();
            let found = default_branch(&bytes(named), &bytes(branches));
            assert_eq!(found, chosen.map(str::as_bytes), "{named:?} {branches:?}");
        }
    }

    #[test]
    fn ref_names_that_git_or_a_shell_could_misread_are_refused() {
        for good in ["main", "feature/x", "v1.2.3", "0123456789012345678901234567890123456789"] {
            assert!(check_ref_name(good).is_ok(), "{good}");
        }
        for bad in [
            "", "-x", "a..b", "a b", "a\nb", "a:b", "a^", "a~1", "/a", "a/", "a//b", ".a", "a.lock", "a@{1}", "@", "a.",
        ] {
            assert!(check_ref_name(bad).is_err(), "{bad:?}");
        }
    }
}
