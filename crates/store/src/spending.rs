//! The rules of budgets, which both databases share.

use journeyman_core::model::budget::{Refusal, Scope, Used, check_all};
use journeyman_core::ports::{NewReservation, Sums};

/// A row of the table `spending`: the money spent in one scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sum {
    /// The name of the scope in the table.
    pub(crate) kind: &'static str,
    /// The ID of the job or the number of the day; empty for the project.
    pub(crate) subject: String,
}

/// Returns the rows of sums, in the order of [`Sums::SCOPES`].
pub(crate) fn rows(sums: &Sums) -> [Sum; 3] {
    Sums::SCOPES.map(|scope| {
        let subject = match scope {
            Scope::Job => sums.job.to_string(),
            Scope::Day => sums.day.to_string(),
            Scope::Run | Scope::Project => String::new(),
        };
        Sum { kind: scope.name(), subject }
    })
}

/// Checks that a call fits into the budgets, given what is used.
pub(crate) fn check(new: &NewReservation, used: [Used; 3]) -> Result<(), Refusal> {
    check_all(&new.budgets, Sums::SCOPES.into_iter().zip(used), new.micros)
}

/// Returns an amount as the tables store it. A sum stops at the largest number.
pub(crate) fn amount(micros: u64) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX)
}

/// Returns an amount of a table, which is never negative.
pub(crate) fn used(spent: i64, set_aside: i64) -> Used {
    let micros = |amount| u64::try_from(amount).unwrap_or(0);
    Used { spent: micros(spent), set_aside: micros(set_aside) }
}
