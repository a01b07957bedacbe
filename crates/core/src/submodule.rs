//! Submodules: repositories inside the repository, as `.gitmodules` names them (gitmodules(5)). The file is data of the
//! repository and not trusted.

mod address;

use std::borrow::Cow;
use std::collections::BTreeMap;

pub use address::{Located, Main, SubmoduleLocation};

/// The maximum number of submodules that are filled, including those in submodules.
pub const MAX_SUBMODULES: usize = 100;

/// The maximum depth of submodules in submodules that are filled; those of the project's repository have depth 1.
pub const MAX_DEPTH: usize = 8;

/// The maximum length of a name and of a path, in bytes.
const MAX_BYTES: usize = 500;

/// An entry of `.gitmodules`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// The name, from which git derives the folder of the submodule's git directory.
    pub name: String,
    /// The path of the folder in the repository. Empty if there is none, and then git uses the entry for nothing.
    pub path: String,
    /// The address as it is written; it may be relative to that of the repository. Empty if there is none.
    pub url: String,
    /// True if the entry has settings that select a program or another way to update the submodule.
    pub has_update: bool,
}

/// Parses the output of `git config --null --list` on a `.gitmodules`. Settings that are not UTF-8 are
/// left out.
#[must_use]
pub fn entries(listing: &[u8]) -> Vec<Entry> {
    let mut found: BTreeMap<&str, Entry> = BTreeMap::new();
    for setting in listing.split(|byte| *byte == 0) {
        let Ok(setting) = std::str::from_utf8(setting) else { continue };
        let (key, value) = setting.split_once('\n').unwrap_or((setting, ""));
        let Some((name, field)) = key.strip_prefix("submodule.").and_then(|key| key.rsplit_once('.')) else { continue };
        let entry = found.entry(name).or_insert_with(|| Entry { name: name.to_owned(), ..Entry::default() });
        match field {
            "path" => value.clone_into(&mut entry.path),
            "url" => value.clone_into(&mut entry.url),
            "update" => entry.has_update = true,
            _ => {}
        }
    }
    found.into_values().collect()
}

impl Entry {
    /// Returns whether the name and the path lead to folders in the repository and nowhere else.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        let is_part = |part: &str| {
            // Some file systems take names such as `git~1` and `.git.` for `.git`.
            let plain = part.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']).to_ascii_lowercase();
            !plain.is_empty() && plain != ".git" && plain != "git~1"
        };
        let is_safe = |text: &str| {
            text.len() <= MAX_BYTES
                && !text.starts_with('-')
                && !text.chars().any(|char| char.is_control() || char == '\\')
                && text.split('/').all(is_part)
        };
        is_safe(&self.name) && is_safe(&self.path)
    }
}

/// Returns whether the git directory of one submodule would be in that of the other, or their folders would. In git
/// directories, `modules` separates the names of submodules of submodules.
#[must_use]
pub fn overlap(one: &Entry, other: &Entry) -> bool {
    let is_in = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let both = |a: &str, b: &str| is_in(a, b) || is_in(b, a);
    both(&one.name, &other.name) || both(&one.path, &other.path)
}

/// A submodule that was not filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The path in the repository.
    pub path: String,
    /// The reason.
    pub reason: SkipReason,
    /// The address, if it may be shown: it has no password.
    pub address: Option<String>,
}

/// The reason why a submodule was not filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// The project does not fill submodules.
    Off,
    /// No entry of `.gitmodules` has its path.
    NotNamed,
    /// The entry has no address.
    NoAddress,
    /// The name or the path could lead out of the repository, or into another submodule.
    Unsafe,
    /// The service does not fetch submodules from such an address.
    AddressRefused,
    /// Not everyone who may use the project may read the repository, which is on this server.
    NotPermitted,
    /// The repository does not exist, or the credential may not read it.
    NotReadable,
    /// The code host did not answer.
    Unreachable,
    /// The repository does not have the commit.
    CommitMissing,
    /// The files would take more space than the project allows.
    TooLarge,
    /// There are more submodules than are filled.
    TooMany,
    /// Submodules are nested more deeply than is filled.
    TooDeep,
    /// Filling the others took too long.
    TooSlow,
    /// The agent has changed it, so it was not moved to the commit of the repository.
    Changed,
    /// Git failed.
    Failed,
}

impl SkipReason {
    /// Returns whether the reason is known from the project and the commit alone, so that it is told once.
    #[must_use]
    pub const fn is_told_once(self) -> bool {
        matches!(self, Self::Off | Self::NotNamed)
    }

    /// Returns the stable name of the reason.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::NotNamed => "not_named",
            Self::NoAddress => "no_address",
            Self::Unsafe => "unsafe",
            Self::AddressRefused => "address_refused",
            Self::NotPermitted => "not_permitted",
            Self::NotReadable => "not_readable",
            Self::Unreachable => "unreachable",
            Self::CommitMissing => "commit_missing",
            Self::TooLarge => "too_large",
            Self::TooMany => "too_many",
            Self::TooDeep => "too_deep",
            Self::TooSlow => "too_slow",
            Self::Changed => "changed",
            Self::Failed => "failed",
        }
    }

    /// Returns the reason in words, as a clause that follows the path.
    #[must_use]
    pub fn text(self) -> Cow<'static, str> {
        match self {
            Self::Off => "the project does not fill submodules".into(),
            Self::NotNamed => "no entry of .gitmodules has its path".into(),
            Self::NoAddress => "its entry in .gitmodules has no url".into(),
            Self::Unsafe => "its name or path in .gitmodules is not safe".into(),
            Self::AddressRefused => "the service does not fetch submodules from such an address".into(),
            Self::NotPermitted => {
                "its repository is on this server, and not everyone who may use the project may read it".into()
            }
            Self::NotReadable => "its repository does not exist, or cannot be read without another credential".into(),
            Self::Unreachable => "its code host did not answer".into(),
            Self::CommitMissing => "its repository does not have the commit that the pointer names".into(),
            Self::TooLarge => "its files would exceed limits.diskBytes of the project".into(),
            Self::TooMany => format!("only {MAX_SUBMODULES} submodules are filled").into(),
            Self::TooDeep => format!("submodules are filled down to depth {MAX_DEPTH}").into(),
            Self::TooSlow => "filling the other submodules took too long".into(),
            Self::Changed => "the agent has changed it, so it stays at its commit".into(),
            Self::Failed => "git could not check it out".into(),
        }
    }

    /// Returns what a person can do about it, as a sentence.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Off => "Set checkout.submodules of the project to read.",
            Self::NotNamed => "Add an entry with its path and url to .gitmodules, or remove it (git rm --cached).",
            Self::NoAddress => "Add its url to .gitmodules.",
            Self::Unsafe => "Give it a plain relative name and path, which no other submodule has or contains.",
            Self::AddressRefused => {
                "Use an https:// URL at a public address, or one that is relative to a repository on the same code \
                 host; an operator permits private networks with code-host-networks."
            }
            Self::NotPermitted => {
                "Let all API keys and CI trusts of the project use the other project too, or, for a path, make the \
                 repository readable by all users of the machine and put it next to that of the project."
            }
            Self::NotReadable => {
                "Check its url; if it is private, the token of the project must be able to read it, and it must be on \
                 the same code host."
            }
            Self::Unreachable => "Check its url. A new job tries again.",
            Self::CommitMissing => "Push the commit to the submodule's repository, or move the pointer.",
            Self::TooLarge => "Raise limits.diskBytes of the project.",
            Self::TooMany | Self::TooDeep => "The agent can do without it, or use a smaller repository.",
            Self::TooSlow => "Start a new job: what was fetched is kept.",
            Self::Changed => "Ask the agent to update it, or to undo its changes in it.",
            Self::Failed => "Check whether git submodule update works in a new clone.",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_parsed_from_the_settings_of_a_file() {
        let listing = b"submodule.a.path\nvendor/a\0submodule.a.url\n../a.git\0submodule.b.c.path\nb\0\
                        submodule.b.c.update\n!id\0submodule.no-path.url\nx\0core.editor\nid\0submodule.\xff.path\nx\0\
                        submodule.novalue.path\0";
        let found = entries(listing);
        let entry = |name: &str, path: &str, url: &str, has_update| Entry {
            name: name.to_owned(),
            path: path.to_owned(),
            url: url.to_owned(),
            has_update,
        };
        let (no_path, no_value) = (entry("no-path", "", "x", false), entry("novalue", "", "", false));
        let expected = [entry("a", "vendor/a", "../a.git", false), entry("b.c", "b", "", true), no_path, no_value];
        assert_eq!(found, expected);
    }

    #[test]
    fn names_and_paths_that_lead_elsewhere_are_not_safe() {
        let entry = |text: &str| Entry { name: text.to_owned(), path: text.to_owned(), ..Entry::default() };
        for good in ["lib", "vendor/lib.git", "a b/ü", "a..b", "git", ".github/x"] {
            assert!(entry(good).is_safe(), "{good}");
        }
        for bad in [
            "",
            "/lib",
            "lib/",
            "a//b",
            ".",
            "a/./b",
            "../lib",
            "a/../../b",
            "-lib",
            ".git",
            "a/.GIT/hooks",
            "git~1/x",
            ".git./x",
            "a\nb",
            "a\\b",
        ] {
            assert!(!entry(bad).is_safe(), "{bad}");
            assert!(!Entry { path: "good".to_owned(), ..entry(bad) }.is_safe(), "{bad}");
        }
        assert!(!entry(&"a".repeat(501)).is_safe());
    }

    #[test]
    fn submodules_overlap_if_one_is_in_the_other() {
        let entry = |name: &str, path: &str| Entry { name: name.to_owned(), path: path.to_owned(), ..Entry::default() };
        let one = entry("a", "vendor/a");
        for (other, expected) in [
            (entry("a/hooks", "x"), true),
            (entry("x", "vendor"), true),
            (entry("a", "x"), true),
            (entry("ab", "vendor/ab"), false),
        ] {
            assert_eq!((overlap(&one, &other), overlap(&other, &one)), (expected, expected), "{other:?}");
        }
    }
}
