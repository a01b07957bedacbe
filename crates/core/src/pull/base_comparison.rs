//! How the branch of a pull request compares with its base: whether it is behind, and whether the two conflict. The texts
//! that tell an agent so are here too, so that a person's button, the service itself and each follow-up say the same.

use serde::{Deserialize, Serialize};

use crate::ids::Sha;

/// The maximum number of conflicting files that are named.
pub const MAX_CONFLICTS: usize = 100;

/// The maximum number of commits of the base that are counted.
pub const MAX_BEHIND: u64 = 1000;

/// The maximum number of characters of a name in a prompt.
const NAME_CHARS: usize = 300;

/// The files in which two branches conflict.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Conflicts {
    /// The paths of the first [`MAX_CONFLICTS`] files. Bytes that are not UTF-8 are written as `\xNN`.
    pub files: Vec<String>,
    /// The number of files that are not named.
    #[serde(default)]
    pub more: usize,
}

impl Conflicts {
    /// Returns the number of files.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.files.len().saturating_add(self.more)
    }

    /// Returns whether the branches can be merged.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count() == 0
    }
}

/// How the branch of an open pull request compares with the branch that it is merged into.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BaseComparison {
    /// The name of the branch to merge into.
    pub base: String,
    /// The newest commit of the branch to merge into.
    pub base_sha: Sha,
    /// The newest commit of the branch of the pull request.
    pub head_sha: Sha,
    /// The number of commits of the base that the branch does not have, at most [`MAX_BEHIND`].
    pub behind: u64,
    /// The files in which the two conflict.
    pub conflicts: Conflicts,
}

/// Returns a name on one line, so that it cannot be taken for more than a name.
fn name(text: &str) -> String {
    let mut name: String =
        text.chars().take(NAME_CHARS).map(|c| if c == '`' || c.is_control() { '\'' } else { c }).collect();
    if text.chars().nth(NAME_CHARS).is_some() {
        name.push('…');
    }
    format!("`{name}`")
}

fn list(conflicts: &Conflicts) -> String {
    let mut text: String = conflicts.files.iter().map(|file| format!("- {}\n", name(file))).collect();
    if conflicts.more > 0 {
        text.push_str(&format!("- and {} more; `git merge` names all of them\n", conflicts.more));
    }
    text
}

/// Returns the prompt that asks an agent to merge the base branch into its branch.
#[must_use]
pub fn request(base: &str, conflicts: &Conflicts) -> String {
    let (base, newest) = (name(base), name(&format!("origin/{base}")));
    if conflicts.is_empty() {
        return format!(
            "The pull request is behind {base}. Merge {newest}, which is its newest commit, into your branch. Do not \
             rebase. Then run the tests, and repair what the merge has broken."
        );
    }
    format!(
        "The pull request conflicts with {base}. Merge {newest}, which is its newest commit, into your branch, and \
         resolve the conflicts, so that both sides keep their intent. Commit the merge; do not rebase. Then run the \
         tests.\n\nThe files that conflict:\n\n{}",
        list(conflicts)
    )
}

/// Returns the note about conflicts that a follow-up message gets, so that "resolve the conflicts" says which ones.
#[must_use]
pub fn note(base: &str, conflicts: &Conflicts) -> String {
    let (base, newest) = (name(base), name(&format!("origin/{base}")));
    format!(
        "(Note of the service: your branch conflicts with {base}, the branch that it is to be merged into. Its newest \
         commit is {newest}. If the message asks for it, merge {newest}, resolve the conflicts, and commit the merge; \
         do not rebase. The files that conflict:\n\n{})",
        list(conflicts)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflicts(files: &[&str], more: usize) -> Conflicts {
        Conflicts { files: files.iter().map(|file| (*file).to_owned()).collect(), more }
    }

    #[test]
    fn the_request_names_the_branch_and_the_files() {
        let text = request("main", &conflicts(&["a.txt", "odd`\nname"], 0));
        assert!(text.starts_with("The pull request conflicts with `main`. Merge `origin/main`"), "{text}");
        assert!(text.ends_with("\n- `a.txt`\n- `odd''name`\n"), "{text}");
        assert!(request("main", &conflicts(&["a"], 7)).ends_with("\n- and 7 more; `git merge` names all of them\n"));
        let behind = request("v1", &Conflicts::default());
        assert!(behind.starts_with("The pull request is behind `v1`. Merge `origin/v1`"), "{behind}");
    }

    #[test]
    fn a_prompt_has_a_bounded_length() {
        let long = "x".repeat(5_000);
        let files: Vec<&str> = vec![&long; MAX_CONFLICTS];
        for text in [request(&long, &conflicts(&files, 1)), note(&long, &conflicts(&files, 1))] {
            assert!(text.chars().count() < 40_000, "{}", text.chars().count());
        }
    }

    #[test]
    fn the_note_says_what_to_do_only_if_the_message_asks_for_it() {
        let text = note("main", &conflicts(&["a.txt"], 0));
        assert!(text.contains("If the message asks for it, merge `origin/main`"), "{text}");
        assert!(text.ends_with("\n- `a.txt`\n)"), "{text}");
    }

    #[test]
    fn files_that_are_not_named_count() {
        assert_eq!(conflicts(&["a"], 4).count(), 5);
        assert!(Conflicts::default().is_empty() && !conflicts(&[], 1).is_empty());
    }
}
