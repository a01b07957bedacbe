//! The cost of an answer.

use journeyman_core::model::price::{ModelPrices, Tokens};

use super::usage::Reported;

/// What the cost of an answer depends on.
pub(crate) struct Pricing<'a, P> {
    pub(crate) reported: &'a Reported,
    /// The model that was called.
    pub(crate) model: &'a str,
    /// The other models that were allowed to answer.
    pub(crate) fallbacks: &'a [String],
    /// The service tier that was used; `None` is the usual one.
    pub(crate) tier: Option<String>,
    /// Returns the prices of a model, if they are known.
    pub(crate) prices: P,
}

impl<P: Fn(&str) -> Option<ModelPrices>> Pricing<'_, P> {
    /// Returns the cost of an answer whose tokens the provider reported, in millionths of a US dollar; unknown without a
    /// price.
    pub(crate) fn of_reported(&self, tokens: &Tokens) -> Option<u64> {
        if self.reported.is_free {
            return self.of(&Tokens::default());
        }
        // Each call of a model has its own size of the input, and so its own price.
        let costs = self.reported.parts.iter().map(|(model, tokens)| self.of_model(model, tokens));
        costs.reduce(|sum, more| Some(sum?.saturating_add(more?))).unwrap_or_else(|| self.of(tokens))
    }

    /// Returns the cost of these tokens at the prices of the model that answered.
    pub(crate) fn of(&self, tokens: &Tokens) -> Option<u64> {
        // The provider names the model that it called; another name of the same model has no prices of its own.
        let other = self.reported.model.as_ref().filter(|model| self.fallbacks.contains(model));
        self.of_model(other.map_or(self.model, String::as_str), tokens)
    }

    fn of_model(&self, model: &str, tokens: &Tokens) -> Option<u64> {
        let own = Some(model).filter(|model| !model.is_empty()).and_then(&self.prices);
        own.or_else(|| (self.prices)(self.model))?.of(tokens, self.tier.as_deref())
    }
}
