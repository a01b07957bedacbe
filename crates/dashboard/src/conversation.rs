//! Conversion of a job's log to the blocks of its conversation: pieces of text are joined, and all events of a tool
//! call become one block.
//!
//! The sequence number of its first event identifies a block. So a page and the stream that updates it use the same
//! IDs, provided that both begin at the same event.

mod block;
mod line;
mod plan;
mod section;
mod sentence;
mod tool;

use std::collections::{BTreeMap, HashMap};

use journeyman_core::job::event::LogEntry;
use journeyman_core::time::Timestamp;

pub(crate) use self::block::{Block, Kind};
pub(crate) use self::line::Line;
pub(crate) use self::plan::{Plan, Step};
use self::section::Cut;
pub(crate) use self::section::Section;
pub(crate) use self::sentence::{Sentences, TYPES};
pub(crate) use self::tool::{Part, Tool, patch};

/// The size in bytes from which on a block gets no more text. Further text of the agent begins a new block.
const MAX_TEXT_BYTES: usize = 200_000;

/// The effect of an event on the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touched {
    /// Added a block with this number.
    New(u64),
    /// Changed the block with this number.
    Changed(u64),
    /// Changed the plan.
    Plan,
}

/// The blocks by number, and the state for the next event.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    blocks: BTreeMap<u64, Block>,
    tools: HashMap<(String, String), u64>,
    /// The newest plan of the agent. It is shown at the side and not in the conversation.
    plan: Option<Plan>,
    /// The removed blocks of the first section, if some of its blocks were removed.
    cut: Option<Cut>,
    /// The last reason shown. A job fails with the reason of its run, which is not shown twice.
    last_reason: Option<String>,
}

impl Fold {
    /// Returns the block with this number.
    pub(crate) fn block(&self, seq: u64) -> Option<&Block> {
        self.blocks.get(&seq)
    }

    /// Returns all blocks in order.
    pub(crate) fn blocks(&self) -> impl DoubleEndedIterator<Item = &Block> {
        self.blocks.values()
    }

    /// Returns the newest plan.
    pub(crate) const fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// Sets the plan that the events before the first one have left.
    pub(crate) fn begin_with(&mut self, plan: Option<Plan>) {
        self.plan = plan;
    }

    /// Returns the newest tool call that is still running.
    pub(crate) fn open_tool(&self) -> Option<&Tool> {
        self.blocks().rev().find_map(|block| match &block.kind {
            Kind::Tool(tool) if tool.is_open() => Some(tool),
            _ => None,
        })
    }

    /// Returns the blocks by message.
    pub(crate) fn sections(&self) -> Vec<Section<'_>> {
        let mut sections: Vec<Section<'_>> = Vec::new();
        for block in self.blocks.values() {
            if matches!(block.kind, Kind::Turn(_)) {
                sections.push(Section::begin(block));
            } else if let Some(section) = sections.last_mut() {
                section.rest.push(block);
            } else {
                let cut = self.cut.clone().unwrap_or_else(|| Cut::at(block.seq));
                sections.push(Section { head: None, rest: vec![block], cut });
            }
        }
        sections
    }

    /// Removes all blocks except the `newest` ones. A stream no longer needs the others.
    pub(crate) fn keep(&mut self, newest: usize) {
        while self.blocks.len() > newest {
            let Some((first, block)) = self.blocks.pop_first() else { return };
            self.tools.retain(|_, seq| *seq != first);
            if matches!(block.kind, Kind::Turn(_)) {
                self.cut = Some(Cut::at(first));
            } else {
                self.cut.get_or_insert_with(|| Cut::at(first)).add(&block);
            }
        }
    }

    /// Adds the next event of the log.
    pub(crate) fn add(&mut self, entry: &LogEntry) -> Vec<Touched> {
        let run = entry.run_id.map(|run| run.to_string()).unwrap_or_default();
        let text = || entry.data["text"].as_str().unwrap_or_default();
        let touched = match entry.kind.as_str() {
            "run.started" => self.run_started(entry),
            "agent.message" => self.append_text(entry, text(), Kind::Said),
            "agent.thought" => self.append_text(entry, text(), |text| Kind::Thought(text, entry.at)),
            "agent.plan" => {
                self.plan = Some(Plan::new(run, &entry.data));
                Touched::Plan
            }
            "agent.tool_call" => self.tool(entry, run),
            "run.finished" => {
                let mut touched = self.stop(&run, entry.at);
                touched.extend(self.line(entry));
                return touched;
            }
            _ => return self.line(entry).into_iter().collect(),
        };
        vec![touched]
    }

    fn put(&mut self, entry: &LogEntry, kind: Kind) -> Touched {
        self.blocks.insert(entry.seq, Block { seq: entry.seq, at: entry.at, kind });
        Touched::New(entry.seq)
    }

    fn line(&mut self, entry: &LogEntry) -> Option<Touched> {
        let line = line::of(entry, self.last_reason.as_deref())?;
        self.last_reason = line.reason.clone().or(self.last_reason.take());
        Some(self.put(entry, Kind::Line(line)))
    }

    fn run_started(&mut self, entry: &LogEntry) -> Touched {
        let attempt = entry.data["attempt"].as_u64().unwrap_or(1);
        let message = entry.data["messageId"].as_str().and_then(|id| id.parse().ok());
        match message {
            Some(message) if attempt <= 1 => self.put(entry, Kind::Turn(message)),
            _ => self.put(entry, Kind::Line(Line::attempt(attempt))),
        }
    }

    /// Marks what a run has left open as stopped: tool calls and steps of the plan that it did not end.
    fn stop(&mut self, run: &str, at: Timestamp) -> Vec<Touched> {
        let mut of_run: Vec<u64> = self.tools.iter().filter(|((of, _), _)| of == run).map(|(_, seq)| *seq).collect();
        of_run.sort_unstable();
        let mut touched = Vec::new();
        for seq in of_run {
            if let Some(Block { kind: Kind::Tool(tool), .. }) = self.blocks.get_mut(&seq)
                && tool.stop(at)
            {
                touched.push(Touched::Changed(seq));
            }
        }
        if self.plan.as_mut().is_some_and(|plan| plan.stop(run)) {
            touched.push(Touched::Plan);
        }
        touched
    }

    /// Appends text to the newest block if that is of the same kind; otherwise adds a block.
    fn append_text(&mut self, entry: &LogEntry, text: &str, kind: impl FnOnce(String) -> Kind) -> Touched {
        let kind = kind(text.to_owned());
        if let Some((seq, block)) = self.blocks.iter_mut().next_back() {
            match (&mut block.kind, &kind) {
                (Kind::Said(said), Kind::Said(more)) if said.len() < MAX_TEXT_BYTES => {
                    said.push_str(more);
                    return Touched::Changed(*seq);
                }
                (Kind::Thought(thought, until), Kind::Thought(more, at)) if thought.len() < MAX_TEXT_BYTES => {
                    thought.push_str(more);
                    *until = *at;
                    return Touched::Changed(*seq);
                }
                _ => {}
            }
        }
        self.put(entry, kind)
    }

    fn tool(&mut self, entry: &LogEntry, run: String) -> Touched {
        let id = entry.data["toolCallId"].as_str().unwrap_or_default().to_owned();
        if let Some(block) = self.tools.get(&(run.clone(), id.clone())).and_then(|seq| self.blocks.get_mut(seq))
            && let Kind::Tool(tool) = &mut block.kind
        {
            tool.add(&entry.data, entry.at);
            return Touched::Changed(block.seq);
        }
        self.tools.insert((run, id), entry.seq);
        self.put(entry, Kind::Tool(Tool::new(&entry.data, entry.at)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fold(events: &[(&str, Value)]) -> (Fold, Vec<Vec<Touched>>) {
        let mut fold = Fold::default();
        let touched = events.iter().enumerate().map(|(index, (kind, data))| {
            let seq = index as u64 + 1;
            let at = Timestamp::from_micros(i64::try_from(seq).expect("small"));
            fold.add(&LogEntry { seq, kind: (*kind).to_owned(), at, run_id: None, data: data.clone() })
        });
        let touched = touched.collect();
        (fold, touched)
    }

    #[test]
    fn pieces_of_text_are_joined_until_another_event_comes() {
        let text = |text: &str| json!({ "text": text });
        let (fold, touched) = fold(&[
            ("agent.message", text("a")),
            ("agent.message", text("b")),
            ("agent.usage", json!({})),
            ("agent.message", text("c")),
            ("agent.thought", text("hm")),
            ("agent.message", text("d")),
        ]);
        use Touched::{Changed, New};
        let one = |touched| vec![touched];
        assert_eq!(touched, [one(New(1)), one(Changed(1)), vec![], one(Changed(1)), one(New(5)), one(New(6))]);
        let kinds: Vec<_> = fold.blocks().map(|block| block.kind.clone()).collect();
        assert_eq!(kinds[0], Kind::Said("abc".to_owned()));
        assert_eq!(kinds[2], Kind::Said("d".to_owned()));
    }

    #[test]
    fn all_events_of_a_tool_call_are_one_block() {
        let (fold, touched) = fold(&[
            ("agent.tool_call", json!({"toolCallId": "1", "title": "cargo test", "status": "pending"})),
            ("agent.tool_call", json!({"toolCallId": "2", "title": "ls", "status": "pending"})),
            ("agent.tool_call", json!({"toolCallId": "1", "status": "completed", "update": true})),
        ]);
        assert_eq!(touched.concat(), [Touched::New(1), Touched::New(2), Touched::Changed(1)]);
        let Some(Kind::Tool(tool)) = fold.block(1).map(|block| &block.kind) else { panic!("no tool") };
        assert_eq!((tool.title.as_str(), tool.status), ("cargo test", "completed"));
    }

    #[test]
    fn a_new_plan_replaces_the_old_one_and_is_not_in_the_conversation() {
        let plan = |status: &str| json!({"entries": [{"content": "one", "status": status}]});
        let (fold, touched) = fold(&[("agent.plan", plan("pending")), ("agent.plan", plan("completed"))]);
        assert_eq!((touched.concat(), fold.blocks().count()), (vec![Touched::Plan, Touched::Plan], 0));
        assert_eq!(fold.plan().map(|plan| (plan.done(), plan.steps.len())), Some((1, 1)));
    }

    #[test]
    fn the_end_of_a_run_stops_what_it_left_open() {
        let call = |id: &str, status: &str| json!({"toolCallId": id, "status": status});
        let plan =
            json!({"entries": [{"content": "a", "status": "in_progress"}, {"content": "b", "status": "pending"}]});
        let (fold, touched) = fold(&[
            ("agent.tool_call", call("1", "in_progress")),
            ("agent.tool_call", call("2", "completed")),
            ("agent.tool_call", call("3", "pending")),
            ("agent.plan", plan),
            ("run.finished", json!({"status": "succeeded"})),
            ("run.finished", json!({"status": "succeeded"})),
        ]);
        assert_eq!(touched[4], [Touched::Changed(1), Touched::Changed(3), Touched::Plan]);
        assert!(touched[5].is_empty(), "it is stopped once");
        let marks = fold.blocks().map(|block| match &block.kind {
            Kind::Tool(tool) => (tool.status, tool.ended.is_some()),
            other => panic!("{other:?}"),
        });
        assert_eq!(marks.collect::<Vec<_>>(), [("stopped", true), ("completed", true), ("stopped", true)]);
        assert_eq!(fold.plan().map(|plan| plan.steps[0].status), Some("stopped"));
        assert!(fold.open_tool().is_none());
    }

    #[test]
    fn the_first_attempt_is_a_turn_and_others_are_lines() {
        let id = "msg_00000000000000000000000000000001";
        let (fold, _) = fold(&[
            ("run.started", json!({"messageId": id, "attempt": 1})),
            ("run.started", json!({"messageId": id, "attempt": 2})),
        ]);
        let ids: Vec<_> = fold.blocks().map(Block::id).collect();
        assert_eq!(ids, [format!("m-{id}"), "e2".to_owned()]);
    }

    #[test]
    fn a_reason_is_shown_once() {
        let reason = json!({"reason": {"code": "cancelled", "text": "it was cancelled"}});
        let mut finished = reason.clone();
        finished["status"] = json!("failed");
        let (fold, touched) = fold(&[("run.finished", finished), ("job.failed", reason.clone())]);
        assert_eq!(touched, [vec![Touched::New(1)], vec![]]);
        assert_eq!(fold.blocks().count(), 1);
        let (_, touched) = super::tests::fold(&[("job.failed", reason)]);
        assert_eq!(touched.concat(), [Touched::New(1)], "a job that fails without a run");
    }

    #[test]
    fn an_event_of_a_removed_block_begins_a_new_block() {
        let call = |status: &str| json!({"toolCallId": "1", "status": status});
        let (mut fold, _) = fold(&[("agent.tool_call", call("pending")), ("agent.message", json!({"text": "a"}))]);
        fold.keep(1);
        let entry = LogEntry {
            seq: 9,
            kind: "agent.tool_call".to_owned(),
            at: Timestamp::default(),
            run_id: None,
            data: call("completed"),
        };
        assert_eq!(fold.add(&entry), [Touched::New(9)]);
    }
}
