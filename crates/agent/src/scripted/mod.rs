//! The test model `test/scripted`: it does what the directives in a prompt say.
//!
//! It is part of the program as test cards are part of a payment API: to try a whole service, from the first message
//! to the pull request, without a model, and to make on purpose what is hard to wait for, such as failures, long
//! turns, questions and crashes. It uses the same tools and reports them as a language model's turn does.
//!
//! Directives, carried out in order (see [`directive`]):
//!
//! - `[[write path|text]]`, `[[append path|text]]`: change a file; `\n`, `\t`, `\\` are decoded.
//! - `[[run command]]`: a shell command. A failure is told, the turn goes on.
//! - `[[say text]]`, `[[sleep seconds]]`, `[[ask text]]`: a message, a pause, a question for permission.
//! - `[[fail text]]`: the prompt fails with this text. `[[die]]`: the process ends with code 101.
//!
//! A prompt without a directive is added to `AGENT_NOTES.md` as a paragraph.
//!
//! Invariant: what a prompt does depends on the prompt and the files only, and takes no tokens.

mod directive;
mod performance;

use std::sync::Arc;

use agent_client_protocol::v1::schema::{StopReason, Usage};
use genai::chat::{ChatMessage, ChatRole};

use self::performance::{Flow, Performance};
use crate::options::Options;
use crate::store::{SessionFile, Speaker};
use crate::turn::{Turn, TurnEnd, TurnError};

/// The test model.
pub(crate) struct Scripted {
    /// For the hook that ends the process.
    options: Arc<Options>,
}

impl Scripted {
    /// A test model with the hooks of the options.
    pub(crate) fn new(options: Arc<Options>) -> Self {
        Self { options }
    }

    /// Carries out one prompt.
    pub(crate) async fn turn(
        &self,
        turn: &Turn<'_>,
        file: &mut SessionFile,
        prompt: &str,
    ) -> Result<TurnEnd, TurnError> {
        file.push_line(Speaker::User, prompt);
        turn.save(file).await?;
        let mut performance = Performance::new(turn, file, &*self.options.die);
        let flow = performance.perform(prompt).await;
        // What was done is kept also if the turn fails.
        turn.save(file).await?;
        let stop = match flow? {
            Flow::Continue => StopReason::EndTurn,
            Flow::Cancelled => StopReason::Cancelled,
        };
        Ok(TurnEnd { stop, usage: Some(Usage::new(0, 0, 0)) })
    }
}

/// Turns a conversation with a language model into lines.
pub(crate) fn adopt(file: &mut SessionFile) {
    let Some(chat) = file.chat.take() else {
        return;
    };
    file.measured = None;
    for message in &chat.messages {
        let speaker = match message.role {
            ChatRole::User => Speaker::User,
            ChatRole::Assistant => Speaker::Agent,
            ChatRole::System | ChatRole::Tool => continue,
        };
        push_text(file, speaker, message);
    }
}

fn push_text(file: &mut SessionFile, speaker: Speaker, message: &ChatMessage) {
    if let Some(text) = message.content.joined_texts() {
        file.push_line(speaker, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_with_a_language_model_is_adopted_as_lines() {
        let mut file = SessionFile::new("openai/m");
        let messages = &mut file.chat_mut().messages;
        messages.push(ChatMessage::user("do"));
        messages.push(ChatMessage::assistant("done"));
        adopt(&mut file);
        let lines: Vec<_> = file.lines.iter().map(|line| (line.role, line.text.as_str())).collect();
        assert_eq!(lines, [(Speaker::User, "do"), (Speaker::Agent, "done")]);
        assert!(file.chat.is_none());
    }
}
