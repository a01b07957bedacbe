//! What a host tells about the merge of a pull request, in words.

use journeyman_core::checks::{Check, CheckState};
use journeyman_core::ports::ForgeError;

/// The maximum number of names that a note lists.
const NAMES: usize = 10;

/// What is known about the merge of a pull request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct MergeNote {
    /// What the merge waits for, each as a sentence without a capital letter and a period.
    pub(crate) waits: Vec<String>,
    /// What else there is to know, each as a sentence.
    pub(crate) facts: Vec<String>,
}

impl MergeNote {
    /// Adds something that the merge waits for.
    pub(crate) fn wait(&mut self, text: impl Into<String>) {
        self.waits.push(text.into());
    }

    /// Adds people who have not reviewed yet.
    pub(crate) fn reviews_of(&mut self, people: &[String]) {
        if !people.is_empty() {
            self.wait(format!("a review is requested from {}", listed(people)));
        }
    }

    /// Adds people who have requested changes.
    pub(crate) fn changes_by(&mut self, people: &[String]) {
        if !people.is_empty() {
            self.wait(format!("changes are requested by {}", listed(people)));
        }
    }

    /// Adds the open pull request whose branch is the base branch. `sign` is what precedes numbers on this host.
    pub(crate) fn stacked_on(&mut self, sign: char, number: u64) {
        self.facts.push(format!(
            "It is stacked on {sign}{number}: its base branch is the branch of that one, which should be merged first."
        ));
    }

    /// Returns the note as an entry among the checks, which does not count; `None` if there is nothing to tell. `what` is
    /// the name of pull requests on this host, and `number` that of the pull request with its sign.
    pub(crate) fn into_check(self, what: &str, number: &str) -> Option<Check> {
        let Self { waits, mut facts } = self;
        if !waits.is_empty() {
            facts.insert(0, format!("The {} {number} waits: {}.", what.to_lowercase(), waits.join("; ")));
        }
        let summary = Some(facts.join(" ")).filter(|text| !text.is_empty())?;
        Some(Check { summary: Some(summary), ..Check::new(what, CheckState::Ignored) })
    }
}

/// Returns names as a list, of which the first are shown.
fn listed(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMES).map(String::as_str).collect();
    let more = names.len().saturating_sub(NAMES);
    let shown = shown.join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

/// Returns the note, or none if it cannot be read: the checks are useful without it.
pub(crate) fn if_read<T: Default>(repository: &str, read: Result<T, ForgeError>) -> T {
    read.unwrap_or_else(|error| {
        tracing::debug!(repository, %error, "the host does not tell about the merge of the pull request");
        T::default()
    })
}

/// The reason for which no merge is requested if there is nothing to wait for.
pub(crate) const NOTHING_TO_WAIT_FOR: &str = "nothing is left to wait for, so the code host would merge at once; the service does not merge by itself. Require \
     checks or approvals for the base branch, or merge it yourself";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_what_the_merge_waits_for_and_what_else_there_is() {
        assert_eq!(MergeNote::default().into_check("Pull request", "#1"), None);
        let mut note = MergeNote::default();
        note.reviews_of(&[]);
        note.reviews_of(&["ada".to_owned(), "acme/backend".to_owned()]);
        note.changes_by(&["bob".to_owned()]);
        note.stacked_on('#', 3);
        let check = note.into_check("Pull request", "#7").unwrap();
        assert_eq!((check.name.as_str(), check.state), ("Pull request", CheckState::Ignored));
        assert_eq!(
            check.summary.unwrap(),
            "The pull request #7 waits: a review is requested from ada, acme/backend; changes are requested by bob. It is \
             stacked on #3: its base branch is the branch of that one, which should be merged first."
        );
    }

    #[test]
    fn many_names_are_counted() {
        let names: Vec<String> = (0..13).map(|number| format!("user{number}")).collect();
        assert!(listed(&names).ends_with("user9 and 3 more"), "{}", listed(&names));
    }
}
