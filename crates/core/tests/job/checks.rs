//! The checks of pull requests, and the attempts to repair them.

use std::time::Duration;

use journeyman_core::checks::{Attempt, CheckReport, CheckResult, CheckStop, Reaction};
use journeyman_core::code_host::{PullRef, PullState};
use journeyman_core::job::JobStatus;
use journeyman_core::job::change::Row;
use journeyman_core::job::command::{Command, Outcome, Published, Report};
use journeyman_core::job::effect::Effect;
use journeyman_core::job::turn::Ending;
use journeyman_core::message::{DeliveryMode, NewMessage, Origin};
use journeyman_core::run::Usage;

use super::fixtures::{Case, message, repository, running, sha};

const DAY: Duration = Duration::from_secs(24 * 3600);

impl Case {
    fn checks(self, digit: char, result: CheckResult, reaction: Reaction) -> Self {
        let failed = if result == CheckResult::Failed { vec!["test".to_owned()] } else { Vec::new() };
        self.then(&Command::RecordChecks(Box::new(CheckReport { sha: sha(digit), result, failed, reaction })))
    }

    /// Records failed checks with this signature, with message `number` to repair them.
    fn fails(self, digit: char, number: u128, signature: &str) -> Self {
        self.checks(digit, CheckResult::Failed, repair(number, signature))
    }

    fn stop(&self) -> Option<CheckStop> {
        self.job.checks.as_deref().and_then(|checks| checks.stop)
    }
}

fn repair(number: u128, signature: &str) -> Reaction {
    let message = NewMessage { origin: Origin::Check, ..message(number, DeliveryMode::Queue) };
    let signature = signature.to_owned();
    Reaction::Fix(Box::new(Attempt { message, signature, most_attempts: 2, most_per_day: 3 }))
}

fn published() -> Case {
    running().turn('a', Ending::Done).publish_there('a')
}

#[test]
fn a_push_to_a_pull_request_on_a_remote_host_is_watched() {
    let case = published();
    let watched = |case: &Case| {
        case.last.rows.iter().find_map(|row| match row {
            Row::WatchChecks { sha, since, due_at, .. } => Some((sha.clone(), *since, *due_at > *since)),
            _ => None,
        })
    };
    assert_eq!(watched(&case), Some((sha('a'), case.now, true)));
    assert_eq!(watched(&running().turn('a', Ending::Done).publish('a')), None, "the host is not known");
}

#[test]
fn the_result_is_recorded_once() {
    let case = published().checks('a', CheckResult::Passed, Reaction::Report);
    assert_eq!(case.last_kinds(), ["checks.settled"]);
    assert_eq!(case.job.checks.as_deref().map(|checks| checks.result), Some(CheckResult::Passed));
    let again = case.checks('a', CheckResult::Passed, Reaction::Report);
    assert_eq!(again.last_kinds(), [""; 0]);
}

#[test]
fn checks_of_an_old_commit_or_an_ended_pull_request_are_ignored() {
    let old = published().checks('b', CheckResult::Failed, repair(2, "x"));
    assert_eq!((old.last_kinds(), &old.job.checks), (vec![], &None));
    let pull = PullRef { repository: repository(), number: 1 };
    let merge = Command::RecordPull { pull, state: PullState::Merged, archive_on_merge: false, summary: None };
    let ended = published().then(&merge).fails('a', 2, "x");
    assert_eq!((ended.last_kinds(), &ended.job.checks), (vec![], &None));
}

#[test]
fn failed_checks_become_one_message() {
    let case = published().fails('a', 2, "x");
    assert_eq!(case.last_kinds(), ["checks.settled", "message.accepted"]);
    assert_eq!((case.job.status(), case.job.queue.len()), (JobStatus::Active, 1));
    // Another process has read the same checks.
    let again = case.fails('a', 3, "x");
    assert_eq!((again.last_kinds(), again.job.queue.len()), (vec![], 1));
    // The agent found nothing to repair, and made no commit.
    let nothing = Outcome::Published { pushed: None, pull: Published::Nothing };
    let done =
        again.claim().turn('a', Ending::Done).report(Report::Finished { outcome: nothing, usage: Usage::default() });
    let again = done.fails('a', 4, "y");
    assert_eq!((again.last_kinds(), again.job.queue.len()), (vec![], 0), "one attempt is made for each commit");
}

#[test]
fn failed_checks_wait_for_an_active_job() {
    let case = published().send(2).fails('a', 3, "x");
    assert_eq!((case.last_kinds(), &case.job.checks), (vec![], &None));
    let passed = case.checks('a', CheckResult::Passed, Reaction::Report);
    assert_eq!(passed.last_kinds(), ["checks.settled"], "only a repair waits");
}

#[test]
fn a_failure_that_an_attempt_did_not_change_stops() {
    let case = published().fails('a', 2, "x").carry_out('b').fails('b', 3, "x");
    assert_eq!((case.stop(), case.job.queue.len()), (Some(CheckStop::SameFailure), 0));
    let effects: Vec<_> = case.last.rows.iter().collect();
    let report = Effect::ReportChecks { job: case.job.id, sha: sha('b') };
    assert!(effects.contains(&&Row::InsertTask { effect: report, at: case.now }), "{effects:?}");
    // A person writes, so the next failure is another one.
    let case = case.send(4).carry_out('c').fails('c', 5, "x");
    assert_eq!((case.stop(), case.job.queue.len()), (None, 1));
}

#[test]
fn attempts_are_limited() {
    let case = published().fails('a', 2, "x").carry_out('b').fails('b', 3, "y").carry_out('c').fails('c', 4, "z");
    assert_eq!(case.stop(), Some(CheckStop::AttemptsUsed));
    let never = Attempt { most_attempts: 0, ..attempt(2) };
    let case = published().checks('a', CheckResult::Failed, Reaction::Fix(Box::new(never)));
    assert_eq!((case.stop(), case.job.queue.len()), (Some(CheckStop::AttemptsUsed), 0));
}

#[test]
fn passed_checks_reset_the_attempts_but_not_the_messages_of_the_day() {
    let mut case = published();
    for (number, digit, next) in [(2, 'a', 'b'), (3, 'b', 'c'), (4, 'c', 'd')] {
        case = case.fails(digit, number, "x").carry_out(next).checks(next, CheckResult::Passed, Reaction::Report);
    }
    let case = case.fails('d', 5, "x");
    assert_eq!(case.stop(), Some(CheckStop::DailyLimit));
    let later = case.send(6).carry_out('e').after(DAY).fails('e', 7, "x");
    assert_eq!((later.stop(), later.job.queue.len()), (None, 1));
}

#[test]
fn a_reason_that_the_caller_found_is_recorded() {
    let case = published().checks('a', CheckResult::Failed, Reaction::Stop(CheckStop::FailsOnBase));
    assert_eq!((case.stop(), case.job.status()), (Some(CheckStop::FailsOnBase), JobStatus::Completed));
    let archived = published().then(&Command::Archive).fails('a', 2, "x");
    assert_eq!((archived.stop(), archived.job.status()), (Some(CheckStop::Archived), JobStatus::Archived));
}

fn attempt(number: u128) -> Attempt {
    match repair(number, "x") {
        Reaction::Fix(attempt) => *attempt,
        reaction => panic!("{reaction:?}"),
    }
}
