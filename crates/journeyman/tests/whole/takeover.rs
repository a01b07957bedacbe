//! Tests that a run that is taken over continues from its last durable point, one for each step between two such
//! points. The machines share only the store, the blob store and the code host.

use std::time::Duration;

use journeyman_core::job::JobStatus;
use journeyman_core::message::MessageStatus;
use journeyman_core::project::Settings;
use journeyman_testkit::{PATIENCE, until_async};
use journeyman_worker::{Limits, Patience};

use super::crashing::{CrashingMachine, Moment};
use super::fixtures::{Harness, idle};

/// Limits with a lease that is long enough for the heartbeats of a busy machine. Tests end the lease of a crashed machine
/// with [`end_lease`].
const LIMITS: Limits = Limits {
    runs: 2,
    lease: Duration::from_secs(60),
    poll: Duration::from_millis(100),
    patience: Patience { outage: PATIENCE, refusal: PATIENCE },
};

/// Waits until a machine has crashed, and moves the clock to the end of its lease.
async fn end_lease(harness: &Harness, machine: &CrashingMachine) {
    machine.until_crashed().await;
    harness.world.advance(LIMITS.lease);
}

/// Crashes a machine at `moment` of a job's second message, and lets another take over. Checks that the message takes
/// effect once; returns how often the agent was prompted with it.
async fn prompts_when_a_machine_crashes(moment: Moment) -> usize {
    let harness = idle(Settings::default()).await;
    // This machine is switched off after the first message.
    let zero = harness.start_machine("zero", LIMITS);
    let id = harness.create("[[append a|1]]").await;
    harness.settled(id).await;
    zero.abort();
    let prompts = harness.shared_dir().join("prompts");
    let machine = harness.start_crashing_machine("one", moment, LIMITS);
    harness.send(id, &format!("[[run echo x >> {}]] [[append a|2]]", prompts.display())).await;
    end_lease(&harness, &machine).await;
    if moment == Moment::Prompted {
        // The agent of the crashed machine continues.
        until_async("the agent has begun", async || prompts.exists().then_some(())).await;
    }
    harness.start_machine("two", LIMITS);
    let job = harness.settled(id).await;
    check(&harness, job.branch.as_ref().unwrap().name.clone(), id, moment).await;
    std::fs::read_to_string(prompts).unwrap_or_default().lines().count()
}

async fn check(harness: &Harness, branch: String, id: journeyman_core::ids::JobId, moment: Moment) {
    let job = harness.job(id).await;
    assert_eq!(job.status(), JobStatus::Completed, "{moment:?}: {:?}", harness.runs(id).await);
    assert_eq!(harness.file(&branch, "a").await.as_deref(), Some("1\n2\n"), "{moment:?}: the message took effect once");
    let messages = harness.messages(id).await;
    assert!(messages.iter().all(|message| message.status == MessageStatus::Finished), "{moment:?}: {messages:?}");
    let receipts: Vec<String> =
        messages.iter().flat_map(|message| &message.commits).map(|commit| commit.as_str().to_owned()).collect();
    let commits = harness.branch_commits(&branch).await;
    assert_eq!(receipts, commits[1..], "{moment:?}: the receipts agree with the branch");
    assert_eq!(harness.count(id, "pull_request.opened").await, 1, "{moment:?}");
    assert_eq!(harness.pulls().await, 1, "{moment:?}");
    let last = messages.last().unwrap().run.unwrap();
    let attempts = harness.runs(id).await;
    let of_last = attempts.iter().find(|run| run.id == last).unwrap().attempt;
    let expected = if moment == Moment::Finished { 1 } else { 2 };
    assert_eq!(of_last, expected, "{moment:?}: the receipt says which attempt it was: {attempts:?}");
}

#[tokio::test]
async fn a_run_that_was_only_claimed_is_prompted() {
    assert_eq!(prompts_when_a_machine_crashes(Moment::Claimed).await, 1);
}

#[tokio::test]
async fn a_turn_that_was_started_but_not_prompted_is_prompted() {
    // The job's first message: the start of a later turn changes nothing in the store, so it is no such moment.
    let harness = idle(Settings::default()).await;
    let prompts = harness.shared_dir().join("prompts");
    let machine = harness.start_crashing_machine("one", Moment::TurnBegun, LIMITS);
    let id = harness.create(&format!("[[run echo x >> {}]] [[append a|1]]", prompts.display())).await;
    end_lease(&harness, &machine).await;
    harness.start_machine("two", LIMITS);
    let job = harness.settled(id).await;
    assert_eq!(job.status(), JobStatus::Completed);
    assert_eq!(harness.file(&job.branch.unwrap().name, "a").await.as_deref(), Some("1\n"));
    assert_eq!(std::fs::read_to_string(prompts).unwrap(), "x\n");
    assert_eq!(harness.runs(id).await.last().unwrap().attempt, 2);
}

#[tokio::test]
async fn a_turn_under_way_is_prompted_again_from_the_last_commit() {
    assert_eq!(prompts_when_a_machine_crashes(Moment::Prompted).await, 2);
}

#[tokio::test]
async fn a_turn_that_was_collected_but_not_stored_is_prompted_again() {
    assert_eq!(prompts_when_a_machine_crashes(Moment::Collected).await, 2);
}

#[tokio::test]
async fn a_turn_that_has_ended_is_pushed_by_another_machine_and_not_repeated() {
    assert_eq!(prompts_when_a_machine_crashes(Moment::TurnEnded).await, 1);
}

#[tokio::test]
async fn a_published_turn_whose_end_was_not_stored_is_not_repeated() {
    assert_eq!(prompts_when_a_machine_crashes(Moment::Published).await, 1);
}

#[tokio::test]
async fn a_finished_run_is_not_repeated() {
    assert_eq!(prompts_when_a_machine_crashes(Moment::Finished).await, 1);
}

/// Crashes a machine at `moment` of a job's first message, which opens the pull request. Checks that there is one pull
/// request in the end.
async fn check_crash_at_the_pull_request(moment: Moment) {
    let harness = idle(Settings::default()).await;
    let machine = harness.start_crashing_machine("one", moment, LIMITS);
    let id = harness.create("[[append a|1]]").await;
    end_lease(&harness, &machine).await;
    harness.start_machine("two", LIMITS);
    let job = harness.settled(id).await;
    assert_eq!(job.status(), JobStatus::Completed, "{moment:?}");
    assert!(job.pull.is_some(), "{moment:?}");
    assert_eq!(harness.pulls().await, 1, "{moment:?}");
    assert_eq!(harness.file(&job.branch.unwrap().name, "a").await.as_deref(), Some("1\n"), "{moment:?}");
}

#[tokio::test]
async fn a_branch_that_was_pushed_without_a_pull_request_gets_one() {
    check_crash_at_the_pull_request(Moment::Pushed).await;
}

#[tokio::test]
async fn a_pull_request_that_was_opened_but_not_stored_is_found() {
    check_crash_at_the_pull_request(Moment::Opened).await;
}

#[tokio::test]
async fn a_machine_that_missed_a_turn_without_changes_gets_the_session() {
    let harness = idle(Settings::default()).await;
    let zero = harness.start_machine("zero", LIMITS);
    let id = harness.create("[[write a|1]]").await;
    harness.settled(id).await;
    zero.abort();
    let two = harness.start_machine("two", LIMITS);
    harness.send(id, "[[say the word is xyzzy]]").await;
    harness.settled(id).await;
    two.abort();
    harness.start_machine("zero", LIMITS);
    harness.send(id, "[[append a|2]]").await;
    let session = harness.settled(id).await.session.unwrap();
    let file = harness.dir.path().join(format!("zero/workspaces/{id}/home/sessions/{session}.json"));
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains("xyzzy") && text.contains("[[append a|2]]"), "{text}");
}
