//! The sizes of changes. The worker counts them when a turn ends, so that lists and pages need no git.

use serde::{Deserialize, Serialize};

use crate::ids::Sha;
use crate::left_out::{LeftOut, MAX_LEFT_OUT};

/// The maximum length of a stored subject, in characters.
pub const MAX_SUBJECT_CHARS: usize = 120;

/// The maximum number of commits of a message whose sizes are stored.
pub const MAX_COMMITS: usize = 100;

/// The maximum number of stored paths of the commits of a message.
pub const MAX_PATHS: usize = 200;

/// The size of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DiffStat {
    /// The number of added lines. Binary files have none.
    pub additions: u64,
    /// The number of removed lines. Binary files have none.
    pub deletions: u64,
    /// The number of changed files.
    pub files: u64,
}

impl DiffStat {
    /// Counts a changed file.
    pub const fn add_file(&mut self, additions: u64, deletions: u64) {
        self.additions = self.additions.saturating_add(additions);
        self.deletions = self.deletions.saturating_add(deletions);
        self.files = self.files.saturating_add(1);
    }
}

/// A commit, with the size of its change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitDiff {
    /// The hash.
    pub sha: Sha,
    /// The first line of the commit message, at most [`MAX_SUBJECT_CHARS`] characters.
    pub subject: String,
    /// The size. That of a merge is what it has beyond an automatic merge.
    pub stat: DiffStat,
    /// The paths of the changed files; empty if they are not known. All commits of a message have at most
    /// [`MAX_PATHS`] together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
}

/// The change of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageDiff {
    /// The size, from the start of the turn to its end.
    pub stat: DiffStat,
    /// The commits, oldest first, at most [`MAX_COMMITS`].
    pub commits: Vec<CommitDiff>,
    /// What the turn changed, but the commits do not have; at most [`MAX_LEFT_OUT`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// The number of further paths that were left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out_more: u64,
    /// The earlier branch of the job whose commits the branch begins with, if this message is the first to publish them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried_over: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl MessageDiff {
    /// Returns the number of paths that were left out.
    #[must_use]
    pub fn left_out_count(&self) -> u64 {
        self.left_out_more.saturating_add(self.left_out.len() as u64)
    }

    /// Records what was left out of the commits. Of more than [`MAX_LEFT_OUT`], the rest is counted.
    pub fn leave_out(&mut self, mut left_out: Vec<LeftOut>) {
        self.left_out_more = left_out.len().saturating_sub(MAX_LEFT_OUT) as u64;
        left_out.truncate(MAX_LEFT_OUT);
        self.left_out = left_out;
    }
}

/// The changes after a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnDiff {
    /// The size of the change of the job's branch, from the commit that the branch started from.
    pub branch: DiffStat,
    /// The change of the message.
    pub message: MessageDiff,
}

/// Returns the subject of a commit as it is stored: at most [`MAX_SUBJECT_CHARS`] characters, without control characters.
#[must_use]
pub fn subject(text: &str) -> String {
    let plain = text.chars().map(|char| if char.is_control() { ' ' } else { char });
    let mut subject: String = plain.take(MAX_SUBJECT_CHARS).collect();
    if text.chars().nth(MAX_SUBJECT_CHARS).is_some() {
        subject.pop();
        subject.push('…');
    }
    subject
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_short_and_has_no_control_characters() {
        assert_eq!(subject("Add\ta\u{1b}[31m test"), "Add a [31m test");
        let long = subject(&"ä".repeat(MAX_SUBJECT_CHARS + 1));
        assert_eq!((long.chars().count(), long.ends_with('…')), (MAX_SUBJECT_CHARS, true));
        assert_eq!(subject(&"ä".repeat(MAX_SUBJECT_CHARS)), "ä".repeat(MAX_SUBJECT_CHARS));
    }
}
