//! Generated plans, which must give the same answers and the same rows in every store.

use std::time::Duration;

use journeyman_core::engine::{Admission, Prompt};
use journeyman_core::ids::JobId;
use journeyman_core::job::Token;
use journeyman_core::job::command::{Outcome, Published, Report};
use journeyman_core::job::turn::{Ending, TurnArtifacts, TurnBegun};
use journeyman_core::message::DeliveryMode;
use journeyman_core::ports::WorkStore;
use journeyman_core::run::{Reason, ReasonCode, Usage};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use uuid::Uuid;

use super::fixtures::{Fixture, all_for_work, keyed, new_job, project, prompt, shop, worker};

const LEASE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
enum Step {
    Create { key: Option<u8> },
    Send { job: usize, delivery: DeliveryMode, key: Option<u8> },
    Withdraw { job: usize, message: usize },
    Cancel(usize),
    Archive(usize),
    Unarchive(usize),
    Claim,
    Turn { claim: usize, publish: bool },
    Fail { claim: usize, retry: bool },
    HandBack(usize),
    Pass(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let job = 0usize..4;
    let key = proptest::option::weighted(0.3, 0u8..3);
    let delivery = prop_oneof![Just(DeliveryMode::Queue), Just(DeliveryMode::Interrupt), Just(DeliveryMode::Reject)];
    prop_oneof![
        2 => key.clone().prop_map(|key| Step::Create { key }),
        6 => (job.clone(), delivery, key).prop_map(|(job, delivery, key)| Step::Send { job, delivery, key }),
        1 => (job.clone(), 0usize..4).prop_map(|(job, message)| Step::Withdraw { job, message }),
        1 => job.clone().prop_map(Step::Cancel),
        1 => job.clone().prop_map(Step::Archive),
        1 => job.prop_map(Step::Unarchive),
        6 => Just(Step::Claim),
        5 => (0usize..4, any::<bool>()).prop_map(|(claim, publish)| Step::Turn { claim, publish }),
        2 => (0usize..4, any::<bool>()).prop_map(|(claim, retry)| Step::Fail { claim, retry }),
        1 => (0usize..4).prop_map(Step::HandBack),
        2 => (1u16..50).prop_map(Step::Pass),
    ]
}

/// Runs a plan, and returns all answers and all resulting rows as text.
async fn run_plan(fixture: &Fixture<dyn WorkStore>, plan: &[Step]) -> Vec<String> {
    let mut seen = Vec::new();
    let (mut jobs, mut claims): (Vec<JobId>, Vec<(JobId, Token)>) = (Vec::new(), Vec::new());
    let admit = |key: Option<u8>, body: &str| match key {
        Some(key) => keyed(&key.to_string(), body),
        None => Admission { idempotency: None, limit: 12 },
    };
    for step in plan {
        // Counts from the newest claim, because older claims are more likely to be stale.
        let claim = |number: usize| claims.iter().rev().nth(number).copied();
        let job = |number: usize| jobs.get(number).copied().unwrap_or(JobId::from_uuid(Uuid::nil()));
        let outcome = match step {
            Step::Create { key } => {
                let made = fixture.engine.create_job(&project("shop"), new_job("a"), admit(*key, "create")).await;
                if let Ok(made) = &made
                    && !made.replayed
                {
                    jobs.push(made.record.id);
                }
                format!(
                    "{:?}",
                    made.map(|made| (serde_json::to_string(&made.record).unwrap(), made.replayed, made.rate))
                )
            }
            Step::Send { job: number, delivery, key } => {
                let prompt = Prompt { delivery: *delivery, ..prompt("b") };
                let sent = fixture.engine.add_message(&shop(), job(*number), prompt, admit(*key, "send")).await;
                format!(
                    "{:?}",
                    sent.map(|sent| (serde_json::to_string(&sent.record).unwrap(), sent.replayed, sent.rate))
                )
            }
            Step::Withdraw { job: number, message } => {
                let messages = fixture.store.messages(job(*number)).await.unwrap();
                match messages.get(*message) {
                    Some(message) => format!("{:?}", fixture.engine.withdraw(&shop(), job(*number), message.id).await),
                    None => "no such message".to_owned(),
                }
            }
            Step::Cancel(number) => format!("{:?}", fixture.engine.cancel(&shop(), job(*number)).await),
            Step::Archive(number) => format!("{:?}", fixture.engine.archive(&shop(), job(*number)).await),
            Step::Unarchive(number) => format!("{:?}", fixture.engine.unarchive(&shop(), job(*number)).await),
            Step::Claim => {
                let claimed = fixture.engine.claim(worker(1), LEASE).await.unwrap();
                claims.extend(claimed.as_ref().map(|claimed| (claimed.job.id, claimed.lease.token)));
                format!("{claimed:?}")
            }
            Step::Turn { claim: number, publish } => match claim(*number) {
                Some((job, token)) => format!("{:?}", turn(fixture, job, token, *publish).await),
                None => "no claim".to_owned(),
            },
            Step::Fail { claim: number, retry } => match claim(*number) {
                Some((job, token)) => {
                    let reason = Reason::new(ReasonCode::AgentExited, "it died");
                    let outcome = Outcome::Failed { reason, retry: retry.then_some(500) };
                    let report = Report::Finished { outcome, usage: Usage::default() };
                    format!("{:?}", fixture.engine.report(job, token, report).await)
                }
                None => "no claim".to_owned(),
            },
            Step::HandBack(number) => match claim(*number) {
                Some((job, token)) => {
                    let report = Report::Finished { outcome: Outcome::HandedBack, usage: Usage::default() };
                    format!("{:?}", fixture.engine.report(job, token, report).await)
                }
                None => "no claim".to_owned(),
            },
            Step::Pass(seconds) => {
                fixture.world.advance(Duration::from_secs(u64::from(*seconds)));
                "time passed".to_owned()
            }
        };
        seen.push(format!("{step:?}: {outcome}"));
    }
    for job in jobs {
        seen.push(format!("{:?}", fixture.store.job(job).await.unwrap()));
        seen.push(format!("{:?}", fixture.store.messages(job).await.unwrap()));
        seen.push(format!("{:?}", fixture.store.runs(job).await.unwrap()));
        seen.push(format!("{:?}", fixture.store.log(job, 0, 10_000).await.unwrap()));
    }
    seen
}

async fn turn(fixture: &Fixture<dyn WorkStore>, job: JobId, token: Token, publish: bool) -> Vec<String> {
    let commit = |digit: &str| digit.repeat(40).parse().unwrap();
    let branch = "journeyman/x".to_owned();
    let begun = TurnBegun {
        branch,
        generation: 1,
        base: commit("a"),
        head: commit("a"),
        pushed: None,
        default_branch: None,
        repository: None,
    };
    let ended = Report::TurnEnded {
        head: commit("b"),
        commits: vec![commit("b")],
        artifacts: TurnArtifacts::default(),
        ending: Ending::Done,
    };
    let outcome = Outcome::Published { pushed: Some(commit("b")), pull: Published::Nothing };
    let mut reports = vec![Report::TurnBegun(begun), ended];
    if publish {
        reports.push(Report::Finished { outcome, usage: Usage::default() });
    }
    let mut seen = Vec::new();
    for report in reports {
        seen.push(format!("{:?}", fixture.engine.report(job, token, report).await));
    }
    seen
}

#[test]
fn every_store_gives_the_same_results_for_a_plan() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let config = ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() };
    let plans = proptest::collection::vec(step(), 1..60);
    TestRunner::new(config)
        .run(&plans, |plan| {
            let fixtures = runtime.block_on(all_for_work());
            let seen: Vec<_> = fixtures.iter().map(|fixture| runtime.block_on(run_plan(fixture, &plan))).collect();
            for (fixture, other) in fixtures.iter().zip(&seen).skip(1) {
                prop_assert_eq!(&seen[0], other, "memory and {} differ", fixture.name);
            }
            Ok(())
        })
        .unwrap();
}
