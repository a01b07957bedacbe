//! The budgets for model calls, in millionths of a US dollar.
//!
//! Before a call is made, the most that it can cost is set aside ([`crate::ports::SpendingStore`]). When the cost is
//! known, it is added to what is spent, and the amount that was set aside is free again.

use serde::{Deserialize, Serialize};

use super::price::dollars;

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
    "the call may cost up to {}, but of the {}'s budget of {}, {} is spent; raise {} of the project",
    dollars(*.asked), .scope.name(), dollars(*.limit), dollars(*.spent), .scope.field()
)]
pub struct OverBudget {
    /// The scope of the budget.
    pub scope: Scope,
    /// The budget.
    pub limit: u64,
    /// The amount that is spent.
    pub spent: u64,
    /// The maximum cost of the call.
    pub asked: u64,
}

/// What a scope has used of its budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// The cost of the calls that have ended.
    pub spent: u64,
    /// The maximum cost of the calls in progress.
    pub set_aside: u64,
}

/// The reason why a call cannot be made now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The budget is spent.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// The call fits when calls in progress have ended: they may cost less than what is set aside for them.
    #[error("calls in progress have set aside the rest of the {}'s budget", .0.name())]
    SetAside(Scope),
}

/// Checks that a call fits into a budget. `asked` is the maximum cost of the call.
///
/// # Errors
/// Returns an error if the call could exceed the budget.
pub fn check(scope: Scope, limit: Option<u64>, used: Used, asked: u64) -> Result<(), Refusal> {
    let Some(limit) = limit else { return Ok(()) };
    let Used { spent, set_aside } = used;
    if spent.saturating_add(asked) > limit {
        return Err(OverBudget { scope, limit, spent, asked }.into());
    }
    if spent.saturating_add(set_aside).saturating_add(asked) > limit {
        return Err(Refusal::SetAside(scope));
    }
    Ok(())
}

/// Checks that a call fits into several budgets. A budget that is spent takes precedence: waiting would not help.
///
/// # Errors
/// Returns an error if the call could exceed a budget.
pub fn check_all(budgets: &Budgets, used: impl IntoIterator<Item = (Scope, Used)>, asked: u64) -> Result<(), Refusal> {
    let mut result = Ok(());
    for (scope, used) in used {
        match check(scope, budgets.of(scope), used, asked) {
            Err(refusal @ Refusal::OverBudget(_)) => return Err(refusal),
            Err(refusal) => result = result.and(Err(refusal)),
            Ok(()) => {}
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn used(spent: u64, set_aside: u64) -> Used {
        Used { spent, set_aside }
    }

    #[test]
    fn a_budget_says_what_is_spent_and_what_to_raise() {
        assert_eq!(check(Scope::Run, Some(100), used(90, 0), 10), Ok(()));
        assert_eq!(check(Scope::Run, None, used(u64::MAX, u64::MAX), 10), Ok(()));
        let over = check(Scope::Day, Some(2_500_000), used(2_000_000, 7), 1_000_001).unwrap_err();
        let text = over.to_string();
        for part in ["$1.000001", "of the day's budget of $2.50, $2.00 is spent", "limits.budget.dayMicros"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn what_is_set_aside_is_waited_for_and_what_is_spent_is_not() {
        assert_eq!(check(Scope::Job, Some(100), used(50, 40), 10), Ok(()));
        assert_eq!(check(Scope::Job, Some(100), used(50, 41), 10), Err(Refusal::SetAside(Scope::Job)));
        let budgets = Budgets { job: Some(100), day: Some(50), ..Budgets::default() };
        let asked = |job, day| check_all(&budgets, [(Scope::Job, job), (Scope::Day, day)], 10);
        assert_eq!(asked(used(0, 0), used(0, 0)), Ok(()));
        assert_eq!(asked(used(0, 95), used(0, 0)), Err(Refusal::SetAside(Scope::Job)));
        let spent = asked(used(0, 95), used(41, 0)).unwrap_err();
        assert!(matches!(spent, Refusal::OverBudget(OverBudget { scope: Scope::Day, spent: 41, .. })), "{spent}");
    }
}
