//! The test model `test/scripted`, which carries out the directives in a prompt.
//!
//! The model is part of the program for the same reason that a payment API has test cards: it makes it possible to try
//! the whole service without a model, from the first message to the pull request, and it produces on demand what is
//! otherwise hard to wait for, such as failures, long turns, questions and crashes. It uses the same tools as a
//! language model, and reports them in the same way.
//!
//! The directives run in order (see [`directive`]):
//!
//! - `[[write path|text]]`, `[[append path|text]]`: changes a file; `\n`, `\t`, `\\` are decoded.
//! - `[[run command]]`: runs a shell command. The model reports a failure, and the turn continues.
//! - `[[say text]]`, `[[sleep seconds]]`, `[[ask text]]`: sends a message, pauses, asks for permission.
//! - `[[hold]]`: creates the file `held` in the home directory, and pauses until the file `released` is there.
//! - `[[fail text]]`: fails the prompt with this text. `[[die]]`: ends the process with exit code 101.
//!
//! A prompt without a directive is appended to `AGENT_NOTES.md` as a paragraph.
//!
//! Invariant: the effects of a prompt depend only on the prompt and the files, and the model uses no tokens.

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
    /// The options of the agent, with the hook that ends the process.
    options: Arc<Options>,
}

impl Scripted {
    /// Creates the test model with the hooks of the options.
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
        let mut performance = Performance::new(turn, file, &self.options);
        let flow = performance.perform(prompt).await;
        // The actions so far are saved even if the turn failed.
        turn.save(file).await?;
        let stop = match flow? {
            Flow::Continue => StopReason::EndTurn,
            Flow::Cancelled => StopReason::Cancelled,
        };
        Ok(TurnEnd { stop, usage: Some(Usage::new(0, 0, 0)) })
    }
}

/// Converts a conversation with a language model to lines.
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
    fn a_conversation_with_a_language_model_is_converted_to_lines() {
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
