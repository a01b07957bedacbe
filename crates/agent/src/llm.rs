//! Runs a turn with a language model: calls the model, runs the tools that it asks for, and repeats this until it asks
//! for none.
//!
//! Invariants: when a turn has ended, every tool call in the stored conversation has an answer; a turn makes at most
//! [`Options::model_calls`] calls to the model, not counting retries and summaries; every text that leaves this module
//! is redacted.

mod address;
mod answer;
mod caller;
mod compaction;
mod failure;
mod history;
mod prompt;
mod request;
mod retry;
mod usage;

use agent_client_protocol::v1::schema::StopReason;
use genai::chat::{ChatMessage, ToolResponse};
use journeyman_core::model::Dialect;

use self::caller::{Caller, Reply};
use self::compaction::Compactor;
use self::usage::Tokens;
use crate::execute;
use crate::model::{ModelError, Target, usual_window};
use crate::options::Options;
use crate::store::{SessionFile, Speaker};
use crate::turn::{Turn, TurnEnd, TurnError};

pub(crate) use self::compaction::is_summary;

/// A language model, with the client that calls it and the compactor of its conversations.
pub(crate) struct Llm {
    caller: Caller,
    compactor: Compactor,
    /// The maximum number of calls to the model in one turn.
    model_calls: u32,
}

impl Llm {
    /// Prepares the model; sends nothing yet.
    pub(crate) fn new(options: &Options, dialect: Dialect, name: &str) -> Result<Self, ModelError> {
        let target = Target::new(dialect, name, options.base_url.as_deref(), options.api_key.as_deref())?;
        let window = options.context_tokens.unwrap_or_else(|| usual_window(dialect, name));
        let caller = Caller::new(target, options.effort)?;
        Ok(Self { caller, compactor: Compactor::new(window), model_calls: options.model_calls })
    }

    /// Answers one prompt.
    pub(crate) async fn turn(
        &self,
        turn: &Turn<'_>,
        file: &mut SessionFile,
        prompt: &str,
    ) -> Result<TurnEnd, TurnError> {
        if let Some(reason) = self.caller.missing_key() {
            return Err(TurnError::KeyMissing(reason));
        }
        let chat = file.chat_mut();
        chat.system = Some(prompt::system(turn.workspace));
        history::repair(chat);
        chat.messages.push(ChatMessage::user(prompt));
        turn.save(file).await?;

        let mut tokens = Tokens::default();
        for _ in 0..self.model_calls {
            let answer = match self.next_answer(turn, file, &mut tokens).await? {
                Reply::Answer(answer) => answer,
                Reply::Cancelled { partial } => {
                    history::keep_partial(file.chat_mut(), partial);
                    turn.save(file).await?;
                    return Ok(tokens.end(StopReason::Cancelled));
                }
            };
            let stop = answer.stop_reason();
            let calls = history::record(file, answer);
            turn.save(file).await?;
            if calls.is_empty() {
                return Ok(tokens.end(stop));
            }
            let answers = run_calls(turn, calls).await;
            file.chat_mut().messages.push(ChatMessage::from(answers));
            turn.save(file).await?;
            if turn.cancel.is_cancelled() {
                return Ok(tokens.end(StopReason::Cancelled));
            }
        }
        Ok(tokens.end(StopReason::MaxTurnRequests))
    }

    /// Calls the model once. Compacts the conversation first if it would not fit the window.
    async fn next_answer(
        &self,
        turn: &Turn<'_>,
        file: &mut SessionFile,
        tokens: &mut Tokens,
    ) -> Result<Reply, TurnError> {
        let mut compacted = false;
        if self.compactor.is_due(file) {
            self.compactor.compact(&self.caller, turn, file, tokens).await;
            compacted = true;
        }
        loop {
            let request = request::with_tools(self.caller.dialect(), file.chat_mut());
            match self.caller.call(request, Some(turn.reporter), turn.cancel).await {
                Ok(reply) => {
                    if let Reply::Answer(answer) = &reply {
                        tokens.add(answer.usage.as_ref());
                    }
                    return Ok(reply);
                }
                // The estimate was too low: compact once, and retry.
                Err(failure) if failure.too_long && !compacted => {
                    self.compactor.compact(&self.caller, turn, file, tokens).await;
                    compacted = true;
                }
                Err(failure) => return Err(TurnError::Failed(failure.text)),
            }
        }
    }
}

/// Runs the calls in sequence. After a cancellation, the remaining calls are answered without being run, because every
/// provider refuses a conversation with unanswered calls.
async fn run_calls(turn: &Turn<'_>, calls: Vec<history::NumberedCall>) -> Vec<ToolResponse> {
    let mut answers = Vec::with_capacity(calls.len());
    for history::NumberedCall { id, call } in calls {
        let text = if turn.cancel.is_cancelled() {
            history::NOT_RUN.to_owned()
        } else {
            execute::call(turn, &id, &call.fn_name, &call.fn_arguments).await.text
        };
        answers.push(ToolResponse::from_tool_call(&call, text));
    }
    answers
}

/// Makes a stored conversation usable for `model`, regardless of the model that it was held with before.
pub(crate) fn adopt(file: &mut SessionFile, model: &str) {
    if file.model != model {
        history::strip_private_parts(file.chat_mut());
        file.measured = None;
    }
    for line in std::mem::take(&mut file.lines) {
        let message = match line.role {
            Speaker::User => ChatMessage::user(line.text),
            Speaker::Agent => ChatMessage::assistant(line.text),
        };
        file.chat_mut().messages.push(message);
    }
}

#[cfg(test)]
mod tests {
    use genai::chat::ChatRole;

    use super::*;

    #[test]
    fn a_scripted_conversation_is_converted_to_messages() {
        let mut file = SessionFile::new("test/scripted");
        file.push_line(Speaker::User, "do");
        file.push_line(Speaker::Agent, "done");
        adopt(&mut file, "openai/m");
        assert!(file.lines.is_empty());
        let messages: Vec<_> = file
            .chat_mut()
            .messages
            .iter()
            .map(|message| (message.role.clone(), message.content.first_text()))
            .collect();
        assert_eq!(messages, [(ChatRole::User, Some("do")), (ChatRole::Assistant, Some("done"))]);
    }
}
