//! Turns that the agent has ended, and whose work is not recorded yet.

use std::time::Duration;

use journeyman_core::job::command::{NextAttempt, Outcome, Report};
use journeyman_core::job::turn::{Ending, TurnArtifacts, TurnBegun};
use journeyman_core::job::{Job, Progress};
use journeyman_core::message::MessageStatus;
use journeyman_core::run::{Reason, ReasonCode, Usage};

use super::fixtures::{Case, LEASE, msg, running, sha};

fn begin(case: Case) -> Case {
    let (base, head) = (sha('0'), sha('0'));
    case.report(Report::TurnBegun(TurnBegun {
        branch: "b".into(),
        generation: 1,
        base,
        head,
        pushed: None,
        default_branch: None,
        repository: None,
    }))
}

/// Returns a job whose agent has answered the message.
fn answered() -> Case {
    let usage = Usage { input_tokens: 7, ..Usage::default() };
    begin(running()).report(Report::Answered { answer: Some("done".into()), usage })
}

/// Lets a run wait for the storage.
fn wait(case: Case) -> Case {
    let reason = Reason::new(ReasonCode::StorageUnavailable, "away");
    let outcome = Outcome::Waiting {
        reason,
        since: case.now,
        patience: Duration::from_secs(3600),
        next: NextAttempt::Backoff(0),
    };
    case.report(Report::Finished { outcome, usage: Usage::default() })
}

fn answer(job: &Job) -> Option<&str> {
    job.in_flight().and_then(|in_flight| in_flight.answer.as_deref())
}

fn ended() -> Report {
    Report::TurnEnded {
        head: sha('a'),
        commits: vec![sha('a')],
        artifacts: TurnArtifacts { bundle: Some("bundle".into()), ..TurnArtifacts::default() },
        ending: Ending::Done,
    }
}

#[test]
fn a_turn_that_the_agent_has_ended_stays_so_until_its_work_is_recorded() {
    let case = answered();
    assert!(case.job.has_unrecorded_work() && answer(&case.job) == Some("done"));
    let worker = case.job.lease().map(|lease| lease.worker);
    let case = wait(case);
    assert!(case.job.has_unrecorded_work() && case.job.waiting().is_some());
    assert_eq!((case.job.prefers(), case.job.avoids()), (worker, None), "only this worker has the work");
    let case = case.after(Duration::from_secs(1)).claim();
    assert!(case.job.has_unrecorded_work(), "the next run continues");
    let case = case.report(ended());
    assert!(!case.job.has_unrecorded_work());
    assert!(matches!(case.job.in_flight().map(|now| &now.progress), Some(Progress::Publishing { .. })));
    assert_eq!(answer(&case.job), Some("done"));
}

#[test]
fn a_lost_worker_loses_no_usage_and_no_answer_and_is_preferred() {
    let case = answered();
    let worker = case.job.lease().map(|lease| lease.worker);
    let case = case.after(LEASE);
    assert_eq!(case.job.prefers(), worker);
    let case = case.claim();
    assert!(case.job.has_unrecorded_work());
    let used = case.last.rows.iter().any(|row| format!("{row:?}").contains("input_tokens: 7"));
    assert!(used, "the lost run has the usage of the turn: {:?}", case.last.rows);
}

#[test]
fn a_turn_that_begins_again_forgets_the_lost_one() {
    let case = begin(wait(answered()).after(Duration::from_secs(1)).claim());
    assert!(!case.job.has_unrecorded_work() && answer(&case.job).is_none());
}

#[test]
fn an_interrupt_does_not_end_a_turn_that_the_agent_has_ended() {
    for case in [answered(), wait(answered())] {
        let case = case.interrupt(2);
        assert!(case.job.in_flight().is_some_and(|now| now.message == msg(1) && !now.stop));
        assert_eq!(case.job.queue, [msg(2)]);
    }
    // The interrupt came while the agent was ending its turn.
    let case = begin(running()).interrupt(2).report(Report::Answered { answer: None, usage: Usage::default() });
    let case = wait(case);
    assert!(case.job.in_flight().is_some_and(|now| now.message == msg(1)), "the message waits");
}

#[test]
fn a_cancelled_message_keeps_the_answer() {
    let case = wait(answered()).then(&journeyman_core::job::command::Command::Cancel);
    let row = format!("{:?}", case.last.rows);
    assert!(row.contains(&format!("{:?}", MessageStatus::Cancelled)) && row.contains("done"), "{row}");
}

#[test]
fn the_end_of_a_turn_that_is_reported_twice_is_recorded_once() {
    let case = answered().report(ended());
    let before = case.job.clone();
    let case = case.report(ended());
    assert_eq!(case.job, before);
    assert_eq!((case.last.log.len(), case.last.rows.len()), (0, 0));
}

#[test]
fn a_job_of_an_earlier_version_has_no_unrecorded_work() {
    let case = begin(running());
    let text = serde_json::to_string(&case.job).unwrap();
    assert!(!text.contains("answered"), "earlier versions store the same: {text}");
    assert_eq!(serde_json::from_str::<Job>(&text).unwrap(), case.job);
}
