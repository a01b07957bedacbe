//! What a list says about a pull request and its base.

use journeyman_app::KnownComparison;

use crate::{visible, words};

/// The note in a row.
pub(in crate::pages) struct BaseNote {
    /// True if the branches conflict.
    pub(in crate::pages) is_conflict: bool,
    pub(in crate::pages) text: String,
}

impl BaseNote {
    /// Returns the note; `None` if the pull request has all commits of its base.
    pub(in crate::pages) fn of(known: &KnownComparison) -> Option<Self> {
        let found = match &known.result {
            Ok(found) => found,
            Err(reason) => return Some(Self { is_conflict: false, text: reason.text().to_owned() }),
        };
        let base = visible::line(&found.base);
        let text = match (found.conflicts.count(), found.behind) {
            (0, 0) => return None,
            (0, 1) => format!("1 commit behind {base}"),
            (0, behind) => format!("{} commits behind {base}", words::grouped(behind)),
            (1, _) => format!("1 file conflicts with {base}"),
            (count, _) => format!("{} conflict with {base}", words::counted(count, "file")),
        };
        Some(Self { is_conflict: !found.conflicts.is_empty(), text })
    }
}

#[cfg(test)]
mod tests {
    use journeyman_core::pull::base_comparison::{BaseComparison, Conflicts};
    use journeyman_core::pull::compared::NoComparison;

    use super::*;

    fn note(behind: u64, files: &[&str]) -> Option<(bool, String)> {
        let conflicts = Conflicts { files: files.iter().map(|file| (*file).to_owned()).collect(), more: 0 };
        let [base_sha, head_sha] = ["a", "b"].map(|digit| digit.repeat(40).parse().unwrap());
        let found = BaseComparison { base: "main".to_owned(), base_sha, head_sha, behind, conflicts };
        BaseNote::of(&KnownComparison { result: Ok(found), at: None }).map(|note| (note.is_conflict, note.text))
    }

    #[test]
    fn only_what_matters_is_said() {
        assert_eq!(note(0, &[]), None);
        assert_eq!(note(1, &[]), Some((false, "1 commit behind main".to_owned())));
        assert_eq!(note(1000, &[]), Some((false, "1,000 commits behind main".to_owned())));
        assert_eq!(note(1, &["a"]), Some((true, "1 file conflicts with main".to_owned())));
        assert_eq!(note(1, &["a", "b"]), Some((true, "2 files conflict with main".to_owned())));
        let unknown = KnownComparison { result: Err(NoComparison::NotYet), at: None };
        assert_eq!(BaseNote::of(&unknown).map(|note| note.text).as_deref(), Some("not compared yet"));
    }
}
