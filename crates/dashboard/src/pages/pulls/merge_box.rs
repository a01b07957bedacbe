//! The box to merge a pull request: the reasons for and against it, above the button.

use journeyman_core::code_host::PullState;
use journeyman_core::job::JobStatus;
use journeyman_core::pull::base_comparison::Conflicts;
use journeyman_core::pull::{Comment, NewComment, Verdict};

use super::read::Read;
use super::{bar, comments};
use crate::words::counted;
use crate::{visible, words};

/// The box.
pub(super) struct MergeBox {
    pub(super) reasons: Vec<Reason>,
    /// True if the pull request can be merged now.
    pub(super) is_ready: bool,
    /// True if the merge is the next thing to do, so that its button is filled: all reasons are for it.
    pub(super) is_next: bool,
    /// True if the agent can be asked to merge the base into the branch.
    pub(super) can_ask: bool,
}

/// A reason for or against the merge.
pub(super) struct Reason {
    /// The class of the mark.
    pub(super) mark: &'static str,
    /// The word for the mark.
    pub(super) word: &'static str,
    pub(super) text: String,
    /// The files that the reason is about.
    pub(super) files: Vec<String>,
    /// The link of the text.
    pub(super) href: Option<String>,
}

impl Reason {
    const fn new(mark: &'static str, word: &'static str, text: String) -> Self {
        Self { mark, word, text, files: Vec::new(), href: None }
    }
}

impl MergeBox {
    pub(super) fn of(read: &Read) -> Self {
        let (detail, base) = (&read.detail, visible::line(&read.detail.pull.base));
        let mut reasons = Vec::new();
        if read.job.as_ref().is_some_and(|job| job.status() == JobStatus::Active) {
            reasons.push(Reason::new("in_progress", "running", "The agent works on it".to_owned()));
        }
        if detail.pull.draft {
            reasons.push(Reason::new("queued", "note", "It is marked as a draft".to_owned()));
        }
        let verdicts = verdicts(&read.comments);
        if verdicts.is_empty() {
            let has_review = read.comments.iter().any(Comment::is_review);
            let text = if has_review { "Not approved yet" } else { "No review yet" };
            reasons.push(Reason::new("queued", "note", text.to_owned()));
        }
        for (author, verdict) in verdicts {
            let (mark, word, text) = match verdict {
                Verdict::Approve => ("completed", "done", format!("Approved by {author}")),
                Verdict::RequestChanges => ("failed", "not done", format!("Changes requested by {author}")),
                Verdict::Comment => continue,
            };
            reasons.push(Reason::new(mark, word, text));
        }
        let unresolved = comments::unresolved(&read.comments);
        if let Some(first) = unresolved.first() {
            let text = counted(unresolved.len(), "unresolved comment");
            let href = Some(format!("#c-{first}"));
            reasons.push(Reason { href, ..Reason::new("queued", "note", text) });
        }
        let count = detail.conflicts.count();
        if detail.mergeable {
            reasons.push(Reason::new("completed", "done", format!("No conflicts with {base}")));
        } else if count > 0 {
            let text = match count {
                1 => format!("1 file conflicts with {base}"),
                _ => format!("{count} files conflict with {base}"),
            };
            let files = files(&detail.conflicts);
            reasons.push(Reason { files, ..Reason::new("failed", "failed", text) });
        } else {
            let text = "It cannot be merged: one of its branches was deleted, or the repository cannot be read";
            reasons.push(Reason::new("failed", "failed", text.to_owned()));
        }
        let is_open = detail.pull.state == PullState::Open;
        let is_ready = is_open && detail.mergeable;
        Self {
            is_next: is_ready && reasons.iter().all(|reason| reason.mark == "completed"),
            reasons,
            is_ready,
            can_ask: is_open && count > 0 && read.job.as_ref().is_some_and(bar::is_open),
        }
    }
}

/// Returns the latest verdict of each reviewer, in the order of their first reviews. A review without a verdict does not
/// change an earlier one.
fn verdicts(comments: &[Comment]) -> Vec<(String, Verdict)> {
    let mut found: Vec<(&Option<String>, String, Verdict)> = Vec::new();
    let reviews = comments.iter().filter(|one| one.is_review());
    for NewComment { author_id, author, verdict, .. } in reviews.map(|one| &one.comment) {
        if *verdict == Verdict::Comment {
            continue;
        }
        match found.iter_mut().find(|(id, ..)| *id == author_id) {
            Some((.., known)) => *known = *verdict,
            None => found.push((author_id, visible::line(author).into_owned(), *verdict)),
        }
    }
    found.into_iter().map(|(_, author, verdict)| (author, verdict)).collect()
}

/// Returns the conflicting files, the last line for those that are not named.
pub(in crate::pages) fn files(conflicts: &Conflicts) -> Vec<String> {
    let more = (conflicts.more > 0)
        .then(|| format!("and {} more", words::grouped(u64::try_from(conflicts.more).unwrap_or(u64::MAX))));
    conflicts.files.iter().map(|file| visible::line(file).into_owned()).chain(more).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_verdict_of_a_reviewer_counts() {
        let review = |number: u64, author: &str, verdict: Verdict| {
            let (author, author_id) = (author.to_owned(), Some(author.to_owned()));
            Comment {
                number,
                comment: NewComment { author, author_id, verdict, review: Some(number), ..NewComment::default() },
            }
        };
        let all = [
            review(1, "ada", Verdict::RequestChanges),
            review(2, "bob", Verdict::Approve),
            review(3, "ada", Verdict::Approve),
            review(4, "ada", Verdict::Comment),
        ];
        let expected = [("ada".to_owned(), Verdict::Approve), ("bob".to_owned(), Verdict::Approve)];
        assert_eq!(verdicts(&all), expected);
        assert_eq!(
            verdicts(&all[..2]).into_iter().map(|(_, verdict)| verdict).collect::<Vec<_>>(),
            [Verdict::RequestChanges, Verdict::Approve]
        );
    }

    #[test]
    fn files_that_are_not_named_are_counted() {
        let conflicts = Conflicts { files: vec!["a".to_owned()], more: 1200 };
        assert_eq!(files(&conflicts), ["a", "and 1,200 more"]);
    }
}
