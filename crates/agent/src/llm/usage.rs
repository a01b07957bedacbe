//! The token counts of a turn.
//!
//! Invariant: if no provider reported token counts, the turn has no usage, rather than a usage of zero.

use agent_client_protocol::v1::schema::{StopReason, Usage};

use crate::turn::TurnEnd;

/// The tokens of all calls of a turn, including the calls for summaries. A count that no provider reported is `None`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tokens {
    input: Option<u64>,
    output: Option<u64>,
    thought: Option<u64>,
    cached_read: Option<u64>,
    cached_write: Option<u64>,
}

impl Tokens {
    /// Adds the counts that a provider reported for one call.
    pub(crate) fn add(&mut self, usage: Option<&genai::chat::Usage>) {
        let Some(usage) = usage else {
            return;
        };
        let add = |sum: &mut Option<u64>, more: Option<i32>| {
            if more.is_some() {
                *sum = Some(sum.unwrap_or(0).saturating_add(count(more)));
            }
        };
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
        let is_known = self.input.is_some() || self.output.is_some();
        let usage = is_known.then(|| {
            // ACP requires both counts: if providers report only one of them, the other is 0.
            let (input, output) = (self.input.unwrap_or(0), self.output.unwrap_or(0));
            Usage::new(input.saturating_add(output), input, output)
                .thought_tokens(self.thought)
                .cached_read_tokens(self.cached_read)
                .cached_write_tokens(self.cached_write)
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
        let mut tokens = Tokens::default();
        assert!(tokens.end(StopReason::EndTurn).usage.is_none());
        // The form of an answer without token counts.
        tokens.add(Some(&genai::chat::Usage::default()));
        assert!(tokens.end(StopReason::EndTurn).usage.is_none());
    }

    #[test]
    fn a_count_that_is_reported_as_zero_is_known() {
        let call = genai::chat::Usage {
            prompt_tokens: Some(0),
            prompt_tokens_details: Some(PromptTokensDetails {
                cached_tokens: Some(0),
                ..PromptTokensDetails::default()
            }),
            ..genai::chat::Usage::default()
        };
        let mut tokens = Tokens::default();
        tokens.add(Some(&call));
        let usage = tokens.end(StopReason::EndTurn).usage.unwrap();
        assert_eq!((usage.total_tokens, usage.input_tokens, usage.output_tokens), (0, 0, 0));
        assert_eq!((usage.cached_read_tokens, usage.cached_write_tokens), (Some(0), None));
    }
}
