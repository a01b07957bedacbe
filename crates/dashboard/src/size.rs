//! The size of a change, as pages show it: `+145 −18`.

use journeyman_core::diff_stat::DiffStat;

use crate::words;

/// The size of a change. A number that is zero is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Size {
    /// The added lines, such as `+145`.
    pub(crate) plus: Option<String>,
    /// The removed lines, such as `−18`.
    pub(crate) minus: Option<String>,
    /// The number of changed files.
    pub(crate) files: u64,
}

impl Size {
    /// Returns the size of a change; `None` if it is unknown or nothing changed.
    pub(crate) fn of(stat: Option<DiffStat>) -> Option<Self> {
        stat.filter(|stat| stat.files > 0).map(Self::new)
    }

    /// Returns the size of a change with these numbers of lines and files.
    pub(crate) fn of_lines(additions: usize, deletions: usize, files: usize) -> Self {
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        Self::new(DiffStat { additions: number(additions), deletions: number(deletions), files: number(files) })
    }

    fn new(stat: DiffStat) -> Self {
        let shown = |sign: char, count: u64| (count > 0).then(|| format!("{sign}{}", words::grouped(count)));
        Self { plus: shown('+', stat.additions), minus: shown('−', stat.deletions), files: stat.files }
    }

    /// Returns true if lines were added or removed, which is not so for binary files.
    pub(crate) fn has_lines(&self) -> bool {
        self.plus.is_some() || self.minus.is_some()
    }

    /// Returns the numbers of lines as plain text, such as `+145 −18`; empty if no lines were added or removed.
    pub(crate) fn text(&self) -> String {
        let parts: Vec<&str> = [&self.plus, &self.minus].into_iter().filter_map(Option::as_deref).collect();
        parts.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_left_out() {
        let of = |additions, deletions, files| Size::of(Some(DiffStat { additions, deletions, files }));
        let size = |plus: Option<&str>, minus: Option<&str>, files| {
            Some(Size { plus: plus.map(str::to_owned), minus: minus.map(str::to_owned), files })
        };
        assert_eq!(of(1452, 18, 6), size(Some("+1,452"), Some("−18"), 6));
        assert_eq!(of(0, 3, 1), size(None, Some("−3"), 1));
        assert_eq!(of(0, 0, 1), size(None, None, 1), "a binary file");
        assert_eq!((of(0, 0, 0), Size::of(None)), (None, None));
    }

    #[test]
    fn the_text_has_the_numbers_that_are_not_zero() {
        for (added, removed, text) in [(1452, 18, "+1,452 −18"), (1, 0, "+1"), (0, 2, "−2"), (0, 0, "")] {
            let size = Size::of_lines(added, removed, 1);
            assert_eq!((size.text().as_str(), size.has_lines()), (text, !text.is_empty()));
        }
    }
}
