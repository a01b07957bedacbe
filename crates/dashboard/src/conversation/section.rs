//! The sections of a conversation: each message with the blocks that follow it. The middle of a long section is folded.

use std::time::Duration;

use journeyman_core::time::Timestamp;

use super::block::{Block, Kind};
use crate::words;

/// The number of blocks from which on a section is folded.
const FOLDED_FROM: usize = 13;

/// The smallest number of the newest blocks that stay outside of the folded middle.
const OUTSIDE: usize = 8;

/// The number of blocks that are folded at a time, so that a page does not change with each block.
const AT_A_TIME: usize = 5;

/// A message and the blocks that follow it.
#[derive(Debug)]
pub(crate) struct Section<'a> {
    /// The block of the message, if it is known.
    pub(crate) head: Option<&'a Block>,
    /// The blocks after it, without removed ones.
    pub(crate) rest: Vec<&'a Block>,
    /// The removed blocks.
    pub(super) cut: Cut,
}

/// The blocks of a section that a stream has removed. All of them are folded.
#[derive(Debug, Clone)]
pub(super) struct Cut {
    /// The number of the first block of the section.
    key: u64,
    count: usize,
    summary: Summary,
}

impl Cut {
    pub(super) fn at(key: u64) -> Self {
        Self { key, count: 0, summary: Summary::default() }
    }

    pub(super) fn add(&mut self, block: &Block) {
        self.count += 1;
        self.summary.add(block);
    }
}

impl<'a> Section<'a> {
    pub(super) fn begin(head: &'a Block) -> Self {
        Self { head: Some(head), rest: Vec::new(), cut: Cut::at(head.seq) }
    }

    /// Returns the ID of the element with the folded blocks.
    pub(crate) fn fold_id(&self) -> String {
        format!("f{}", self.cut.key)
    }

    /// Returns the number of blocks in [`Section::rest`] that are folded. A section that `is_over` is folded completely.
    pub(crate) fn folded(&self, is_over: bool) -> usize {
        if is_over {
            return self.rest.len();
        }
        let count = self.cut.count + self.rest.len();
        if count < FOLDED_FROM {
            return 0;
        }
        let outside = OUTSIDE + (count - FOLDED_FROM) % AT_A_TIME;
        self.rest.len().saturating_sub(outside)
    }

    /// Returns the summary of the first `count` blocks of [`Section::rest`], and of the removed ones.
    pub(crate) fn summary(&self, count: usize) -> Summary {
        let mut summary = self.cut.summary;
        self.rest.iter().take(count).for_each(|block| summary.add(block));
        summary
    }
}

/// The number of steps in a part of a conversation, by their kinds, and the time that they took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) steps: usize,
    reads: usize,
    edits: usize,
    commands: usize,
    failed: usize,
    time: Option<(Timestamp, Timestamp)>,
}

impl Summary {
    fn add(&mut self, block: &Block) {
        let mut end = block.at;
        if let Kind::Tool(tool) = &block.kind {
            self.steps += 1;
            match tool.icon {
                "read" | "search" => self.reads += 1,
                "edit" => self.edits += 1,
                "shell" => self.commands += 1,
                _ => {}
            }
            self.failed += usize::from(tool.status == "failed");
            end = tool.ended.unwrap_or(end);
        }
        let (begin, last) = self.time.unwrap_or((block.at, end));
        self.time = Some((begin, last.max(end)));
    }

    /// Returns the number of steps and their time, such as `312 steps, 4 min`.
    pub(crate) fn title(&self) -> String {
        let steps = if self.steps == 0 { "What the agent said".to_owned() } else { words::counted(self.steps, "step") };
        let time = self.time.map(|(begin, end)| end.since(begin)).filter(|time| *time >= Duration::from_secs(1));
        match time.filter(|_| self.steps > 0) {
            Some(time) if time < Duration::from_secs(5) => format!("{steps}, {}", words::duration(time)),
            Some(time) => format!("{steps}, {}", words::distance(time)),
            None => steps,
        }
    }

    /// Returns the numbers of the kinds, such as `201 reads, 74 edits, 37 commands, 2 failed`.
    pub(crate) fn kinds(&self) -> String {
        let kinds = [(self.reads, "read"), (self.edits, "edit"), (self.commands, "command")];
        let kinds = kinds.into_iter().filter(|(count, _)| *count > 0).map(|(count, noun)| words::counted(count, noun));
        let failed = (self.failed > 0).then(|| format!("{} failed", self.failed));
        kinds.chain(failed).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use journeyman_core::job::event::LogEntry;
    use serde_json::json;

    use super::super::Fold;
    use super::*;

    fn add(fold: &mut Fold, seq: u64, kind: &str, status: &str) {
        let at = Timestamp::default() + Duration::from_secs(seq);
        let data = json!({"toolCallId": seq.to_string(), "kind": kind, "status": status});
        fold.add(&LogEntry { seq, kind: "agent.tool_call".to_owned(), at, run_id: None, data });
    }

    /// Returns the folds of a page that is rendered now: the number of folded blocks, and the summary.
    fn folds(fold: &Fold) -> Vec<(usize, String, String)> {
        let folded = |section: Section<'_>| {
            let count = section.folded(false);
            let summary = section.summary(count);
            (count, summary.title(), summary.kinds())
        };
        fold.sections().into_iter().map(folded).collect()
    }

    #[test]
    fn the_middle_of_a_long_section_is_folded_in_groups() {
        let mut fold = Fold::default();
        let mut outside = Vec::new();
        for seq in 1..=23 {
            add(&mut fold, seq, "read", "completed");
            let section = fold.sections().pop().expect("a section");
            outside.push(section.rest.len() - section.folded(false));
        }
        assert_eq!(outside, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 8, 9, 10, 11, 12, 8, 9, 10, 11, 12, 8]);
        let section = fold.sections().pop().expect("a section");
        assert_eq!((section.folded(true), section.fold_id()), (23, "f1".to_owned()));
    }

    #[test]
    fn the_summary_counts_the_kinds() {
        let mut fold = Fold::default();
        let kinds = ["read", "search", "edit", "execute", "execute", "think"];
        for (seq, kind) in (1..).zip(kinds) {
            add(&mut fold, seq, kind, if seq == 5 { "failed" } else { "completed" });
        }
        let section = fold.sections().pop().expect("a section");
        let summary = section.summary(6);
        assert_eq!(summary.title(), "6 steps, 5 s");
        assert_eq!(summary.kinds(), "2 reads, 1 edit, 2 commands, 1 failed");
    }

    #[test]
    fn a_stream_that_has_removed_blocks_has_the_same_folds() {
        let mut all = Fold::default();
        let mut stream = Fold::default();
        for seq in 1..=200 {
            for fold in [&mut all, &mut stream] {
                add(fold, seq, if seq % 3 == 0 { "edit" } else { "execute" }, "completed");
            }
            stream.keep(30);
            let [(_, title, kinds), (_, of_stream, also)] = [&all, &stream].map(|fold| folds(fold).remove(0));
            assert_eq!((title, kinds), (of_stream, also), "{seq}");
            assert_eq!(stream.sections()[0].fold_id(), "f1");
        }
    }
}
