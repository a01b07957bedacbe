//! What only GitHub records about a repository.

use std::collections::{BTreeMap, BTreeSet};

/// What only GitHub records about a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    /// The check suites of checks, by the IDs of the checks. The other checks of an app for a commit are in one suite.
    pub suites: BTreeMap<u64, u64>,
    /// The comments on lines that later commits have changed.
    pub outdated: BTreeSet<u64>,
    /// All commits that branches and the refs of pull requests contain, with their parents.
    pub(crate) commits: BTreeMap<String, Vec<String>>,
    /// The states and the commits of reviews; other reviews are comments on the newest commit.
    pub(super) reviews: BTreeMap<u64, (String, String)>,
    /// The reactions, oldest first.
    pub(super) reactions: Vec<Reaction>,
    /// The heads and bases of the pull requests for which it is known whether they can be merged.
    pub(super) tested: BTreeMap<u64, (String, String)>,
    /// The users who resolved threads, by the comments that begin them.
    pub(super) resolved_by: BTreeMap<u64, u64>,
}

impl Records {
    /// Returns a commit with all its ancestors.
    pub(super) fn reached(&self, tip: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut waiting = vec![tip.to_owned()];
        while let Some(sha) = waiting.pop() {
            if found.insert(sha.clone()) {
                waiting.extend(self.commits.get(&sha).into_iter().flatten().cloned());
            }
        }
        found
    }

    /// Returns the commits that a branch has and another one lacks, by the newest commits of the two.
    pub(super) fn ahead(&self, head: &str, base: &str) -> BTreeSet<String> {
        &self.reached(head) - &self.reached(base)
    }
}

/// What a reaction is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// An issue or a pull request, by its number.
    Issue(u64),
    /// A comment in a conversation.
    Comment(u64),
    /// A comment on a line, or a reply to one.
    Line(u64),
    /// A review.
    Review(u64),
}

/// A reaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reaction {
    pub(super) id: u64,
    pub(super) subject: Subject,
    pub(super) user: u64,
    /// The name in the REST interface.
    pub(super) content: String,
}
