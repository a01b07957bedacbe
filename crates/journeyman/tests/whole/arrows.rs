//! A run that is taken over goes on from its last durable point, on a machine that has nothing but the store, the blob
//! store and the code host: one test for each arrow.

use std::time::Duration;

use journeyman_core::job::JobStatus;
use journeyman_core::message::MessageStatus;
use journeyman_core::project::Settings;
use journeyman_worker::{Limits, Patience};

use super::dying::Moment;
use super::given::{House, idle};

/// Long enough for a busy machine's heartbeats.
const LIMITS: Limits = Limits {
    runs: 2,
    lease: Duration::from_millis(1500),
    poll: Duration::from_millis(100),
    patience: Patience { outage: Duration::from_secs(60), refusal: Duration::from_secs(60) },
};

/// The first machine dies at `moment` of the job's second message, another takes over; how often the agent was prompted
/// with it, and that its effect is there once.
async fn prompts_when_a_machine_dies(moment: Moment) -> usize {
    let house = idle(Settings::default()).await;
    // A machine that is switched off when it has done the first message.
    let zero = house.hire_machine("zero", LIMITS);
    let id = house.create("[[append a|1]]").await;
    house.settled(id).await;
    zero.abort();
    let prompts = house.window().join("prompts");
    let dying = house.hire_dying("one", moment, LIMITS);
    house.send(id, &format!("[[run echo x >> {}]] [[append a|2]]", prompts.display())).await;
    dying.until_dead().await;
    house.hire_machine("two", LIMITS);
    let job = house.settled(id).await;
    check(&house, job.branch.as_ref().unwrap().name.clone(), id, moment).await;
    std::fs::read_to_string(prompts).unwrap_or_default().lines().count()
}

async fn check(house: &House, branch: String, id: journeyman_core::ids::JobId, moment: Moment) {
    let job = house.job(id).await;
    assert_eq!(job.status(), JobStatus::Completed, "{moment:?}: {:?}", house.runs(id).await);
    assert_eq!(house.file(&branch, "a").await.as_deref(), Some("1\n2\n"), "{moment:?}: once in effect");
    let messages = house.messages(id).await;
    assert!(messages.iter().all(|message| message.status == MessageStatus::Finished), "{moment:?}: {messages:?}");
    let receipts: Vec<String> =
        messages.iter().flat_map(|message| &message.commits).map(|commit| commit.as_str().to_owned()).collect();
    let commits = house.branch_commits(&branch).await;
    assert_eq!(receipts, commits[1..], "{moment:?}: the receipts agree with the branch");
    assert_eq!(house.count(id, "pull_request.opened").await, 1, "{moment:?}");
    assert_eq!(house.pulls().await, 1, "{moment:?}");
    let last = messages.last().unwrap().run.unwrap();
    let attempts = house.runs(id).await;
    let of_last = attempts.iter().find(|run| run.id == last).unwrap().attempt;
    let expected = if moment == Moment::Finished { 1 } else { 2 };
    assert_eq!(of_last, expected, "{moment:?}: the receipt says which attempt it was: {attempts:?}");
}

#[tokio::test]
async fn an_agent_that_was_not_started_is_started() {
    assert_eq!(prompts_when_a_machine_dies(Moment::Claimed).await, 1);
}

#[tokio::test]
async fn a_turn_that_was_begun_and_not_prompted_is_prompted() {
    // The job's first: the beginning of another says nothing new.
    let house = idle(Settings::default()).await;
    let prompts = house.window().join("prompts");
    let dying = house.hire_dying("one", Moment::TurnBegun, LIMITS);
    let id = house.create(&format!("[[run echo x >> {}]] [[append a|1]]", prompts.display())).await;
    dying.until_dead().await;
    house.hire_machine("two", LIMITS);
    let job = house.settled(id).await;
    assert_eq!(job.status(), JobStatus::Completed);
    assert_eq!(house.file(&job.branch.unwrap().name, "a").await.as_deref(), Some("1\n"));
    assert_eq!(std::fs::read_to_string(prompts).unwrap(), "x\n");
    assert_eq!(house.runs(id).await.last().unwrap().attempt, 2);
}

#[tokio::test]
async fn a_turn_under_way_is_prompted_again_from_the_last_commit() {
    assert_eq!(prompts_when_a_machine_dies(Moment::Prompted).await, 2);
}

#[tokio::test]
async fn a_turn_that_was_collected_and_not_noted_is_prompted_again() {
    assert_eq!(prompts_when_a_machine_dies(Moment::Collected).await, 2);
}

#[tokio::test]
async fn a_turn_that_has_ended_is_pushed_by_another_machine_and_not_repeated() {
    assert_eq!(prompts_when_a_machine_dies(Moment::TurnEnded).await, 1);
}

#[tokio::test]
async fn what_was_pushed_gets_its_pull_request() {
    assert_eq!(prompts_when_a_machine_dies(Moment::Published).await, 1);
}

#[tokio::test]
async fn what_was_finished_is_not_done_again() {
    assert_eq!(prompts_when_a_machine_dies(Moment::Finished).await, 1);
}

/// The pull request belongs to the first message: the machine dies over that.
async fn dies_at_the_pull_request(moment: Moment) {
    let house = idle(Settings::default()).await;
    let dying = house.hire_dying("one", moment, LIMITS);
    let id = house.create("[[append a|1]]").await;
    dying.until_dead().await;
    house.hire_machine("two", LIMITS);
    let job = house.settled(id).await;
    assert_eq!(job.status(), JobStatus::Completed, "{moment:?}");
    assert!(job.pull.is_some(), "{moment:?}");
    assert_eq!(house.pulls().await, 1, "{moment:?}");
    assert_eq!(house.file(&job.branch.unwrap().name, "a").await.as_deref(), Some("1\n"), "{moment:?}");
}

#[tokio::test]
async fn a_branch_that_was_pushed_without_a_pull_request_gets_one() {
    dies_at_the_pull_request(Moment::Pushed).await;
}

#[tokio::test]
async fn a_pull_request_that_was_opened_and_not_noted_is_found() {
    dies_at_the_pull_request(Moment::Opened).await;
}

#[tokio::test]
async fn a_machine_that_missed_a_turn_without_changes_takes_the_session_from_the_one_that_had_it() {
    let house = idle(Settings::default()).await;
    let zero = house.hire_machine("zero", LIMITS);
    let id = house.create("[[write a|1]]").await;
    house.settled(id).await;
    zero.abort();
    let two = house.hire_machine("two", LIMITS);
    house.send(id, "[[say the word is xyzzy]]").await;
    house.settled(id).await;
    two.abort();
    house.hire_machine("zero", LIMITS);
    house.send(id, "[[append a|2]]").await;
    let session = house.settled(id).await.session.unwrap();
    let file = house.dir.path().join(format!("zero/workspaces/{id}/home/sessions/{session}.json"));
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains("xyzzy") && text.contains("[[append a|2]]"), "{text}");
}
