//! The token counts of a turn.
//!
//! Invariant: if no provider reported token counts, the turn has no usage, rather than a usage of zero.

use agent_client_protocol::v1::schema::{StopReason, Usage};

use crate::turn::TurnEnd;

/// The tokens of all calls of a turn, including the calls for summaries.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tokens {
    input: u64,
    output: u64,
    thought: u64,
    cached_read: u64,
    cached_write: u64,
    known: bool,
}

impl Tokens {
    /// Adds the counts that a provider reported for one call.
    pub(crate) fn add(&mut self, usage: Option<&genai::chat::Usage>) {
        let Some(usage) = usage else {
            return;
        };
        self.known = true;
        let add = |sum: &mut u64, more: Option<i32>| *sum = sum.saturating_add(count(more));
        add(&mut self.input, usage.prompt_tokens);
        add(&mut self.output, usage.completion_tokens);
        if let Some(details) = &usage.prompt_tokens_details {
            add(&mut self.cached_read, details.cached_tokens);
            add(&mut self.cached_write, details.cache_creation_tokens);
        }
        if let Some(details) = &usage.completion_tokens_details {
            add(&mut self.thought, details.reasoning_tokens);
        }
    }

    /// Returns the end of the turn with these token counts.
    pub(crate) fn end(&self, stop: StopReason) -> TurnEnd {
        let nonzero = |tokens: u64| (tokens > 0).then_some(tokens);
        let usage = self.known.then(|| {
            Usage::new(self.input.saturating_add(self.output), self.input, self.output)
                .thought_tokens(nonzero(self.thought))
                .cached_read_tokens(nonzero(self.cached_read))
                .cached_write_tokens(nonzero(self.cached_write))
        });
        TurnEnd { stop, usage }
    }
}

/// Converts a token count of `genai`. Providers never send a meaningful negative count, so it becomes 0.
pub(crate) fn count(tokens: Option<i32>) -> u64 {
    tokens.and_then(|tokens| u64::try_from(tokens).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use genai::chat::PromptTokensDetails;

    use super::*;

    #[test]
    fn the_calls_of_a_turn_are_summed_up() {
        let call = genai::chat::Usage {
            prompt_tokens: Some(10),
            completion_tokens: Some(3),
            prompt_tokens_details: Some(PromptTokensDetails {
                cached_tokens: Some(4),
                ..PromptTokensDetails::default()
            }),
            ..genai::chat::Usage::default()
        };
        let mut tokens = Tokens::default();
        tokens.add(Some(&call));
        tokens.add(None);
        tokens.add(Some(&call));
        let usage = tokens.end(StopReason::EndTurn).usage.unwrap();
        assert_eq!((usage.total_tokens, usage.input_tokens, usage.output_tokens), (26, 20, 6));
        assert_eq!((usage.cached_read_tokens, usage.thought_tokens), (Some(8), None));
    }

    #[test]
    fn unknown_tokens_stay_unknown() {
        assert!(Tokens::default().end(StopReason::EndTurn).usage.is_none());
    }
}
