//! The agent's answer: the final text of its turn.

use journeyman_core::job::event::{TranscriptEntry, TranscriptKind};
use journeyman_core::message::MAX_ANSWER_CHARS;

/// Collects the text that an agent sends after its last tool call, plan, thought or permission request. Earlier text is
/// about its work, or is start-up noise such as a banner or a notice of its mode.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    text: String,
    chars: usize,
    /// True if another kind of entry has followed the text: the next text begins a new answer.
    is_over: bool,
}

impl Answer {
    /// Adds an entry of the turn's transcript, which has no secrets.
    pub(crate) fn note(&mut self, entry: &TranscriptEntry) {
        match entry.kind {
            TranscriptKind::Message => self.add(entry.data["text"].as_str().unwrap_or_default()),
            TranscriptKind::Thought | TranscriptKind::Plan | TranscriptKind::ToolCall | TranscriptKind::Permission => {
                self.is_over = true;
            }
            _ => {}
        }
    }

    fn add(&mut self, text: &str) {
        // Blank pieces around tool calls are not an answer.
        if self.is_over && text.trim().is_empty() {
            return;
        }
        if std::mem::take(&mut self.is_over) {
            self.text.clear();
            self.chars = 0;
        }
        for char in text.chars().take(MAX_ANSWER_CHARS.saturating_sub(self.chars)) {
            self.text.push(char);
            self.chars += 1;
        }
    }

    /// Returns the answer; `None` if the agent sent no text.
    pub(crate) fn into_text(self) -> Option<String> {
        let text = self.text.replace('\0', "\u{fffd}");
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use journeyman_core::time::Timestamp;
    use serde_json::json;

    use super::*;

    fn answer(entries: &[(TranscriptKind, &str)]) -> Option<String> {
        let mut answer = Answer::default();
        for (kind, text) in entries {
            answer.note(&TranscriptEntry { kind: *kind, data: json!({"text": text}), at: Timestamp::default() });
        }
        answer.into_text()
    }

    #[test]
    fn the_answer_is_the_text_after_the_last_step() {
        use TranscriptKind::{Message, ModelCalled, Plan, Thought, ToolCall};
        for (entries, expected) in [
            (&[][..], None),
            (&[(Message, "  \n")], None),
            (&[(Message, "Hello, "), (Message, "world.\n")], Some("Hello, world.")),
            (&[(Message, "I look."), (ToolCall, ""), (Message, "Done.")], Some("Done.")),
            (
                &[(Message, "Mode: yolo"), (Thought, "hm"), (Plan, ""), (Message, "\n"), (Message, "Done.")],
                Some("Done."),
            ),
            (&[(Message, "Done."), (ModelCalled, ""), (Message, " Really.")], Some("Done. Really.")),
            (&[(Message, "I look."), (ToolCall, ""), (Message, "\n")], Some("I look.")),
        ] {
            assert_eq!(answer(entries).as_deref(), expected, "{entries:?}");
        }
    }

    #[test]
    fn a_long_answer_is_cut() {
        let long = "ä".repeat(MAX_ANSWER_CHARS);
        let text = answer(&[(TranscriptKind::Message, &long), (TranscriptKind::Message, "more")]).unwrap();
        assert_eq!(text.chars().count(), MAX_ANSWER_CHARS);
        assert!(!text.contains("more"));
    }
}
