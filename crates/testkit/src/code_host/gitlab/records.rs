//! What only GitLab records about a repository.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::code_host::state::CommentedOn;

/// What only GitLab records about a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    /// The emoji reactions, oldest first.
    pub(super) awards: Vec<Award>,
    /// The comments that begin a thread.
    pub(super) threads: BTreeSet<u64>,
    /// The positions of comments on lines, as they were sent, by the IDs of the comments.
    pub(super) positions: BTreeMap<u64, Value>,
    /// The users who resolved threads, by the comments that begin them.
    pub(super) resolved_by: BTreeMap<u64, u64>,
    /// The users who set commit statuses, by the indexes of the statuses; the user of the stand-in for others.
    pub(super) status_authors: BTreeMap<usize, u64>,
}

/// An emoji reaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Award {
    pub(super) target: CommentedOn,
    /// The comment; `None` for the merge request or the issue itself.
    pub(super) note: Option<u64>,
    pub(super) user: u64,
    pub(super) name: String,
}
