//! The updates of pull requests: whom the service asks to merge the base, and when not.

use std::time::Duration;

use journeyman_core::checks::{Attempt, CheckReport, CheckResult, Reaction};
use journeyman_core::code_host::{PullRef, PullState};
use journeyman_core::job::JobStatus;
use journeyman_core::job::change::Row;
use journeyman_core::job::command::Command;
use journeyman_core::job::effect::Effect;
use journeyman_core::job::pull_updates::{OutdatedPull, report};
use journeyman_core::job::turn::Ending;
use journeyman_core::job::updates::UpdateStop;
use journeyman_core::message::{DeliveryMode, NewMessage, Origin};
use journeyman_core::pull::base_comparison::{BaseComparison, Conflicts};

use super::fixtures::{Case, message, repository, running, sha};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn pull() -> PullRef {
    PullRef { repository: repository(), number: 1 }
}

fn comparison(base: char, head: char) -> BaseComparison {
    let conflicts = Conflicts { files: vec!["a.txt".to_owned()], more: 0 };
    BaseComparison { base: "main".to_owned(), base_sha: sha(base), head_sha: sha(head), behind: 1, conflicts }
}

impl Case {
    /// Reports that the commit `head` of the pull request conflicts with `base`, with message `number`.
    fn outdated(self, number: u128, base: char, head: char) -> Self {
        self.outdated_within(number, base, head, 2)
    }

    fn outdated_within(self, number: u128, base: char, head: char, most_per_day: u32) -> Self {
        let message = NewMessage { origin: Origin::Update, ..message(number, DeliveryMode::Queue) };
        let report = OutdatedPull { pull: pull(), comparison: comparison(base, head), message, most_per_day };
        self.then(&Command::KeepUpToDate(Box::new(report)))
    }

    fn update_stop(&self) -> Option<UpdateStop> {
        self.job.updates.as_deref().and_then(|updates| updates.stop)
    }
}

fn published() -> Case {
    running().turn('a', Ending::Done).publish_there('a')
}

#[test]
fn an_outdated_pull_request_becomes_one_message_for_each_pair_of_commits() {
    let case = published().outdated(2, '1', 'a');
    assert_eq!(case.last_kinds(), ["pull_request.outdated", "message.accepted"]);
    assert_eq!((case.job.status(), case.job.queue.len()), (JobStatus::Active, 1));
    let case = case.carry_out('b');
    let again = case.outdated(3, '1', 'a');
    assert_eq!((again.last_kinds(), again.job.queue.len()), (vec![], 0), "it was asked about these commits");
    let next = again.outdated(4, '2', 'b');
    assert_eq!(next.last_kinds(), ["pull_request.outdated", "message.accepted"]);
}

#[test]
fn a_job_that_works_is_not_asked() {
    let case = published().send(2).outdated(3, '1', 'a');
    assert_eq!((case.last_kinds(), &case.job.updates), (vec![], &None));
    let rested = case.carry_out('b').outdated(4, '1', 'b');
    assert_eq!(rested.last_kinds(), ["pull_request.outdated", "message.accepted"]);
}

#[test]
fn a_pull_request_that_people_have_ended_is_left_alone() {
    for state in [PullState::Closed, PullState::Merged] {
        let end = Command::RecordPull { pull: pull(), state, archive_on_merge: false, summary: None };
        let case = published().then(&end).outdated(2, '1', 'a');
        assert_eq!((case.last_kinds(), &case.job.updates), (vec![], &None), "{state:?}");
    }
    let archived = published().then(&Command::Archive).outdated(2, '1', 'a');
    assert_eq!((archived.last_kinds(), archived.job.status()), (vec![], JobStatus::Archived));
    let cancelled = published().send(2).then(&Command::Cancel).outdated(3, '1', 'a');
    assert_eq!((cancelled.last_kinds(), cancelled.job.status()), (vec![], JobStatus::Failed));
    let mut other = pull();
    other.number = 7;
    let message = message(2, DeliveryMode::Queue);
    let report = OutdatedPull { pull: other, comparison: comparison('1', 'a'), message, most_per_day: 2 };
    let case = published().then(&Command::KeepUpToDate(Box::new(report)));
    assert_eq!(case.last_kinds(), [""; 0], "an earlier pull request of the job");
}

#[test]
fn the_daily_limit_is_told_once_and_counts_repairs_too() {
    let repair = NewMessage { origin: Origin::Check, ..message(2, DeliveryMode::Queue) };
    let attempt = Attempt { message: repair, signature: "x".to_owned(), most_attempts: 3, most_per_day: 3 };
    let (failed, reaction) = (vec!["test".to_owned()], Reaction::Fix(Box::new(attempt)));
    let failure = CheckReport { sha: sha('a'), result: CheckResult::Failed, failed, reaction };
    let case = published().then(&Command::RecordChecks(Box::new(failure))).carry_out('b');
    let case = case.outdated(3, '1', 'b').carry_out('c');
    let case = case.outdated(4, '2', 'c');
    assert_eq!((case.last_kinds(), case.update_stop()), (vec!["pull_request.outdated"], Some(UpdateStop::DailyLimit)));
    let effect = Effect::ReportOutdated { job: case.job.id, base: sha('2') };
    assert!(case.last.rows.contains(&Row::InsertTask { effect, at: case.now }), "{:?}", case.last.rows);
    let text = report(case.job.updates.as_deref().unwrap(), "u").unwrap();
    assert!(text.contains("the limit of automatic messages in a day is used up"), "{text}");
    let again = case.outdated(5, '3', 'c');
    assert_eq!(again.last_kinds(), [""; 0], "each commit of the base would tell it again");
    let next_day = again.after(DAY).outdated(6, '3', 'c');
    assert_eq!(next_day.last_kinds(), ["pull_request.outdated", "message.accepted"]);
}

#[test]
fn a_job_that_failed_to_update_is_not_asked_again_before_a_person_writes() {
    let fails = |case: Case| case.claim().fail(None);
    let case = fails(published().outdated(2, '1', 'a'));
    assert_eq!(case.job.status(), JobStatus::Failed);
    let case = case.outdated(3, '2', 'a');
    assert_eq!((case.last_kinds(), case.update_stop()), (vec!["pull_request.outdated"], Some(UpdateStop::LastFailed)));
    let case = case.outdated(4, '3', 'a');
    assert_eq!(case.last_kinds(), [""; 0], "it was told");
    let written = fails(case.send(5)).outdated(6, '3', 'a');
    assert_eq!(
        written.last_kinds(),
        ["pull_request.outdated", "message.accepted"],
        "another failure, of a person's message"
    );
}

#[test]
fn a_limit_of_zero_asks_nobody() {
    let case = published().outdated_within(2, '1', 'a', 0);
    assert_eq!((case.update_stop(), case.job.queue.len()), (Some(UpdateStop::DailyLimit), 0));
    assert!(report(case.job.updates.as_deref().unwrap(), "u").unwrap().ends_with("[Job](u)"));
    let asked = published().outdated(2, '1', 'a');
    assert_eq!(report(asked.job.updates.as_deref().unwrap(), "u"), None);
}
