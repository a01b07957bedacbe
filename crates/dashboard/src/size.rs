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
        let DiffStat { additions, deletions, files } = stat.filter(|stat| stat.files > 0)?;
        Some(Self::of_lines(additions, deletions, files))
    }

    /// Returns the size of a change with these numbers of lines and files.
    pub(crate) fn of_lines(additions: u64, deletions: u64, files: u64) -> Self {
        let shown = |sign: char, count: u64| (count > 0).then(|| format!("{sign}{}", words::grouped(count)));
        Self { plus: shown('+', additions), minus: shown('−', deletions), files }
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
}
