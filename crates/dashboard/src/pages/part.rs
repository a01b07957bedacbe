//! Parts of a job's changes: all of them, those of one message, or one commit. The pages of jobs and of pull requests
//! share them.

use journeyman_core::diff_stat::MessageDiff;
use journeyman_core::ids::Sha;
use journeyman_core::message::Message;

use crate::diff::Choice;
use crate::size::Size;

/// The minimum length of an abbreviated hash in a URL.
const SHORTEST_HASH: usize = 7;

/// The maximum size in bytes of a diff on a page. The rest is cut off.
pub(super) const MAX_DIFF_BYTES: usize = 8 << 20;

/// The changes of a message.
#[derive(Debug, Clone, Default)]
pub(super) struct Turn {
    /// The commits, oldest first.
    pub(super) commits: Vec<Sha>,
    /// The size of the change and of its commits, as far as they are stored.
    diff: Option<MessageDiff>,
}

/// Returns the changes of each message.
pub(super) fn turns(messages: &[Message]) -> Vec<Turn> {
    messages.iter().map(|message| Turn { commits: message.commits.clone(), diff: message.diff.clone() }).collect()
}

/// A part of the changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// All changes relative to the base.
    All,
    /// The changes of one message.
    Message {
        /// The number of the message in the job, from 1.
        number: usize,
        /// The commits of the message, oldest first.
        commits: Vec<Sha>,
    },
    /// One commit.
    Commit([Sha; 1]),
}

impl Part {
    /// Returns the part that the query of a URL selects. Only commits of these turns and of `others` can be selected;
    /// returns `None` for any other one, and for a message without commits.
    pub(super) fn of_query(query: Option<&str>, turns: &[Turn], others: &[Sha]) -> Option<Self> {
        let value = |name: &str| query.unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix(name));
        if let Some(hash) = value("commit=") {
            let known = turns.iter().flat_map(|turn| &turn.commits).chain(others);
            let mut found = known.filter(|sha| sha.as_str().starts_with(hash));
            let first = found.next().filter(|_| hash.len() >= SHORTEST_HASH)?;
            return found.all(|other| other == first).then(|| Self::Commit([first.clone()]));
        }
        let Some(number) = value("message=") else { return Some(Self::All) };
        let number: usize = number.parse().ok()?;
        let commits = &turns.get(number.checked_sub(1)?)?.commits;
        (!commits.is_empty()).then(|| Self::Message { number, commits: commits.clone() })
    }

    /// Returns the commits of the part, oldest first; empty for all changes.
    pub(super) fn commits(&self) -> &[Sha] {
        match self {
            Self::All => &[],
            Self::Message { commits, .. } => commits,
            Self::Commit(commit) => commit,
        }
    }

    /// Returns the parameter that selects the part.
    pub(super) fn query(&self) -> Option<String> {
        match self {
            Self::All => None,
            Self::Message { number, .. } => Some(format!("message={number}")),
            Self::Commit([commit]) => Some(format!("commit={commit}")),
        }
    }

    /// Returns the parts that a reader can choose; empty if there is only one. `all` is the size of all changes.
    pub(super) fn choices(&self, turns: &[Turn], all: Option<Size>) -> Vec<Choice> {
        let choice = |part: &Self, label: String, size: Option<Size>| {
            let is_current = part == self;
            Choice { query: part.query(), label, size: size.filter(Size::has_lines), is_current }
        };
        let of_message = |(number, turn): (usize, &Turn)| {
            let size = Size::of(turn.diff.as_ref().map(|diff| diff.stat));
            choice(&Self::Message { number, commits: turn.commits.clone() }, format!("Message {number}"), size)
        };
        let with_commits = (1..).zip(turns).filter(|(_, turn)| !turn.commits.is_empty());
        let parts: Vec<Choice> = with_commits.map(of_message).collect();
        if parts.len() < 2 && *self == Self::All {
            return Vec::new();
        }
        let commit = match self {
            Self::Commit([commit]) => {
                let mut known = turns.iter().filter_map(|turn| turn.diff.as_ref()).flat_map(|diff| &diff.commits);
                let stat = known.find(|known| known.sha == *commit).map(|known| known.stat);
                Some(choice(self, format!("Commit {}", short(commit)), Size::of(stat)))
            }
            Self::All | Self::Message { .. } => None,
        };
        std::iter::once(choice(&Self::All, "All".to_owned(), all)).chain(parts).chain(commit).collect()
    }
}

/// Returns the first characters of a hash, as pages show it.
pub(super) fn short(sha: &Sha) -> &str {
    sha.as_str().get(..8).unwrap_or(sha.as_str())
}

#[cfg(test)]
mod tests {
    use journeyman_core::diff_stat::{CommitDiff, DiffStat};

    use super::*;

    fn sha(digit: &str) -> Sha {
        digit.repeat(40).parse().unwrap()
    }

    fn stat(additions: u64) -> DiffStat {
        DiffStat { additions, deletions: 0, files: 1 }
    }

    /// Returns three turns. The first has a stored size, the second has no commits, and an older version ran the third.
    fn job() -> Vec<Turn> {
        let commit = CommitDiff { sha: sha("a"), subject: String::new(), stat: stat(3), paths: Vec::new() };
        let diff = Some(MessageDiff { stat: stat(2), commits: vec![commit], ..MessageDiff::default() });
        let without_size = |commits: Vec<Sha>| Turn { commits, diff: None };
        vec![Turn { commits: vec![sha("a")], diff }, Turn::default(), without_size(vec![sha("b"), sha("c")])]
    }

    #[test]
    fn only_commits_of_the_job_can_be_selected() {
        let commit = |digit: &str| Some(Part::Commit([sha(digit)]));
        for (query, part) in [
            (None, Some(Part::All)),
            (Some("view=split"), Some(Part::All)),
            (Some("message=1"), Some(Part::Message { number: 1, commits: vec![sha("a")] })),
            (Some("message=2"), None),
            (Some("message=0"), None),
            (Some("message=4"), None),
            (Some("message=x"), None),
            (Some("view=split&commit=ccccccc"), commit("c")),
            (Some("commit=dddddddd"), commit("d")),
            (Some("commit=cccccc"), None),
            (Some("commit=eeeeeeee"), None),
            (Some("commit="), None),
            (Some("commit=--output"), None),
        ] {
            assert_eq!(Part::of_query(query, &job(), &[sha("d")]), part, "{query:?}");
        }
    }

    #[test]
    fn the_parts_are_a_choice_if_there_are_several() {
        let labels = |part: Part, turns: &[Turn]| -> Vec<(String, String, bool)> {
            let text = |choice: &Choice| choice.size.as_ref().map(Size::text).unwrap_or_default();
            let choices = part.choices(turns, Size::of(Some(stat(9))));
            choices.into_iter().map(|choice| (choice.label.clone(), text(&choice), choice.is_current)).collect()
        };
        let shown = |label: &str, size: &str, is_current| (label.to_owned(), size.to_owned(), is_current);
        let all = [shown("All", "+9", true), shown("Message 1", "+2", false), shown("Message 3", "", false)];
        assert_eq!(labels(Part::All, &job()), all);
        assert_eq!(labels(Part::All, &job()[..2]), []);
        let commit = labels(Part::Commit([sha("a")]), &job()[..1]);
        assert_eq!(commit.last(), Some(&shown("Commit aaaaaaaa", "+3", true)));
    }
}
