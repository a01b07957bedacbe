//! OpenedRepository of two sequences of texts.

use std::iter::once;
use std::ops::Range;

use imara_diff::{Algorithm, Diff, Hunk, InternedInput};

/// A part of two sequences. One of the ranges may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// True if both ranges have the same texts.
    pub(super) is_same: bool,
    /// The indices in the old sequence.
    pub(super) old: Range<usize>,
    /// The indices in the new sequence.
    pub(super) new: Range<usize>,
}

/// Returns the parts of two sequences in their order, without empty ones.
pub(super) fn compare(old: &[&str], new: &[&str]) -> Vec<Part> {
    let mut input = InternedInput::default();
    input.update_before(old.iter().copied());
    input.update_after(new.iter().copied());
    let diff = Diff::compute(Algorithm::Myers, &input);
    let length = |texts: &[&str]| u32::try_from(texts.len()).unwrap_or(u32::MAX);
    let (old_end, new_end) = (length(old), length(new));
    let end = Hunk { before: old_end..old_end, after: new_end..new_end };
    let mut parts = Vec::new();
    let (mut old_from, mut new_from) = (0, 0);
    for Hunk { before, after } in diff.hunks().chain(once(end)) {
        parts.push(part(true, old_from..before.start, new_from..after.start));
        (old_from, new_from) = (before.end, after.end);
        parts.push(part(false, before, after));
    }
    parts.retain(|part| !part.old.is_empty() || !part.new.is_empty());
    parts
}

fn part(is_same: bool, old: Range<u32>, new: Range<u32>) -> Part {
    let [old, new] = [old, new].map(|range| range.start as usize..range.end as usize);
    Part { is_same, old, new }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_both_sequences() {
        let part = |is_same, old, new| Part { is_same, old, new };
        for (old, new, expected) in [
            ("a b c", "a x c", vec![part(true, 0..1, 0..1), part(false, 1..2, 1..2), part(true, 2..3, 2..3)]),
            ("a b", "b", vec![part(false, 0..1, 0..0), part(true, 1..2, 0..1)]),
            ("a", "a b", vec![part(true, 0..1, 0..1), part(false, 1..1, 1..2)]),
            ("a", "b", vec![part(false, 0..1, 0..1)]),
            ("", "", vec![]),
        ] {
            let [old_texts, new_texts] = [old, new].map(|text| text.split_whitespace().collect::<Vec<_>>());
            assert_eq!(compare(&old_texts, &new_texts), expected, "{old} → {new}");
        }
    }
}
