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
    for desk in InboxFixture::all_with(repairs).await {
        let (name, sha) = (desk.name(), desk.pushed().await);
        desk.watch(15).await;
        assert_eq!(desk.result().await, Some(CheckResult::None), "{name}");
        desk.put_check(&sha, CheckState::Pending);
        desk.watch(20).await;
        assert_eq!(desk.repairs().await, 0, "{name}");
        desk.put_check(&sha, CheckState::Failed);
        desk.watch(20).await;
        assert_eq!((desk.result().await, desk.repairs().await), (Some(CheckResult::Failed), 1), "{name}");
    }
}

#[tokio::test]
async fn checks_that_a_person_repeats_are_read_again() {
    for desk in InboxFixture::all_with(repairs).await {
        let (name, sha) = (desk.name(), desk.pushed().await);
        desk.put_check(&sha, CheckState::Failed);
        desk.host.put_checks(desk.job().await.branch.unwrap().base, vec![check(CheckState::Failed)]);
        desk.watch(5).await;
        assert_eq!(desk.job().await.checks.unwrap().stop, Some(CheckStop::FailsOnBase), "{name}");
        desk.put_check(&sha, CheckState::Passed);
        desk.watch(60).await;
        let checks = desk.job().await.checks.unwrap();
        assert_eq!((checks.result, checks.stop, desk.repairs().await), (CheckResult::Passed, None, 0), "{name}");
    }
}

#[tokio::test]
async fn flaky_checks_are_told_and_not_repaired() {
    for desk in InboxFixture::all_with(repairs).await {
        let (name, sha) = (desk.name(), desk.pushed().await);
        desk.put_check(&sha, CheckState::Passed);
        desk.watch(5).await;
        desk.put_check(&sha, CheckState::Pending);
        desk.watch(5).await;
        desk.put_check(&sha, CheckState::Failed);
        desk.watch(60).await;
        let checks = desk.job().await.checks.unwrap();
        assert_eq!((checks.result, checks.stop), (CheckResult::Failed, Some(CheckStop::Flaky)), "{name}");
        assert_eq!(desk.repairs().await, 0, "{name}");
        let written = desk.host.written();
        let line = "- `test` failed, after another result on the same commit";
        assert!(written.iter().any(|comment| comment.text.contains(line)), "{name}: {written:?}");
    }
}

#[tokio::test]
async fn a_check_that_waits_for_a_person_is_no_failure_and_has_not_passed() {
    for desk in InboxFixture::all_with(repairs).await {
        let (name, sha) = (desk.name(), desk.pushed().await);
        desk.put_check(&sha, CheckState::Waiting);
        desk.watch(60).await;
        assert_eq!((desk.result().await, desk.repairs().await), (None, 0), "{name}");
        desk.put_check(&sha, CheckState::Passed);
        desk.watch(60).await;
        assert_eq!(desk.result().await, Some(CheckResult::Passed), "{name}");
    }
}

#[tokio::test]
async fn reports_of_failed_checks_are_passed_on_as_logs_are() {
    for desk in InboxFixture::all_with(repairs).await {
        let (name, sha) = (desk.name(), desk.pushed().await);
        let failed = Check {
            log: Some("1".to_owned()),
            report: Some("check-run/1".to_owned()),
            ..Check::new("lint", CheckState::Failed)
        };
        desk.host.put_checks(sha, vec![failed]);
        desk.watch(20).await;
        let messages = desk.messages().await;
        let repair = messages.iter().find(|message| message.origin == Origin::Check).unwrap();
        let logs: Vec<_> = repair.source.as_ref().unwrap().logs.iter().map(|log| (&*log.name, &*log.log)).collect();
        assert_eq!(logs, [("lint", "1"), ("lint report", "check-run/1")], "{name}");
    }
}

#[tokio::test]
async fn a_known_result_costs_one_request_a_look_and_none_after_a_day() {
    for desk in InboxFixture::all_with(repairs).await {
        let (name, sha) = (desk.name(), desk.pushed().await);
        desk.put_check(&sha, CheckState::Failed);
        desk.host.put_checks(desk.job().await.branch.unwrap().base, vec![check(CheckState::Failed)]);
        desk.watch(5).await;
        let (before, pulls) = (desk.host.count(HostCall::Checks), desk.host.count(HostCall::Pulls));
        desk.watch(25 * 60).await;
        let requests = desk.host.count(HostCall::Checks) - before;
        assert!((24..=40).contains(&requests), "{name}: {requests} requests in a day");
        assert_eq!(desk.host.count(HostCall::Pulls), pulls, "{name}");
        let before = desk.host.count(HostCall::Checks);
        desk.watch(24 * 60).await;
        assert_eq!(desk.host.count(HostCall::Checks), before, "{name}");
    }
}

fn check(state: CheckState) -> Check {
    Check::new("test", state)
}

#[tokio::test]
async fn a_status_that_had_no_place_is_set_when_there_is_one() {
    for desk in InboxFixture::all_with(|project| project.settings.checks.only = vec!["test".to_owned()]).await {
        let (name, sha) = (desk.name(), desk.pushed().await);
        let note = Check::new(OWN_STATUS, CheckState::Ignored);
        desk.host.put_checks(sha.clone(), vec![note]);
        desk.watch(3).await;
        let before = desk.host.statuses(&sha).len();
        // The pipeline of the commit begins.
        desk.host.put_checks(sha.clone(), vec![check(CheckState::Pending)]);
        desk.watch(10).await;
        let statuses = desk.host.statuses(&sha);
        assert_eq!(statuses.len(), before + 1, "{name}: once: {statuses:?}");
        assert_eq!(statuses.last().unwrap().state, StatusState::Success, "{name}");
    }
}
