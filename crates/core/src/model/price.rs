//! What calls of models cost, and the budgets that they are kept in.
//!
//! Money is in millionths of a US dollar. Budgets hold because a call's highest cost is added to what was spent before the
//! call is made, and corrected after it ([`crate::ports::SpendingStore`]).

use serde::{Deserialize, Serialize};

use crate::run::Usage;
use crate::time::Timestamp;

/// A million.
const MILLION: u128 = 1_000_000;

/// What a million tokens cost, in millionths of a US dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// Read by the model.
    pub input: u64,
    /// Written by it.
    pub output: u64,
    /// Read from the provider's cache.
    pub cached: u64,
    /// Read and put into the provider's cache.
    pub cache_written: u64,
}

/// The tokens of one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// All that the model has read.
    pub input: u64,
    /// Of those, from the provider's cache.
    pub cached: u64,
    /// Of those, put into it.
    pub cache_written: u64,
    /// Written.
    pub output: u64,
}

impl Price {
    /// What these tokens cost; part of a millionth counts as one.
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

    /// The most that a call can cost which reads and writes so many tokens.
    #[must_use]
    pub fn at_most(&self, input: u64, output: u64) -> u64 {
        let dearest = self.input.max(self.cached).max(self.cache_written);
        Self { input: dearest, ..*self }.of(&Tokens { input, output, ..Tokens::default() })
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
        // What has no price makes the sum unknown; a sum of nothing is known.
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
    /// Returns the sum of the tokens of two runs, without a cost, which the store adds up.
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

/// What may be spent; `None`: as much as is asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Budgets {
    /// By one run.
    pub run: Option<u64>,
    /// By a job, over all of its runs.
    pub job: Option<u64>,
    /// By the project in one day of UTC.
    pub day: Option<u64>,
    /// By the project.
    pub project: Option<u64>,
}

impl Budgets {
    /// Whether nothing is limited.
    #[must_use]
    pub fn are_open(&self) -> bool {
        *self == Self::default()
    }

    /// The limit of one of them.
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

/// Whose money it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// One run's.
    Run,
    /// One job's.
    Job,
    /// A project's, for one day.
    Day,
    /// A project's.
    Project,
}

impl Scope {
    /// What people call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Job => "job",
            Self::Day => "day",
            Self::Project => "project",
        }
    }

    /// The field of a project that limits it.
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

/// A call would spend more than there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the call may cost up to {}, and of the {}'s budget of {} only {} is left; raise {} of the project",
    dollars(*.asked), .scope.name(), dollars(*.limit), dollars(.limit.saturating_sub(*.spent)), .scope.field()
)]
pub struct OverBudget {
    /// Which budget.
    pub scope: Scope,
    /// All of it.
    pub limit: u64,
    /// What is spent of it, calls under way among it.
    pub spent: u64,
    /// What the call may cost.
    pub asked: u64,
}

/// Whether a budget has room for what is asked.
///
/// # Errors
/// It has not.
pub fn check(scope: Scope, limit: Option<u64>, spent: u64, asked: u64) -> Result<(), OverBudget> {
    match limit {
        Some(limit) if spent.saturating_add(asked) > limit => Err(OverBudget { scope, limit, spent, asked }),
        _ => Ok(()),
    }
}

/// Millionths as people read them.
#[must_use]
pub fn dollars(micros: u64) -> String {
    let (whole, rest) = (micros / 1_000_000, micros % 1_000_000);
    let digits = format!("{rest:06}");
    let shown = digits.trim_end_matches('0');
    format!("${whole}.{shown:0<2}")
}

/// The day of UTC that a moment is in, as days since 1970-01-01.
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
        let dear = Price { input: u64::MAX, output: u64::MAX, cached: u64::MAX, cache_written: u64::MAX };
        assert_eq!((dear.of(&all), dear.at_most(u64::MAX, u64::MAX)), (u64::MAX, u64::MAX));
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
        for part in ["$1.000001", "day's budget of $2.50", "only $0.50 is left", "limits.budget.dayMicros"] {
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
