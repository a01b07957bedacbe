//! The budget rules that all stores share: the sums that the cost of a model call is added to.

use journeyman_core::model::price::{OverBudget, Scope, check};
use journeyman_core::ports::Spend;

/// A row of the table `spending`: the money spent in one scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sum {
    /// The scope: a job, a day or the project.
    pub(crate) scope: Scope,
    /// The name of the scope in the table.
    pub(crate) kind: &'static str,
    /// The ID of the job or the number of the day; empty for the project.
    pub(crate) subject: String,
    /// The largest sum that the budget allows, in micros; `None` without a limit.
    pub(crate) limit: Option<i64>,
}

/// Returns the sums that a cost is added to, in the order in which the budgets are checked.
pub(crate) fn sums(spend: &Spend) -> [Sum; 3] {
    let sum = |scope: Scope, subject: String| {
        // A sum saturates at the largest integer, so a budget above that is no limit.
        let limit = spend.budgets.of(scope).and_then(|limit| i64::try_from(limit).ok());
        Sum { scope, kind: scope.name(), subject, limit }
    };
    [sum(Scope::Job, spend.job.to_string()), sum(Scope::Day, spend.day.to_string()), sum(Scope::Project, String::new())]
}

/// Checks that no sum exceeds its budget, given the current sums. Refunds always pass.
pub(crate) fn check_budgets(spend: &Spend, held: [i64; 3]) -> Result<(), OverBudget> {
    let Ok(asked) = u64::try_from(spend.micros) else { return Ok(()) };
    for (sum, held) in sums(spend).iter().zip(held) {
        check(sum.scope, spend.budgets.of(sum.scope), u64::try_from(held).unwrap_or(0), asked)?;
    }
    Ok(())
}
