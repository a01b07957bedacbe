//! The prices of model calls, and the budgets for them.
//!
//! Amounts are in millionths of a US dollar. To enforce the budgets, the maximum cost of a call is added to the amount
//! spent before the call is made, and is replaced by the actual cost afterwards ([`crate::ports::SpendingStore`]).

use serde::{Deserialize, Serialize};

use crate::run::Usage;
use crate::time::Timestamp;

/// The number of tokens to which a price applies.
const MILLION: u128 = 1_000_000;

/// The price of one million tokens, in millionths of a US dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// The price of input tokens, which the model reads.
    pub input: u64,
    /// The price of output tokens, which the model writes.
    pub output: u64,
    /// The price of input tokens that are read from the provider's cache.
    pub cached: u64,
    /// The price of input tokens that are also written to the provider's cache.
    pub cache_written: u64,
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
    /// The number of output tokens.
    pub output: u64,
}

impl Price {
    /// Returns the cost of these tokens, rounded up to the next millionth of a US dollar.
    #[must_use]
    pub fn of(&self, tokens: &Tokens) -> u64 {
        let Tokens { input, cached, cache_written, output } = *tokens;
        let plain = input.saturating_sub(cached).saturating_sub(cache_written);
        let parts =
            [(plain, self.input), (cached, self.cached), (cache_written, self.cache_written), (output, self.output)];
        let costs = parts.iter().map(|(tokens, price)| u128::from(*tokens) * u128::from(*price));
        let sum = costs.fold(0, u128::saturating_add);
        u64::try_from(sum.div_ceil(MILLION)).unwrap_or(u64::MAX)
    }

    /// Returns the maximum cost of a call with these numbers of input and output tokens.
    #[must_use]
    pub fn at_most(&self, input: u64, output: u64) -> u64 {
        let highest = self.input.max(self.cached).max(self.cache_written);
        Self { input: highest, ..*self }.of(&Tokens { input, output, ..Tokens::default() })
    }
}

impl Usage {
    /// Returns the usage of one call. The cost is unknown if there is no price.
    #[must_use]
    pub const fn of_call(tokens: &Tokens, cost_micros: Option<u64>) -> Self {
        let Tokens { input, output, cached, .. } = *tokens;
        Self { input_tokens: input, output_tokens: output, cached_tokens: cached, cost_micros }
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
        }
    }

    /// Returns the tokens read and written.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// The budgets of a project, in millionths of a US dollar; `None` means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Budgets {
    /// The budget of a run.
    pub run: Option<u64>,
    /// The budget of a job, for all of its runs.
    pub job: Option<u64>,
    /// The budget of the project for one day in UTC.
    pub day: Option<u64>,
    /// The budget of the project in total.
    pub project: Option<u64>,
}

impl Budgets {
    /// Returns whether no budget is limited.
    #[must_use]
    pub fn are_open(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the budget of a scope.
    #[must_use]
    pub const fn of(&self, scope: Scope) -> Option<u64> {
        match scope {
            Scope::Run => self.run,
            Scope::Job => self.job,
            Scope::Day => self.day,
            Scope::Project => self.project,
        }
    }
}

/// The scope of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// A run.
    Run,
    /// A job.
    Job,
    /// A project on one day.
    Day,
    /// A project in total.
    Project,
}

impl Scope {
    /// Returns the name of the scope for messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Job => "job",
            Self::Day => "day",
            Self::Project => "project",
        }
    }

    /// Returns the field of a project that sets the budget.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::Run => "limits.budget.runMicros",
            Self::Job => "limits.budget.jobMicros",
            Self::Day => "limits.budget.dayMicros",
            Self::Project => "limits.budget.projectMicros",
        }
    }
}

/// An error for a call that could exceed a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the call may cost up to {}, but only {} of the {}'s budget of {} is left; raise {} of the project",
    dollars(*.asked), dollars(.limit.saturating_sub(*.spent)), .scope.name(), dollars(*.limit), .scope.field()
)]
pub struct OverBudget {
    /// The scope of the budget.
    pub scope: Scope,
    /// The budget.
    pub limit: u64,
    /// The amount that is spent, including the maximum cost of calls in progress.
    pub spent: u64,
    /// The maximum cost of the call.
    pub asked: u64,
}

/// Checks that a call fits into a budget. `asked` is the maximum cost of the call.
///
/// # Errors
/// Returns an error if the call could exceed the budget.
pub fn check(scope: Scope, limit: Option<u64>, spent: u64, asked: u64) -> Result<(), OverBudget> {
    match limit {
        Some(limit) if spent.saturating_add(asked) > limit => Err(OverBudget { scope, limit, spent, asked }),
        _ => Ok(()),
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

    const PRICE: Price = Price { input: 3_000_000, output: 15_000_000, cached: 300_000, cache_written: 3_750_000 };

    #[test]
    fn each_kind_of_token_has_its_price() {
        let tokens = Tokens { input: 1000, cached: 600, cache_written: 300, output: 10 };
        // 100 × 3 + 600 × 0.3 + 300 × 3.75 + 10 × 15
        assert_eq!(PRICE.of(&tokens), 300 + 180 + 1125 + 150);
        assert_eq!(PRICE.of(&Tokens { cached: 1, input: 1, ..Tokens::default() }), 1, "rounded up");
        assert!(PRICE.at_most(1000, 10) >= PRICE.of(&tokens));
        let all = Tokens { input: u64::MAX, cached: u64::MAX, cache_written: u64::MAX, output: u64::MAX };
        assert_eq!(PRICE.of(&Tokens { input: u64::MAX, output: u64::MAX, ..Tokens::default() }), u64::MAX);
        let highest = Price { input: u64::MAX, output: u64::MAX, cached: u64::MAX, cache_written: u64::MAX };
        assert_eq!((highest.of(&all), highest.at_most(u64::MAX, u64::MAX)), (u64::MAX, u64::MAX));
    }

    #[test]
    fn one_call_without_a_price_makes_the_sum_unknown() {
        let tokens = Tokens { input: 5, cached: 1, cache_written: 0, output: 2 };
        let one = Usage::default().plus(&Usage::of_call(&tokens, Some(7)));
        assert_eq!((one.input_tokens, one.cached_tokens, one.output_tokens, one.cost_micros), (5, 1, 2, Some(7)));
        assert_eq!(one.plus(&Usage::of_call(&tokens, Some(3))).cost_micros, Some(10));
        let unknown = one.plus(&Usage::of_call(&tokens, None));
        assert_eq!((unknown.input_tokens, unknown.cost_micros), (10, None));
        assert_eq!(unknown.plus(&Usage::of_call(&tokens, Some(3))).cost_micros, None);
    }

    #[test]
    fn sums_stop_at_the_largest_number() {
        let all = Tokens { input: u64::MAX, cached: u64::MAX, cache_written: u64::MAX, output: u64::MAX };
        let most = Usage::default().plus(&Usage::of_call(&all, Some(u64::MAX)));
        assert_eq!(most.plus(&Usage::of_call(&all, Some(u64::MAX))), most);
        assert_eq!(most.and(&most), Usage { cost_micros: None, ..most });
        assert_eq!((most.tokens(), Usage::default().tokens()), (u64::MAX, 0));
    }

    #[test]
    fn a_budget_says_what_is_left_and_what_to_raise() {
        assert_eq!(check(Scope::Run, Some(100), 90, 10), Ok(()));
        assert_eq!(check(Scope::Run, None, u64::MAX, 10), Ok(()));
        let over = check(Scope::Day, Some(2_500_000), 2_000_000, 1_000_001).unwrap_err();
        let text = over.to_string();
        for part in ["$1.000001", "only $0.50 of the day's budget", "of $2.50 is left", "limits.budget.dayMicros"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn days_begin_at_midnight_of_utc() {
        let at = |text: &str| day(text.parse().unwrap());
        assert_eq!(at("1970-01-01T23:59:59Z"), 0);
        assert_eq!(at("1970-01-02T00:00:00Z"), 1);
        assert_eq!(at("1969-12-31T23:00:00Z"), -1);
    }
}
