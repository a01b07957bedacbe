//! What the stores have in common about money that is spent: which sums a call is added to.

use journeyman_core::model::price::{OverBudget, Scope, check};
use journeyman_core::ports::Spend;

/// A sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sum {
    /// Whose.
    pub(crate) scope: Scope,
    /// As the table has it.
    pub(crate) kind: &'static str,
    /// Of what: a job's id, a day; nothing for a project.
    pub(crate) subject: String,
    /// What it may be; `None`: anything.
    pub(crate) most: Option<i64>,
}

/// The sums that money is added to, in the order in which they are looked at.
pub(crate) fn sums(spend: &Spend) -> [Sum; 3] {
    let sum = |scope: Scope, subject: String| {
        // A sum saturates at the largest integer, so a budget above that is no limit.
        let most = spend.budgets.of(scope).and_then(|most| i64::try_from(most).ok());
        Sum { scope, kind: scope.name(), subject, most }
    };
    [sum(Scope::Job, spend.job.to_string()), sum(Scope::Day, spend.day.to_string()), sum(Scope::Project, String::new())]
}

/// Whether each sum has room, given what each is now.
pub(crate) fn have_room(spend: &Spend, held: [i64; 3]) -> Result<(), OverBudget> {
    let Ok(asked) = u64::try_from(spend.micros) else { return Ok(()) };
    for (sum, held) in sums(spend).iter().zip(held) {
        check(sum.scope, spend.budgets.of(sum.scope), u64::try_from(held).unwrap_or(0), asked)?;
    }
    Ok(())
}
