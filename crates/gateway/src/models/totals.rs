//! What was called, by provider: for `/metrics`. Labels are what an operator has named, never what an agent sends.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use journeyman_core::model::price::Tokens;
use journeyman_core::ports::{ModelTotals, ProviderTotals};

/// Sums since the start.
#[derive(Debug, Default)]
pub(crate) struct Totals(Mutex<BTreeMap<String, ProviderTotals>>);

impl Totals {
    /// One more call, by its outcome: `ok`, or the code of a failure.
    pub(crate) fn add(&self, provider: &str, outcome: String, tokens: &Tokens, cost_micros: Option<u64>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let totals = all.entry(provider.to_owned()).or_default();
        *totals.calls.entry(outcome).or_default() += 1;
        totals.tokens.input += tokens.input;
        totals.tokens.cached += tokens.cached;
        totals.tokens.cache_written += tokens.cache_written;
        totals.tokens.output += tokens.output;
        totals.cost_micros += cost_micros.unwrap_or(0);
    }

    pub(crate) fn read(&self) -> ModelTotals {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
