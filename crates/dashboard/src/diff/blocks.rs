//! Grouping of removed lines with the added lines that replace them.

use std::ops::Range;

use super::{Line, LineClass};

/// A part of a diff, as indexes of its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Block {
    /// A single unchanged line or header, or a note after one.
    Same(usize),
    /// A run of removed lines and the run of added lines after it; one of the two may be empty. Notes are in the run of
    /// the line to which they belong.
    Changed {
        /// The indexes of the removed lines.
        removed: Range<usize>,
        /// The indexes of the added lines.
        added: Range<usize>,
    },
}

/// Divides lines into blocks. Each line is in exactly one block, and the order stays the same.
pub(super) fn blocks(lines: &[Line<'_>]) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let removed = at..end_of_run(lines, at, LineClass::Removed);
        let added = removed.end..end_of_run(lines, removed.end, LineClass::Added);
        if added.end > at {
            at = added.end;
            blocks.push(Block::Changed { removed, added });
        } else {
            blocks.push(Block::Same(at));
            at += 1;
        }
    }
    blocks
}

fn end_of_run(lines: &[Line<'_>], from: usize, class: LineClass) -> usize {
    let mut end = from;
    while let Some(line) = lines.get(end) {
        // A note does not begin a run.
        if line.class != class && (line.class != LineClass::Note || end == from) {
            break;
        }
        end += 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::Block::{Changed, Same};
    use super::*;

    #[test]
    fn runs_are_paired_and_notes_stay_with_their_lines() {
        for (signs, expected) in [
            ("", vec![]),
            ("@  ", vec![Same(0), Same(1), Same(2)]),
            (" -+ ", vec![Same(0), Changed { removed: 1..2, added: 2..3 }, Same(3)]),
            ("--+", vec![Changed { removed: 0..2, added: 2..3 }]),
            ("++", vec![Changed { removed: 0..0, added: 0..2 }]),
            ("-", vec![Changed { removed: 0..1, added: 1..1 }]),
            ("-\\+\\", vec![Changed { removed: 0..2, added: 2..4 }]),
            (" \\", vec![Same(0), Same(1)]),
            ("+-", vec![Changed { removed: 0..0, added: 0..1 }, Changed { removed: 1..2, added: 2..2 }]),
            ("-@-", vec![Changed { removed: 0..1, added: 1..1 }, Same(1), Changed { removed: 2..3, added: 3..3 }]),
        ] {
            let lines: Vec<Line<'_>> = signs.chars().map(line).collect();
            assert_eq!(blocks(&lines), expected, "{signs}");
        }
    }

    fn line(sign: char) -> Line<'static> {
        let class = match sign {
            '@' => LineClass::Hunk,
            '+' => LineClass::Added,
            '-' => LineClass::Removed,
            '\\' => LineClass::Note,
            _ => LineClass::Context,
        };
        Line { class, old_no: None, new_no: None, text: "" }
    }
}
