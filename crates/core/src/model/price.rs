//! The prices of model calls, in millionths of a US dollar.

use std::collections::BTreeMap;

use crate::run::Usage;
use crate::time::Timestamp;

/// The number of tokens to which a price applies.
const MILLION: u128 = 1_000_000;

/// The price of one million tokens, in millionths of a US dollar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Price {
    /// The price of input tokens, which the model reads.
    pub input: u64,
    /// The price of output tokens, which the model writes.
    pub output: u64,
    /// The price of input tokens that are read from the provider's cache.
    pub cached: u64,
    /// The price of input tokens that are also written to the provider's cache.
    pub cache_written: u64,
    /// The price of input tokens that are also written to a cache with a longer lifetime, such as an hour.
    pub cache_written_long: u64,
}

/// The token counts of one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// The number of all input tokens.
    pub input: u64,
    /// The number of input tokens that came from the provider's cache.
    pub cached: u64,
    /// The number of input tokens that were written to the provider's cache.
    pub cache_written: u64,
    /// The number of input tokens that were written to a cache with a longer lifetime. They are included in
    /// `cache_written`.
    pub cache_written_long: u64,
    /// The number of output tokens.
    pub output: u64,
}

impl Tokens {
    /// Returns the sum of two counts.
    #[must_use]
    pub const fn plus(&self, more: &Self) -> Self {
        Self {
            input: self.input.saturating_add(more.input),
            cached: self.cached.saturating_add(more.cached),
            cache_written: self.cache_written.saturating_add(more.cache_written),
            cache_written_long: self.cache_written_long.saturating_add(more.cache_written_long),
            output: self.output.saturating_add(more.output),
        }
    }
}

impl Price {
    /// Returns the cost of these tokens, rounded up to the next millionth of a US dollar.
    #[must_use]
    pub fn of(&self, tokens: &Tokens) -> u64 {
        let Tokens { input, cached, cache_written, cache_written_long, output } = *tokens;
        let plain = input.saturating_sub(cached).saturating_sub(cache_written);
        let parts = [
            (plain, self.input),
            (cached, self.cached),
            (cache_written.saturating_sub(cache_written_long), self.cache_written),
            (cache_written_long, self.cache_written_long),
            (output, self.output),
        ];
        let costs = parts.iter().map(|(tokens, price)| u128::from(*tokens) * u128::from(*price));
        let sum = costs.fold(0, u128::saturating_add);
        u64::try_from(sum.div_ceil(MILLION)).unwrap_or(u64::MAX)
    }

    /// Returns the maximum cost of a call.
    #[must_use]
    pub fn at_most(&self, call: Maximum<'_>) -> u64 {
        let long = if call.long_caches { self.cache_written_long } else { 0 };
        let highest = self.input.max(self.cached).max(self.cache_written).max(long);
        let tokens = Tokens { input: call.input, output: call.output, ..Tokens::default() };
        Self { input: highest, ..*self }.of(&tokens)
    }
}

/// The most that a call can use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Maximum<'a> {
    /// The number of input tokens.
    pub input: u64,
    /// The number of output tokens.
    pub output: u64,
    /// The service tier; `None` is the usual one.
    pub tier: Option<&'a str>,
    /// `true` if the call may write to caches with a longer lifetime.
    pub long_caches: bool,
}

/// The prices of a model in one service tier.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TierPrices {
    /// The prices of calls with a short input.
    pub base: Price,
    /// The prices of calls with more input tokens than the number, by this number. They apply to all tokens of the call.
    pub above: BTreeMap<u64, Price>,
}

impl TierPrices {
    /// Returns the prices of a call with this number of input tokens.
    #[must_use]
    pub fn at(&self, input: u64) -> &Price {
        self.above.range(..input).next_back().map_or(&self.base, |(_, price)| price)
    }
}

impl From<Price> for TierPrices {
    fn from(base: Price) -> Self {
        Self { base, above: BTreeMap::new() }
    }
}

/// The prices of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelPrices {
    /// The prices of the provider's usual service tier.
    pub standard: TierPrices,
    /// The prices of other tiers, by their names, such as `priority`, `flex` and `batch`.
    pub tiers: BTreeMap<String, TierPrices>,
}

impl From<Price> for ModelPrices {
    fn from(base: Price) -> Self {
        Self { standard: base.into(), tiers: BTreeMap::new() }
    }
}

impl ModelPrices {
    /// Returns the prices of a tier; `None` stands for the usual one. A tier without prices has none.
    #[must_use]
    pub fn tier(&self, tier: Option<&str>) -> Option<&TierPrices> {
        tier.map_or(Some(&self.standard), |tier| self.tiers.get(tier))
    }

    /// Returns the cost of these tokens in a tier; unknown if the tier has no prices.
    #[must_use]
    pub fn of(&self, tokens: &Tokens, tier: Option<&str>) -> Option<u64> {
        Some(self.tier(tier)?.at(tokens.input).of(tokens))
    }

    /// Returns the maximum cost of a call; unknown if the tier has no prices.
    #[must_use]
    pub fn at_most(&self, call: Maximum<'_>) -> Option<u64> {
        let prices = self.tier(call.tier)?;
        // The call may have fewer tokens, and then another price.
        let passed = prices.above.range(..call.input).map(|(_, price)| price);
        passed.chain([&prices.base]).map(|price| price.at_most(call)).max()
    }
}

impl Usage {
    /// Returns the usage of one call. The cost is unknown if there is no price. `is_estimated` says that the provider
    /// has not reported the tokens.
    #[must_use]
    pub const fn of_call(tokens: &Tokens, cost_micros: Option<u64>, is_estimated: bool) -> Self {
        let Tokens { input, output, cached, .. } = *tokens;
        let estimated_micros = match cost_micros {
            Some(cost) if is_estimated => cost,
            _ => 0,
        };
        Self { input_tokens: input, output_tokens: output, cached_tokens: cached, cost_micros, estimated_micros }
    }

    /// Returns the sum of this usage and the usage of more calls.
    #[must_use]
    pub fn plus(self, more: &Self) -> Self {
        // A call without a price makes the sum unknown. The cost of an empty usage is `None` too, but it is zero.
        let is_first = self == Self::default();
        let cost_micros = if is_first {
            more.cost_micros
        } else {
            self.cost_micros.zip(more.cost_micros).map(|(a, b)| a.saturating_add(b))
        };
        Self { cost_micros, ..self.and(more) }
    }
}

impl Usage {
    /// Returns the sum of the tokens of two runs. The sum has no cost; the store adds up the costs.
    #[must_use]
    pub const fn and(&self, other: &Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            cost_micros: None,
            estimated_micros: self.estimated_micros.saturating_add(other.estimated_micros),
        }
    }

    /// Returns the tokens read and written.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// Formats an amount of millionths of a US dollar for people.
#[must_use]
pub fn dollars(micros: u64) -> String {
    let (whole, rest) = (micros / 1_000_000, micros % 1_000_000);
    let digits = format!("{rest:06}");
    let shown = digits.trim_end_matches('0');
    format!("${whole}.{shown:0<2}")
}

/// Returns the day of a time in UTC, as the number of days since 1970-01-01.
#[must_use]
pub fn day(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(24 * 3600 * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: Price = Price {
        input: 3_000_000,
        output: 15_000_000,
        cached: 300_000,
        cache_written: 3_750_000,
        cache_written_long: 6_000_000,
    };

    const ALL: Tokens = Tokens {
        input: u64::MAX,
        cached: u64::MAX,
        cache_written: u64::MAX,
        cache_written_long: u64::MAX,
        output: u64::MAX,
    };

    #[test]
    fn long_inputs_and_other_tiers_have_their_prices() {
        let price = |input| Price { input, output: 10 * input, ..Price::default() };
        let long = TierPrices { base: price(1_000_000), above: [(200_000, price(2_000_000))].into() };
        let prices = ModelPrices { standard: long, tiers: [("flex".to_owned(), price(500_000).into())].into() };
        let cost = |input, tier| prices.of(&Tokens { input, output: 1, ..Tokens::default() }, tier);
        assert_eq!(cost(200_000, None), Some(200_010));
        assert_eq!(cost(200_001, None), Some(400_022), "all tokens have the higher price");
        assert_eq!((cost(2, Some("flex")), cost(2, Some("priority"))), (Some(6), None));
        let at_most = |input| prices.at_most(Maximum { input, output: 1, ..Maximum::default() });
        assert_eq!((at_most(200_000), at_most(200_001)), (Some(200_010), Some(400_022)));
        let of_20 = Maximum { input: 20, ..Maximum::default() };
        // The estimate of the input is a maximum, so a price for fewer tokens counts if it is higher.
        let odd = TierPrices { base: price(2_000_000), above: [(10, price(1_000_000))].into() };
        assert_eq!(ModelPrices { standard: odd, tiers: BTreeMap::new() }.at_most(of_20), Some(40));
    }

    #[test]
    fn each_kind_of_token_has_its_price() {
        let tokens = Tokens { input: 1000, cached: 600, cache_written: 300, cache_written_long: 100, output: 10 };
        // 100 × 3 + 600 × 0.3 + 200 × 3.75 + 100 × 6 + 10 × 15
        assert_eq!(PRICE.of(&tokens), 300 + 180 + 750 + 600 + 150);
        assert_eq!(PRICE.of(&Tokens { cached: 1, input: 1, ..Tokens::default() }), 1, "rounded up");
        let most = Maximum { input: 1000, output: 10, long_caches: true, tier: None };
        assert_eq!(PRICE.at_most(most), 6000 + 150);
        assert_eq!(PRICE.at_most(Maximum { long_caches: false, ..most }), 3750 + 150);
        let all = ALL;
        assert_eq!(PRICE.of(&Tokens { input: u64::MAX, output: u64::MAX, ..Tokens::default() }), u64::MAX);
        let most = u64::MAX;
        let highest = Price { input: most, output: most, cached: most, cache_written: most, cache_written_long: most };
        assert_eq!(
            (highest.of(&all), highest.at_most(Maximum { input: most, output: most, ..Maximum::default() })),
            (u64::MAX, u64::MAX)
        );
    }

    #[test]
    fn one_call_without_a_price_makes_the_sum_unknown() {
        let tokens = Tokens { input: 5, cached: 1, output: 2, ..Tokens::default() };
        let one = Usage::default().plus(&Usage::of_call(&tokens, Some(7), false));
        assert_eq!((one.input_tokens, one.cached_tokens, one.output_tokens, one.cost_micros), (5, 1, 2, Some(7)));
        let two = one.plus(&Usage::of_call(&tokens, Some(3), true));
        assert_eq!((two.cost_micros, two.estimated_micros), (Some(10), 3));
        let unknown = one.plus(&Usage::of_call(&tokens, None, false));
        assert_eq!((unknown.input_tokens, unknown.cost_micros), (10, None));
        assert_eq!(unknown.plus(&Usage::of_call(&tokens, Some(3), false)).cost_micros, None);
    }

    #[test]
    fn sums_stop_at_the_largest_number() {
        let most = Usage::default().plus(&Usage::of_call(&ALL, Some(u64::MAX), true));
        assert_eq!(most.plus(&Usage::of_call(&ALL, Some(u64::MAX), true)), most);
        assert_eq!(ALL.plus(&ALL), ALL);
        assert_eq!(most.and(&most), Usage { cost_micros: None, ..most });
        assert_eq!((most.tokens(), Usage::default().tokens()), (u64::MAX, 0));
    }

    #[test]
    fn days_begin_at_midnight_of_utc() {
        let at = |text: &str| day(text.parse().unwrap());
        assert_eq!(at("1970-01-01T23:59:59Z"), 0);
        assert_eq!(at("1970-01-02T00:00:00Z"), 1);
        assert_eq!(at("1969-12-31T23:00:00Z"), -1);
    }
}
