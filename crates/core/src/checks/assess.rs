//! Assesses the checks of a commit.

use std::time::Duration;

use super::job_checks::CheckResult;
use super::watch::LONGEST_DELAY;
use crate::checks::{Check, CheckState};
use crate::project::CheckSettings;

/// The shortest delay between two looks.
const SHORTEST_DELAY: Duration = Duration::from_secs(15);

/// The time after a push before which a result is not final, because other checks may not have begun.
const QUIET: Duration = Duration::from_secs(60);

/// The longest time for which checks are watched.
const LONGEST_WATCH: Duration = Duration::from_secs(24 * 3600);

/// The longest delay between two looks while checks run.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// The assessment of the checks of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assessment {
    /// The checks have not finished, or have not begun.
    Pending,
    /// The checks have finished, or are given up.
    Settled(CheckResult),
}

/// Returns the checks that count, those that failed first, at most [`MOST_CHECKS`].
#[must_use]
pub fn counted(settings: &CheckSettings, checks: Vec<Check>) -> Vec<Check> {
    let matches = |patterns: &[String], name: &str| patterns.iter().any(|pattern| is_match(pattern, name));
    let counts = |check: &Check| {
        // What does not count is said in any case.
        let is_named = settings.only.is_empty() || matches(&settings.only, &check.name);
        (is_named || check.state == CheckState::Ignored) && !matches(&settings.ignore, &check.name)
    };
    let mut found: Vec<Check> = checks.into_iter().filter(counts).collect();
    found.sort_by_key(|check| match check.state {
        CheckState::Failed => 0,
        CheckState::Waiting => 1,
        CheckState::Pending => 2,
        CheckState::Passed => 3,
        CheckState::Skipped => 4,
        CheckState::Ignored => 5,
    });
    found.truncate(MOST_CHECKS);
    found
}

/// Adds to checks what earlier looks at the same commit have shown: a check that has failed and passed on one commit is
/// flaky. Checks that share their name with another one are not compared.
#[must_use]
pub fn compared(mut found: Vec<Check>, before: &[Check]) -> Vec<Check> {
    let names: Vec<String> = found.iter().map(|check| check.name.clone()).collect();
    let is_unique = |name: &str| names.iter().filter(|known| *known == name).count() == 1;
    for check in found.iter_mut().filter(|check| is_unique(&check.name)) {
        let mut same = before.iter().filter(|known| known.name == check.name);
        let known = same.next().filter(|_| same.next().is_none());
        let last = known.and_then(|known| known.finished);
        let now = Some(check.state).filter(|state| matches!(state, CheckState::Passed | CheckState::Failed));
        let differs = last.is_some() && now.is_some() && last != now;
        check.is_flaky = differs || known.is_some_and(|known| known.is_flaky);
        check.finished = now.or(last);
    }
    found
}

/// Assesses the checks that count, `age` after the push. `settle` is the longest time to wait for checks that have not
/// begun. A check that waits for a person is no failure, and has not finished.
#[must_use]
pub fn assess(checks: &[Check], age: Duration, settle: Duration) -> Assessment {
    let any = |state: CheckState| checks.iter().any(|check| check.state == state);
    let result = if checks.iter().all(|check| check.state == CheckState::Ignored) {
        if age < settle {
            return Assessment::Pending;
        }
        CheckResult::None
    } else if any(CheckState::Pending) {
        if age < LONGEST_WATCH {
            return Assessment::Pending;
        }
        CheckResult::TimedOut
    } else if age < QUIET.min(settle) {
        return Assessment::Pending;
    } else if any(CheckState::Failed) {
        CheckResult::Failed
    } else if any(CheckState::Waiting) {
        if age < LONGEST_WATCH {
            return Assessment::Pending;
        }
        CheckResult::TimedOut
    } else {
        CheckResult::Passed
    };
    Assessment::Settled(result)
}

/// Returns the delay until the next look while checks run, `age` after the push: a quarter of the age, so that a look
/// costs the same share of the waiting time for fast and for slow checks.
#[must_use]
pub fn next_look(age: Duration) -> Duration {
    (age / 4).clamp(SHORTEST_DELAY, LONGEST_WAIT)
}

/// Returns the delay until the next look after there was a result, `age` after the push; `None` if the commit is no
/// longer watched. Checks can begin late, a person can repeat them, and not every code host reports them: Gitea 1.21 has
/// no webhooks about commit statuses.
#[must_use]
pub fn late_look(age: Duration) -> Option<Duration> {
    (age < LONGEST_WATCH).then(|| (age / 2).clamp(SHORTEST_DELAY, LONGEST_DELAY))
}

/// Returns whether a name matches a pattern in which `*` stands for any text.
fn is_match(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(index) => rest = &rest[index + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// The maximum number of checks of a commit that are stored.
pub const MOST_CHECKS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, state: CheckState) -> Check {
        Check::new(name, state)
    }

    #[test]
    fn the_result_is_known_when_all_checks_have_finished() {
        use CheckState::{Failed, Ignored, Passed, Pending, Skipped, Waiting};
        let settled = |result| Assessment::Settled(result);
        let day = 24 * 3600;
        for (states, age, settle, expected) in [
            (vec![], 0, 600, Assessment::Pending),
            (vec![], 599, 600, Assessment::Pending),
            (vec![], 600, 600, settled(CheckResult::None)),
            (vec![], 0, 0, settled(CheckResult::None)),
            (vec![Passed], 30, 600, Assessment::Pending),
            (vec![Passed], 60, 600, settled(CheckResult::Passed)),
            (vec![Passed], 5, 5, settled(CheckResult::Passed)),
            (vec![Passed, Skipped], 60, 600, settled(CheckResult::Passed)),
            (vec![Passed, Failed], 60, 600, settled(CheckResult::Failed)),
            (vec![Pending, Failed], 3600, 600, Assessment::Pending),
            (vec![Pending, Passed], day - 1, 600, Assessment::Pending),
            (vec![Pending, Passed], day, 600, settled(CheckResult::TimedOut)),
            (vec![Waiting, Passed], 3600, 600, Assessment::Pending),
            (vec![Waiting, Passed], day, 600, settled(CheckResult::TimedOut)),
            (vec![Waiting, Failed], 60, 600, settled(CheckResult::Failed)),
            (vec![Ignored], 599, 600, Assessment::Pending),
            (vec![Ignored], 600, 600, settled(CheckResult::None)),
            (vec![Ignored, Passed], 60, 600, settled(CheckResult::Passed)),
        ] {
            let checks: Vec<Check> = states.iter().map(|state| check("c", *state)).collect();
            let found = assess(&checks, Duration::from_secs(age), Duration::from_secs(settle));
            assert_eq!(found, expected, "{states:?} {age} {settle}");
        }
    }

    #[test]
    fn only_the_checks_that_the_project_names_count() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        for (only, ignore, expected) in [
            (list(&[]), list(&[]), vec!["test / unit", "lint", "deploy-preview"]),
            (list(&["test*", "lint"]), list(&[]), vec!["test / unit", "lint"]),
            (list(&[]), list(&["deploy-*"]), vec!["test / unit", "lint"]),
            (list(&["*"]), list(&["*unit", "l*t"]), vec!["deploy-preview"]),
            (list(&["test"]), list(&[]), vec![]),
            (list(&["*e*v*w"]), list(&[]), vec!["deploy-preview"]),
        ] {
            let settings = CheckSettings { only: only.clone(), ignore: ignore.clone(), ..CheckSettings::default() };
            let all = ["test / unit", "lint", "deploy-preview"].map(|name| check(name, CheckState::Failed)).to_vec();
            let found = counted(&settings, all);
            let names: Vec<&str> = found.iter().map(|check| check.name.as_str()).collect();
            assert_eq!(names, expected, "{only:?} {ignore:?}");
        }
    }

    #[test]
    fn a_check_with_both_results_on_one_commit_is_flaky() {
        use CheckState::{Failed, Passed, Pending};
        for (states, expected) in [
            (vec![Failed, Passed], true),
            (vec![Failed, Pending, Passed], true),
            (vec![Passed, Failed], true),
            (vec![Failed, Passed, Failed], true),
            (vec![Pending, Failed, Pending, Failed], false),
            (vec![Pending, Passed], false),
        ] {
            let mut known = Vec::new();
            for state in &states {
                known = compared(vec![check("test", *state)], &known);
            }
            assert_eq!(known[0].is_flaky, expected, "{states:?}");
        }
        // Two workflows have a job with this name.
        let known = compared(vec![check("test", Failed), check("test", Passed)], &[]);
        assert!(compared(vec![check("test", Passed), check("test", Failed)], &known).iter().all(|one| !one.is_flaky));
    }

    #[test]
    fn failed_checks_come_first() {
        let all = vec![
            check("f", CheckState::Ignored),
            check("e", CheckState::Waiting),
            check("a", CheckState::Skipped),
            check("b", CheckState::Passed),
            check("c", CheckState::Pending),
            check("d", CheckState::Failed),
        ];
        let found = counted(&CheckSettings::default(), all);
        assert_eq!(found.iter().map(|check| check.name.as_str()).collect::<String>(), "decbaf");
        let many = (0..500).map(|number| check(&number.to_string(), CheckState::Passed)).collect();
        assert_eq!(counted(&CheckSettings::default(), many).len(), MOST_CHECKS);
    }

    #[test]
    fn the_looks_at_a_commit_are_limited() {
        let (mut age, mut looks) = (Duration::ZERO, 0);
        while age < Duration::from_secs(3600) {
            age += next_look(age);
            looks += 1;
        }
        assert!(looks <= 25, "{looks} looks in an hour");
        assert_eq!(next_look(Duration::ZERO), SHORTEST_DELAY);
        assert_eq!(next_look(LONGEST_WATCH), LONGEST_WAIT);
    }

    #[test]
    fn a_commit_with_a_result_is_watched_for_a_day_with_few_looks() {
        let (mut age, mut looks) = (Duration::from_secs(60), 0);
        while let Some(delay) = late_look(age) {
            assert!(delay <= LONGEST_DELAY, "{delay:?}");
            age += delay;
            looks += 1;
        }
        assert!(age >= LONGEST_WATCH, "{age:?}");
        assert!(looks <= 40, "{looks} looks in a day");
    }
}
