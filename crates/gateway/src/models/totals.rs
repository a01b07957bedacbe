//! The totals of calls by provider, for `/metrics`. Labels come from the configuration, never from an agent.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use journeyman_core::model::price::Tokens;
use journeyman_core::ports::{ModelTotals, ProviderTotals};

/// The totals since the start.
#[derive(Debug, Default)]
pub(crate) struct Totals(Mutex<BTreeMap<String, ProviderTotals>>);

impl Totals {
    /// Adds a call with its outcome: `ok`, or the code of a failure.
    pub(crate) fn add(&self, provider: &str, outcome: String, tokens: &Tokens, cost_micros: Option<u64>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let totals = all.entry(provider.to_owned()).or_default();
        *totals.calls.entry(outcome).or_default() += 1;
        totals.tokens = totals.tokens.plus(tokens);
        totals.cost_micros = totals.cost_micros.saturating_add(cost_micros.unwrap_or(0));
    }

    pub(crate) fn read(&self) -> ModelTotals {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_stop_at_the_largest_number() {
        let totals = Totals::default();
        let most = Tokens {
            input: u64::MAX,
            cached: u64::MAX,
            cache_written: u64::MAX,
            cache_written_long: u64::MAX,
            output: u64::MAX,
        };
        for _ in 0..2 {
            totals.add("openai", "ok".to_owned(), &most, Some(u64::MAX));
        }
        let all = totals.read();
        assert_eq!((all["openai"].tokens, all["openai"].cost_micros), (most, u64::MAX));
        assert_eq!(all["openai"].calls["ok"], 2);
    }
}
