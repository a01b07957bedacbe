//! Tests of the times at which the checks of a commit are read, over each kind of store. No webhook reports a check.

use std::time::Duration;

use journeyman_core::checks::{Check, CheckResult, CheckState, CheckStop, OWN_STATUS, StatusState};
use journeyman_core::ids::Sha;
use journeyman_core::message::Origin;
use journeyman_core::project::{CheckMode, CheckSettings, Project};
use journeyman_testkit::HostCall;

use super::inbox::fixtures::InboxFixture;

const MINUTE: Duration = Duration::from_secs(60);

fn repairs(project: &mut Project) {
    project.settings.checks = CheckSettings { mode: CheckMode::Fix, ..CheckSettings::default() };
}

impl InboxFixture {
    async fn pushed(&self) -> Sha {
        self.job().await.branch.and_then(|branch| branch.pushed).unwrap()
    }

    fn put_check(&self, sha: &Sha, state: CheckState) {
        self.host.put_checks(sha.clone(), vec![check(state)]);
    }

    /// Reads the checks once a minute as far as they are due.
    async fn watch(&self, minutes: usize) {
        for _ in 0..minutes {
            self.fixture.world.advance(MINUTE);
            while self.fixture.cases.carry_out_due_checks().await.unwrap() > 0 {}
        }
        self.carry_out().await;
    }

    async fn result(&self) -> Option<CheckResult> {
        self.job().await.checks.map(|checks| checks.result)
    }

    async fn repairs(&self) -> usize {
        self.messages().await.iter().filter(|message| message.origin == Origin::Check).count()
    }
}

#[tokio::test]
async fn checks_that_begin_late_are_repaired() {
    for inbox in InboxFixture::all_with(repairs).await {
        let (name, sha) = (inbox.name(), inbox.pushed().await);
        inbox.watch(15).await;
        assert_eq!(inbox.result().await, Some(CheckResult::None), "{name}");
        inbox.put_check(&sha, CheckState::Pending);
        inbox.watch(20).await;
        assert_eq!(inbox.repairs().await, 0, "{name}");
        inbox.put_check(&sha, CheckState::Failed);
        inbox.watch(20).await;
        assert_eq!((inbox.result().await, inbox.repairs().await), (Some(CheckResult::Failed), 1), "{name}");
    }
}

#[tokio::test]
async fn checks_that_a_person_repeats_are_read_again() {
    for inbox in InboxFixture::all_with(repairs).await {
        let (name, sha) = (inbox.name(), inbox.pushed().await);
        inbox.put_check(&sha, CheckState::Failed);
        inbox.host.put_checks(inbox.job().await.branch.unwrap().base, vec![check(CheckState::Failed)]);
        inbox.watch(5).await;
        assert_eq!(inbox.job().await.checks.unwrap().stop, Some(CheckStop::FailsOnBase), "{name}");
        inbox.put_check(&sha, CheckState::Passed);
        inbox.watch(60).await;
        let checks = inbox.job().await.checks.unwrap();
        assert_eq!((checks.result, checks.stop, inbox.repairs().await), (CheckResult::Passed, None, 0), "{name}");
    }
}

#[tokio::test]
async fn flaky_checks_are_told_and_not_repaired() {
    for inbox in InboxFixture::all_with(repairs).await {
        let (name, sha) = (inbox.name(), inbox.pushed().await);
        inbox.put_check(&sha, CheckState::Passed);
        inbox.watch(5).await;
        inbox.put_check(&sha, CheckState::Pending);
        inbox.watch(5).await;
        inbox.put_check(&sha, CheckState::Failed);
        inbox.watch(60).await;
        let checks = inbox.job().await.checks.unwrap();
        assert_eq!((checks.result, checks.stop), (CheckResult::Failed, Some(CheckStop::Flaky)), "{name}");
        assert_eq!(inbox.repairs().await, 0, "{name}");
        let written = inbox.host.written();
        let line = "- `test` failed, after another result on the same commit";
        assert!(written.iter().any(|comment| comment.text.contains(line)), "{name}: {written:?}");
    }
}

#[tokio::test]
async fn a_check_that_waits_for_a_person_is_no_failure_and_has_not_passed() {
    for inbox in InboxFixture::all_with(repairs).await {
        let (name, sha) = (inbox.name(), inbox.pushed().await);
        inbox.put_check(&sha, CheckState::Waiting);
        inbox.watch(60).await;
        assert_eq!((inbox.result().await, inbox.repairs().await), (None, 0), "{name}");
        inbox.put_check(&sha, CheckState::Passed);
        inbox.watch(60).await;
        assert_eq!(inbox.result().await, Some(CheckResult::Passed), "{name}");
    }
}

#[tokio::test]
async fn reports_of_failed_checks_are_passed_on_as_logs_are() {
    for inbox in InboxFixture::all_with(repairs).await {
        let (name, sha) = (inbox.name(), inbox.pushed().await);
        let failed = Check {
            log: Some("1".to_owned()),
            report: Some("check-run/1".to_owned()),
            ..Check::new("lint", CheckState::Failed)
        };
        inbox.host.put_checks(sha, vec![failed]);
        inbox.watch(20).await;
        let messages = inbox.messages().await;
        let repair = messages.iter().find(|message| message.origin == Origin::Check).unwrap();
        let logs: Vec<_> = repair.source.as_ref().unwrap().logs.iter().map(|log| (&*log.name, &*log.log)).collect();
        assert_eq!(logs, [("lint", "1"), ("lint report", "check-run/1")], "{name}");
    }
}

#[tokio::test]
async fn a_known_result_costs_one_request_a_look_and_none_after_a_day() {
    for inbox in InboxFixture::all_with(repairs).await {
        let (name, sha) = (inbox.name(), inbox.pushed().await);
        inbox.put_check(&sha, CheckState::Failed);
        inbox.host.put_checks(inbox.job().await.branch.unwrap().base, vec![check(CheckState::Failed)]);
        inbox.watch(5).await;
        let (before, pulls) = (inbox.host.count(HostCall::Checks), inbox.host.count(HostCall::Pulls));
        inbox.watch(25 * 60).await;
        let requests = inbox.host.count(HostCall::Checks) - before;
        assert!((24..=40).contains(&requests), "{name}: {requests} requests in a day");
        assert_eq!(inbox.host.count(HostCall::Pulls), pulls, "{name}");
        let before = inbox.host.count(HostCall::Checks);
        inbox.watch(24 * 60).await;
        assert_eq!(inbox.host.count(HostCall::Checks), before, "{name}");
    }
}

fn check(state: CheckState) -> Check {
    Check::new("test", state)
}

#[tokio::test]
async fn a_status_that_had_no_place_is_set_when_there_is_one() {
    for inbox in InboxFixture::all_with(|project| project.settings.checks.only = vec!["test".to_owned()]).await {
        let (name, sha) = (inbox.name(), inbox.pushed().await);
        let note = Check::new(OWN_STATUS, CheckState::Ignored);
        inbox.host.put_checks(sha.clone(), vec![note]);
        inbox.watch(3).await;
        let before = inbox.host.statuses(&sha).len();
        // The pipeline of the commit begins.
        inbox.host.put_checks(sha.clone(), vec![check(CheckState::Pending)]);
        inbox.watch(10).await;
        let statuses = inbox.host.statuses(&sha);
        assert_eq!(statuses.len(), before + 1, "{name}: once: {statuses:?}");
        assert_eq!(statuses.last().unwrap().state, StatusState::Success, "{name}");
    }
}
