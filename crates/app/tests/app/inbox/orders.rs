//! A property of the inbox: whatever the order in which a code host delivers events, however often, and whenever
//! processes die, the same comments reach the job, each once, in their newest version.

mod plan;

use std::collections::BTreeMap;
use std::time::Duration;

use journeyman_core::code_host::PullState;
use journeyman_core::conversation::CommentTarget;
use journeyman_core::message::MessageStatus;
use journeyman_core::outbox::TASK_LEASE;
use journeyman_testkit::Written;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use self::plan::{Event, Plan, Step, Subject, plans, token};
use super::fixtures::{InboxFixture, PULL};

/// The number of plans for each property.
const CASES: u32 = 64;

/// The result of a plan.
#[derive(Debug, PartialEq, Eq)]
struct Results {
    /// The number of times that each version of a comment is in a message.
    tokens: BTreeMap<String, usize>,
    jobs: usize,
    is_merged: bool,
}

/// Delivers the events of a plan, with other steps between them, and then carries out everything.
async fn run(plan: &Plan, steps: &[Step], is_working: bool) -> (InboxFixture, Results) {
    let inbox = InboxFixture::crashing().await;
    plan.prepare(&inbox.host);
    for (delivery, step) in steps.iter().enumerate() {
        match step {
            Step::Deliver(event) => inbox.deliver_by(&inbox.maria(), plan.content(*event, &inbox.host)).await,
            Step::Redeliver(event) => {
                let first = inbox.deliver_as(&format!("again-{delivery}"), plan.content(*event, &inbox.host)).await;
                let second = inbox.deliver_as(&format!("again-{delivery}"), plan.content(*event, &inbox.host)).await;
                assert_ne!(first, second);
            }
            Step::Wait(seconds) => inbox.wait(Duration::from_secs(*seconds)).await,
            Step::Die => inbox.die_after_a_claim().await,
            Step::Crash(polls) => inbox.crash(*polls).await,
            Step::Work if is_working => drop(inbox.work().await),
            Step::Work => {}
        }
    }
    // The longest lease, several times: a process may have died in each step.
    for _ in 0..6 {
        inbox.wait(TASK_LEASE).await;
        if is_working {
            inbox.work().await;
        }
    }
    while is_working && inbox.work().await {}
    inbox.wait(TASK_LEASE).await;
    let results = results(&inbox, plan).await;
    (inbox, results)
}

async fn results(inbox: &InboxFixture, plan: &Plan) -> Results {
    for event in inbox.events().await {
        assert!(event.outcome.is_some(), "an event is open: {event:#?}");
    }
    let all = inbox.prompts().await.join("\n");
    let tokens = plan.tokens().map(|token| (token.clone(), all.matches(&token).count())).collect();
    let is_merged = inbox.job().await.pull.unwrap().state == PullState::Merged;
    Results { tokens, jobs: inbox.jobs().await.len(), is_merged }
}

/// Runs a property for random plans: always the same ones, unless `PROPTEST_CASES` asks for a number of new ones.
fn check(property: impl AsyncFn(&Plan, &[Step])) {
    #[expect(clippy::disallowed_methods, reason = "the parameter of the test")]
    let asked = std::env::var("PROPTEST_CASES").ok().map(|cases| cases.parse().unwrap());
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(asked.unwrap_or(CASES)) };
    let mut runner = match asked {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
    };
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let test = |(plan, steps): (Plan, Vec<Step>)| {
        runtime().block_on(property(&plan, &steps));
        Ok(())
    };
    runner.run(&plans(), test).unwrap();
}

#[test]
fn events_in_any_order_lead_to_the_same_messages_as_in_order() {
    check(async |plan, steps| {
        let (_, results) = run(plan, steps, false).await;
        let in_order: Vec<Step> = plan.events().map(Step::Deliver).collect();
        let (_, expected) = run(plan, &in_order, false).await;
        assert_eq!(results, expected);
        assert_eq!(expected.tokens, plan.newest(), "in order, each comment is there in its newest version");
        let issues = plan.subjects.iter().filter(|subject| matches!(subject, Subject::Issue)).count();
        assert_eq!(expected.jobs, 1 + issues);
        assert_eq!(expected.is_merged, plan.subjects.contains(&Subject::Merge));
    });
}

#[test]
fn each_comment_reaches_an_agent_that_works_meanwhile_once_and_each_message_is_answered_once() {
    check(async |plan, steps| {
        let (inbox, results) = run(plan, steps, true).await;
        for (index, subject) in plan.subjects.iter().enumerate() {
            let count: usize =
                (0..plan::VERSIONS).map(|version| results.tokens.get(&token(index, version)).unwrap_or(&0)).sum();
            let newest: usize = plan
                .newest()
                .iter()
                .filter(|(known, _)| known.starts_with(&plan::stem(index)))
                .map(|(_, count)| count)
                .sum();
            match subject {
                // The agent may have got it before it was deleted, or before its mention was removed.
                Subject::Comment { .. } if newest == 0 => assert!(count <= 1, "{index}: {results:#?}"),
                _ => assert_eq!(count, newest, "{index}: {results:#?}"),
            }
        }
        let finished = inbox.messages().await.into_iter().filter(|message| message.status == MessageStatus::Finished);
        let is_answer = |one: &Written| one.target == CommentTarget::Pull(PULL) && one.marker.contains(":answer:");
        let answers: Vec<Written> = inbox.host.written().into_iter().filter(is_answer).collect();
        let done = answers.iter().filter(|answer| answer.text.starts_with('✅'));
        assert_eq!(done.count(), finished.count());
        let is_open = |answer: &Written| answer.text.starts_with('⏳') || answer.text.starts_with('⚙');
        assert!(!answers.iter().any(is_open), "nothing says for ever that the agent works: {answers:#?}");
    });
}

#[test]
fn a_plan_names_the_event_of_each_version() {
    let subject = Subject::Comment { mentions: vec![true, false], is_deleted: true, may_push: true };
    let plan = Plan { subjects: vec![subject] };
    let events: Vec<Event> = plan.events().collect();
    assert_eq!(events.len(), 3);
    assert_eq!(plan.newest()[&token(0, 1)], 0, "it is deleted");
}
