//! The subject of a commit of the service.

use std::fmt;

use crate::message::{Message, Origin};
use crate::placeholders;

use super::kind::{Kind, SUBJECT_CHARS};
use super::summary::subject_of_answer;

/// A changed file of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// The file is new.
    Added(&'a str),
    /// The file has other content, another type or mode.
    Updated(&'a str),
    /// The file is gone.
    Removed(&'a str),
}

impl<'a> Change<'a> {
    /// Returns the change of a file that git-diff(1) describes with this letter.
    #[must_use]
    pub const fn new(letter: char, path: &'a str) -> Self {
        match letter {
            'A' => Self::Added(path),
            'D' => Self::Removed(path),
            _ => Self::Updated(path),
        }
    }

    const fn path(&self) -> &'a str {
        match self {
            Self::Added(path) | Self::Updated(path) | Self::Removed(path) => path,
        }
    }

    const fn verb(&self) -> &'static str {
        match self {
            Self::Added(_) => "Add",
            Self::Updated(_) => "Update",
            Self::Removed(_) => "Remove",
        }
    }
}

/// Returns the subject that a message asks for in the words of a person; `None` if the service wrote its prompt, as for
/// reviews, checks and updates. `title` is that of the job, which is the title of the issue for a job of an issue.
#[must_use]
pub fn subject_of_request(message: &Message, title: &str) -> Option<String> {
    let comments = message.source.as_ref().map(|source| source.comments.as_slice()).unwrap_or_default();
    match (message.origin, comments) {
        (Origin::Api | Origin::Dashboard | Origin::PullRequest | Origin::Slack, _) => {
            Some(crate::prompt::title_of(&message.prompt))
        }
        (Origin::Issue, _) => Some(title.to_owned()),
        (Origin::Comment, [comment]) => {
            let text = comment.title.trim_start();
            // The mention of the service is no part of the request.
            let asked = match text.strip_prefix('@').and_then(|rest| rest.split_once(char::is_whitespace)) {
                Some((_, asked)) => asked.trim(),
                None if text.starts_with('@') => "",
                None => text.trim(),
            };
            (!asked.is_empty()).then(|| asked.to_owned())
        }
        (Origin::Comment | Origin::Review | Origin::Check | Origin::Update, _) => None,
    }
}

/// Returns the subject that changed files give, such as "Update src/a.rs and 2 other files".
#[must_use]
pub fn subject_of_changes(changes: &[Change<'_>]) -> String {
    let Some(first) = changes.first() else { return "Update the branch".to_owned() };
    let same = changes.iter().all(|change| change.verb() == first.verb());
    let verb = if same { first.verb() } else { "Update" };
    let fits = |text: &String| text.chars().count() <= SUBJECT_CHARS;
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let others = match changes.len() - 1 {
        0 => String::new(),
        1 => " and 1 other file".to_owned(),
        more => format!(" and {more} other files"),
    };
    let main = changes.iter().find(|change| matches!(change, Change::Updated(_))).unwrap_or(first);
    [main.path().to_owned(), name(main.path())]
        .map(|path| format!("{verb} {path}{others}"))
        .into_iter()
        .find(fits)
        .unwrap_or_else(|| match changes.len() {
            1 => format!("{verb} 1 file"),
            all => format!("{verb} {all} files"),
        })
}

/// The values of a project's template for subjects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values<'a> {
    /// The subject: `{subject}`, and with a small first letter `{summary}`; its kind is `{type}`.
    pub subject: &'a str,
    /// The number of the issue that asked for the work: `{issue}`, such as `#5`.
    pub issue: Option<u64>,
    /// The branch: `{branch}`.
    pub branch: &'a str,
}

/// Returns the subject from a project's template; `None` means `{subject}`. A placeholder without a value is removed, with
/// the brackets around it.
#[must_use]
pub fn filled(template: Option<&str>, values: &Values<'_>) -> String {
    let Some(template) = template else { return values.subject.to_owned() };
    let issue = values.issue.map(|number| format!("#{number}")).unwrap_or_default();
    let summary = small_first(values.subject);
    let pairs = [
        ("{subject}", values.subject),
        ("{summary}", &summary),
        ("{type}", Kind::of(values.subject).name()),
        ("{issue}", &issue),
        ("{branch}", values.branch),
    ];
    let text = placeholders::fill(template, &pairs);
    let text = text.replace("()", "").replace("[]", "");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a subject with a small first letter, unless its first word has other capital letters, such as `README`.
fn small_first(subject: &str) -> String {
    let word = subject.split_whitespace().next().unwrap_or_default();
    if word.chars().skip(1).any(char::is_uppercase) {
        return subject.to_owned();
    }
    let mut letters = subject.chars();
    letters.next().map(char::to_lowercase).into_iter().flatten().chain(letters).collect()
}

/// Returns the subject of a commit for a message with an answer: what the answer says was done, otherwise what a person has
/// asked for. `None` if neither says so; the changed files then give the subject ([`subject_of_changes`]).
#[must_use]
pub fn subject_of(message: &Message, answer: Option<&str>, title: &str) -> Option<String> {
    answer.and_then(subject_of_answer).or_else(|| subject_of_request(message, title))
}

/// A trailer that names a person with whom the work was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoAuthor {
    /// The name.
    pub name: String,
    /// The address, such as the host's no-reply address of the user.
    pub address: String,
}

impl CoAuthor {
    /// Returns the co-author; `None` if the name or the address cannot be in a trailer.
    #[must_use]
    pub fn new(name: &str, address: &str) -> Option<Self> {
        let is_plain = |text: &str| !text.is_empty() && !text.chars().any(|c| c.is_control() || "<>".contains(c));
        let is_address = is_plain(address) && address.contains('@') && !address.contains(char::is_whitespace);
        (is_plain(name.trim()) && is_address)
            .then(|| Self { name: name.trim().to_owned(), address: address.to_owned() })
    }
}

impl fmt::Display for CoAuthor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Co-authored-by: {} <{}>", self.name, self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_files_give_a_subject() {
        use Change::{Added, Removed, Updated};
        let long = "very-long-folder-name/".repeat(4);
        let (deep, longest) = (format!("{long}a.rs"), format!("{long}{}.rs", "x".repeat(80)));
        for (changes, expected) in [
            (vec![], "Update the branch"),
            (vec![Added("a.rs")], "Add a.rs"),
            (vec![Removed("src/a.rs")], "Remove src/a.rs"),
            (vec![Updated("src/a.rs"), Updated("b")], "Update src/a.rs and 1 other file"),
            (vec![Added("b"), Added("c"), Added("d")], "Add b and 2 other files"),
            (vec![Added("b"), Updated("src/a.rs"), Removed("c")], "Update src/a.rs and 2 other files"),
            (vec![Updated(&deep)], "Update a.rs"),
            (vec![Updated(&longest)], "Update 1 file"),
            (vec![Updated(&longest), Added("b")], "Update 2 files"),
        ] {
            assert_eq!(subject_of_changes(&changes), expected, "{changes:?}");
        }
    }

    #[test]
    fn a_subject_has_a_kind() {
        for (subject, expected) in [
            ("Add a retry", "feat"),
            ("Add a test for retries", "test"),
            ("Fix the tests", "fix"),
            ("Update the README", "docs"),
            ("Correct typos", "fix"),
            ("Rename a to b", "refactor"),
            ("Upgrade serde", "build"),
            ("Update dependencies", "build"),
            ("Cache the answer", "perf"),
            ("Revert the change", "revert"),
            ("Update src/a.rs", "chore"),
            ("please look at this", "chore"),
        ] {
            assert_eq!(Kind::of(subject).name(), expected, "{subject}");
        }
    }

    #[test]
    fn templates_are_filled() {
        for (template, issue, expected) in [
            (None, Some(5), "Add a retry"),
            (Some("{type}: {summary}"), None, "feat: add a retry"),
            (Some("{subject} ({issue})"), Some(5), "Add a retry (#5)"),
            (Some("{subject} ({issue})"), None, "Add a retry"),
            (Some("[{issue}] {summary} on {branch}"), None, "add a retry on b/1"),
            (Some("{other} {subject}"), None, "{other} Add a retry"),
        ] {
            let values = Values { subject: "Add a retry", issue, branch: "b/1" };
            assert_eq!(filled(template, &values), expected, "{template:?}");
        }
        let values = Values { subject: "README: add a note", issue: None, branch: "b" };
        assert_eq!(filled(Some("{summary}"), &values), "README: add a note");
    }

    #[test]
    fn a_co_author_has_a_plain_name_and_address() {
        let trailer = |name, address| CoAuthor::new(name, address).map(|person| person.to_string());
        let ada = "7+ada@users.noreply.github.com";
        assert_eq!(trailer(" ada ", ada), Some(format!("Co-authored-by: ada <{ada}>")));
        for (name, address) in [("a\nb", ada), ("a<b", ada), ("", ada), ("ada", "x"), ("ada", "a b@x"), ("ada", "a>@x")]
        {
            assert_eq!(trailer(name, address), None, "{name:?} {address:?}");
        }
    }
}
