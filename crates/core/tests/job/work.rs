//! Claims and reports of workers, and their effects.

use std::time::Duration;

use journeyman_core::diff_stat::{CommitDiff, DiffStat, MessageDiff, TurnDiff};
use journeyman_core::ids::{RunId, Sha, WorkerId};
use journeyman_core::job::change::{Row, step};
use journeyman_core::job::command::{Claim, Command, Outcome, Published, Report};
use journeyman_core::job::decide::Rejected;
use journeyman_core::job::event::{TranscriptEntry, TranscriptKind};
use journeyman_core::job::turn::{Ending, TurnArtifacts, TurnBegun};
use journeyman_core::job::{JobState, JobStatus, Progress, Token};
use journeyman_core::message::MessageStatus;
use journeyman_core::retry::{MAX_FAILURES, MAX_LOSSES, takeover_delay};
use journeyman_core::run::{Reason, ReasonCode, RunStatus, Usage};
use journeyman_core::time::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::fixtures::{Case, LEASE, claim, completed, created, msg, running, sha};

/// Returns the messages that ended with the last command, and their final statuses.
fn ended(case: &Case) -> Vec<(u128, MessageStatus)> {
    let end = |row: &Row| match row {
        Row::MessageEnded { id, status, .. } => Some((id.uuid().as_u128(), *status)),
        _ => None,
    };
    case.last.rows.iter().filter_map(end).collect()
}

fn delivered(case: &Case) -> Option<u128> {
    case.job.in_flight().map(|message| message.message.uuid().as_u128())
}

#[test]
fn a_complete_run_is_in_the_log() {
    let case = completed();
    let expected = [
        "job.created",
        "message.accepted",
        "run.started",
        "commit.pushed",
        "pull_request.opened",
        "run.finished",
        "message.finished",
        "job.completed",
    ];
    assert_eq!(case.kinds, expected);
    assert_eq!(ended(&case), [(1, MessageStatus::Finished)]);
}

#[test]
fn a_turn_that_was_cut_short_publishes_its_work_and_fails() {
    let reason = Reason::new(ReasonCode::TurnCutShort, "the model reached its limit");
    let case = running().send(2).turn('a', Ending::CutShort(reason.clone()));
    // The worker that published a rebased commit reports the same end again, and another worker may take over.
    let ending = case.job.in_flight().unwrap().progress.ending().unwrap();
    assert_eq!(ending, Ending::CutShort(reason.clone()));
    let case = case.turn('b', ending).publish('b');
    assert_eq!(ended(&case), [(1, MessageStatus::Failed)]);
    let row = case.last.rows.iter().find_map(|row| match row {
        Row::RunEnded { status, reason, commits, .. } => Some((*status, reason.clone(), commits.clone())),
        _ => None,
    });
    assert_eq!(row, Some((RunStatus::Failed, Some(reason.clone()), vec![sha('b')])));
    assert_eq!(delivered(&case.claim()), Some(2), "the next message is not dropped");
    let alone = running().turn('a', Ending::CutShort(reason.clone())).publish('a');
    assert_eq!(alone.job.state, JobState::Failed(reason));
}

/// A recorded model call.
fn call(input: u64, cost_micros: Option<u64>) -> TranscriptEntry {
    let data = json!({"inputTokens": input, "cachedTokens": 1, "outputTokens": 2, "costMicros": cost_micros});
    TranscriptEntry { kind: TranscriptKind::ModelCalled, data, at: Timestamp::default() }
}

#[test]
fn a_run_that_ends_without_a_report_has_the_usage_of_its_recorded_calls() {
    let calls = Report::Transcript(vec![call(10, Some(5)), call(20, Some(7))]);
    let recorded =
        Usage { input_tokens: 30, cached_tokens: 2, output_tokens: 4, cost_micros: Some(12), estimated_micros: 0 };
    let usage = |case: &Case| {
        let end = |row: &Row| match row {
            Row::RunEnded { usage, .. } => Some(*usage),
            _ => None,
        };
        case.last.rows.iter().find_map(end)
    };
    let running = || running().report(calls.clone());
    assert_eq!(usage(&running().then(&Command::Cancel)), Some(recorded), "cancelled");
    assert_eq!(usage(&running().then(&Command::Archive)), Some(recorded), "archived");
    assert_eq!(usage(&running().after(LEASE).claim()), Some(recorded), "lost");
    assert_eq!(usage(&running().fail(None)), Some(recorded), "failed without reported usage");
    let taken_over = running().after(LEASE).claim();
    assert_eq!(usage(&taken_over.then(&Command::Cancel)), Some(Usage::default()), "another run starts from zero");
}

#[test]
fn a_call_that_ended_after_its_run_is_added_to_that_run() {
    let case = running();
    let run = case.job.lease().map(|lease| lease.run).expect("a lease");
    let said = TranscriptEntry { kind: TranscriptKind::Message, ..call(1, None) };
    let late = Command::RecordLateCalls { run, calls: vec![call(10, Some(5)), said] };

    let cost =
        Usage { input_tokens: 10, cached_tokens: 1, output_tokens: 2, cost_micros: Some(5), estimated_micros: 0 };
    let used = Row::RunUsed { id: run, usage: cost };
    let cancelled = case.then(&Command::Cancel).then(&late);
    assert_eq!((&cancelled.last.rows, cancelled.last.log.len()), (&vec![used.clone()], 1));
    let next = running().after(LEASE).claim().then(&late);
    assert_eq!(next.last.rows, [used]);
    assert_eq!(next.job.lease().and_then(|lease| lease.usage.clone()), None, "not the run that took over");
}

#[test]
fn messages_are_delivered_in_order_and_interrupting_messages_first() {
    let case = created().send(2).send(3).claim();
    assert_eq!(delivered(&case), Some(1));
    let case = case.turn('a', Ending::Done).publish('a').claim();
    assert_eq!(delivered(&case), Some(2));
    let case = case.interrupt(4);
    assert!(case.job.in_flight().is_some_and(|message| message.stop), "message 2 must stop");
    let case = case.turn('b', Ending::Stopped).publish('b');
    assert_eq!(ended(&case), [(2, MessageStatus::Cancelled)]);
    let case = case.claim();
    assert_eq!(delivered(&case), Some(4));
    assert_eq!(case.job.queue, [msg(3)]);
}

#[test]
fn an_interrupt_ends_a_message_that_waits_for_its_next_attempt() {
    let case = running().fail(Some(0)).interrupt(2);
    assert_eq!(ended(&case), [(1, MessageStatus::Cancelled)]);
    assert_eq!(delivered(&case.claim()), Some(2));
}

#[test]
fn a_job_is_claimed_only_when_it_is_due() {
    let refused = |case: &Case| case.attempt(&claim(case)).map(|_| ()) == Err(Rejected::NotDue);
    assert!(refused(&completed()), "nothing to do");
    assert!(refused(&running()), "the lease holds");
    assert!(!refused(&running().after(LEASE)), "the lease has expired");
    assert!(refused(&running().fail(Some(999)).after(Duration::from_millis(999))), "the delay has not passed");
    assert!(!refused(&running().fail(Some(999)).after(Duration::from_secs(1))), "the delay has passed");
}

#[test]
fn a_clock_that_was_set_back_delays_no_job() {
    let hour = Duration::from_secs(3600);
    let refused = |case: &Case, back: Duration| {
        let claimed = Command::Claim(Claim {
            run: RunId::from_uuid(Uuid::from_u128(77)),
            worker: WorkerId::from_uuid(Uuid::from_u128(78)),
            lease_until: case.now - back + LEASE,
        });
        step(&case.job, &claimed, case.now - back).map(|_| ()) == Err(Rejected::NotDue)
    };
    assert!(!refused(&created(), hour), "a message waits");
    assert!(!refused(&running().fail(Some(999)), hour), "an attempt is due later than the longest delay");
    assert!(refused(&running().fail(Some(999)), Duration::from_secs(60)), "the delay is possible");
    assert!(!refused(&running(), hour), "a lease is longer than the longest lease");
    assert!(refused(&running(), Duration::from_secs(60)), "the lease holds");
    assert!(refused(&completed(), hour), "nothing to do");
}

/// The first turn of a job, on the branch `b`.
fn first_turn() -> TurnBegun {
    TurnBegun {
        branch: "b".into(),
        generation: 1,
        base: sha('0'),
        head: sha('0'),
        pushed: None,
        default_branch: None,
        repository: None,
    }
}

#[test]
fn a_job_that_starts_from_the_default_branch_records_its_name() {
    let begun = |name: &str| Report::TurnBegun(TurnBegun { default_branch: Some(name.into()), ..first_turn() });
    let case = running();
    assert_eq!(case.job.source.reference, "HEAD");
    let case = case.report(begun("trunk"));
    assert_eq!(case.job.source.reference, "trunk");
    // A known name is not replaced.
    assert_eq!(case.report(begun("main")).job.source.reference, "trunk");
}

#[test]
fn only_the_newest_token_may_report() {
    let lost = running();
    let old = lost.token();
    let case = lost.after(LEASE).claim();
    assert!(case.token() > old);
    let begun = first_turn();
    let outcome = Outcome::HandedBack;
    for report in [
        Report::Heartbeat { lease_until: case.now },
        Report::TurnBegun(begun),
        Report::Transcript(vec![]),
        Report::TurnEnded {
            head: sha('a'),
            commits: vec![],
            artifacts: TurnArtifacts::default(),
            ending: Ending::Done,
        },
        Report::Finished { outcome, usage: Usage::default() },
    ] {
        for token in [old, Token(99)] {
            let refused = case.attempt(&Command::Report { token, report: report.clone() });
            assert_eq!(refused.map(|_| ()), Err(Rejected::StaleToken), "{report:?}");
        }
    }
}

#[test]
fn a_turn_that_ended_is_not_repeated_after_a_takeover() {
    let case = running().turn('a', Ending::Done).after(LEASE).claim();
    let progress = case.job.in_flight().map(|message| message.progress.clone());
    assert_eq!(
        progress,
        Some(Progress::Publishing { head: sha('a'), commits: vec![sha('a')], stopped: false, cut_short: None })
    );
    assert_eq!(case.publish('a').job.status(), JobStatus::Completed);
}

#[test]
fn nothing_is_published_before_the_turn_has_ended() {
    let case = running();
    let outcome = Outcome::Published { pushed: None, pull: Published::Nothing };
    let report = Report::Finished { outcome, usage: Usage::default() };
    let early = case.attempt(&Command::Report { token: case.token(), report });
    assert_eq!(early.map(|_| ()), Err(Rejected::OutOfOrder));
}

#[test]
fn a_temporary_failure_is_retried_a_limited_number_of_times() {
    let mut case = running();
    for _ in 1..MAX_FAILURES {
        case = case.fail(Some(0));
        assert_eq!(ended(&case), [], "the message is retried");
        case = case.after(Duration::from_secs(300)).claim();
    }
    let case = case.fail(Some(0));
    assert_eq!((case.job.status(), ended(&case)), (JobStatus::Failed, vec![(1, MessageStatus::Failed)]));
}

#[test]
fn a_message_that_kills_its_workers_fails() {
    let mut case = running();
    for losses in 1..=MAX_LOSSES {
        case = case.after(LEASE).claim();
        assert_eq!(case.job.status(), JobStatus::Active);
        if !takeover_delay(losses).is_zero() {
            assert_eq!(case.job.lease(), None, "later takeovers are delayed");
            case = case.after(takeover_delay(losses)).claim();
        }
    }
    let case = case.after(LEASE).claim();
    assert_eq!((case.job.status(), ended(&case)), (JobStatus::Failed, vec![(1, MessageStatus::Failed)]));
}

#[test]
fn a_lost_run_that_was_asked_to_stop_is_not_repeated() {
    let case = running().interrupt(2).after(LEASE).claim();
    assert_eq!(ended(&case), [(1, MessageStatus::Cancelled)]);
    assert_eq!(delivered(&case), Some(2));
}

#[test]
fn a_run_that_is_handed_back_is_not_a_failure() {
    let report = || Report::Finished { outcome: Outcome::HandedBack, usage: Usage::default() };
    let mut case = running();
    for _ in 0..10 {
        case = case.report(report());
        let cancelled =
            case.last.rows.iter().any(|row| matches!(row, Row::RunEnded { status: RunStatus::Cancelled, .. }));
        assert!(cancelled, "the run was canceled and did not fail");
        case = case.claim();
    }
    let counted = case.job.in_flight().map(|message| (message.attempts, message.failures, message.losses));
    assert_eq!(counted, Some((11, 0, 0)));
}

#[test]
fn a_failed_run_does_not_drop_the_queue_and_the_last_run_decides() {
    let case = running().send(2).fail(None);
    assert_eq!(case.job.status(), JobStatus::Active);
    let case = case.claim().turn('a', Ending::Done).publish('a');
    assert_eq!(case.job.status(), JobStatus::Completed);
    let case = case.send(3).claim().fail(None);
    assert!(matches!(&case.job.state, JobState::Failed(reason) if reason.text == "it died"));
}

#[test]
fn a_new_branch_has_no_pull_request() {
    let case = completed().send(2).claim();
    let begun = TurnBegun {
        branch: "b-2".into(),
        generation: 2,
        base: sha('c'),
        head: sha('c'),
        pushed: None,
        default_branch: None,
        repository: None,
    };
    assert_eq!(case.report(Report::TurnBegun(begun)).job.pull, None);
}

#[test]
fn a_turn_whose_commit_was_lost_with_its_machine_is_repeated() {
    let lost = running().turn('a', Ending::Done).after(LEASE).claim();
    let begun = first_turn();
    let again = lost.report(Report::TurnBegun(begun));
    assert_eq!(again.job.in_flight().map(|message| &message.progress), Some(&Progress::Prompting));
    let interrupted = again.interrupt(2);
    assert!(interrupted.job.in_flight().is_some_and(|message| message.stop), "it can be interrupted like any turn");
}

#[test]
fn a_cancel_stops_the_turn_or_the_message_finishes_with_its_commits() {
    let head = |case: &Case| case.job.branch.as_ref().map(|branch| branch.head.clone());
    let begun = first_turn();
    let in_time = running().report(Report::TurnBegun(begun)).then(&Command::Cancel);
    assert_eq!((ended(&in_time), head(&in_time)), (vec![(1, MessageStatus::Cancelled)], Some(sha('0'))));

    let too_late = running().send(2).turn('a', Ending::Done).then(&Command::Cancel);
    assert_eq!(ended(&too_late), [(2, MessageStatus::Withdrawn)], "the work of 1 may be on the code host");
    assert_eq!(too_late.job.status(), JobStatus::Active);
    let published = too_late.publish('a');
    assert_eq!((ended(&published), published.job.status()), (vec![(1, MessageStatus::Finished)], JobStatus::Completed));
}

#[test]
fn a_job_that_is_archived_while_its_work_is_published_is_archived_for_clients_at_once() {
    let asked = running().turn('a', Ending::Done).then(&Command::Archive);
    let at = asked.job.record().archived_at;
    assert_eq!((asked.job.status(), at), (JobStatus::Archived, Some(asked.now)));
    assert!(asked.job.due_at().is_some(), "its work is still published if the worker dies");
    let kept = asked.clone().after(Duration::from_secs(1)).publish('a');
    assert_eq!((kept.job.status(), kept.job.record().archived_at), (JobStatus::Archived, at));
    assert_eq!(ended(&kept), [(1, MessageStatus::Finished)]);
    assert_eq!(kept.kinds.iter().filter(|kind| *kind == "job.archived").count(), 1);
    assert_eq!(kept.then(&Command::Unarchive).job.status(), JobStatus::Completed);
    let back = asked.then(&Command::Unarchive);
    assert_eq!((back.job.status(), back.publish('a').job.status()), (JobStatus::Active, JobStatus::Completed));
}

#[test]
fn a_turn_of_an_archived_job_is_not_repeated_if_its_commit_was_lost() {
    let lost = running().turn('a', Ending::Done).then(&Command::Archive).after(LEASE).claim();
    let begun = first_turn();
    let case = lost.report(Report::TurnBegun(begun));
    assert_eq!((ended(&case), case.job.status()), (vec![(1, MessageStatus::Cancelled)], JobStatus::Archived));
    assert_eq!(case.job.due_at(), None);
}

#[test]
fn a_message_that_waits_for_something_outside_stays_first_until_its_deadline() {
    let patience = Duration::from_secs(3600);
    let mut case = running().send(2);
    let start = case.now;
    for attempt in 1..=12_u32 {
        let waits = case.wait(ReasonCode::RepositoryUnreachable, patience);
        assert_eq!((ended(&waits), waits.job.status()), (vec![], JobStatus::Active), "attempt {attempt}");
        let Some((waiting, next)) = waits.job.waiting() else { panic!("the message does not wait") };
        assert_eq!((waiting.attempts, waiting.since, waiting.deadline), (attempt, start, start + patience));
        assert!(next <= start + patience, "the last attempt is at the deadline");
        assert_eq!(waits.attempt(&claim(&waits)).map(|_| ()), Err(Rejected::NotDue));
        case = waits.clone().after(next.since(waits.now)).claim();
        assert_eq!(delivered(&case), Some(1), "the queue waits behind it");
    }
    assert_eq!(case.kinds.iter().filter(|kind| *kind == "message.waiting").count(), 1, "it is logged once");
    assert_eq!(case.job.in_flight().map(|message| message.failures), Some(0));
    let given_up = case.after(patience).wait(ReasonCode::RepositoryUnreachable, patience);
    assert_eq!(ended(&given_up), [(1, MessageStatus::Failed)]);
    assert_eq!(delivered(&given_up.claim()), Some(2), "the next message is not affected");
}

#[test]
fn a_different_cause_has_its_own_deadline() {
    let hour = Duration::from_secs(3600);
    let case = running().wait(ReasonCode::RepositoryUnreachable, hour).after(hour / 2).claim();
    let case = case.wait(ReasonCode::CredentialRefused, hour);
    let since = case.job.waiting().map(|(waiting, _)| (waiting.since, waiting.attempts));
    assert_eq!(since, Some((case.now, 1)));
    let turned = case.after(hour / 4).claim().turn('a', Ending::Done);
    assert_eq!(turned.job.in_flight().map(|message| message.waiting.clone()), Some(None), "the run got past the cause");
}

#[test]
fn a_waiting_message_can_be_retried_now_or_canceled() {
    let waiting = || running().send(2).wait(ReasonCode::DiskFull, Duration::from_secs(3600));
    assert_eq!(waiting().job.avoids(), Some(WorkerId::from_uuid(Uuid::from_u128(1))), "another machine may succeed");
    let now = waiting().then(&Command::Retry);
    assert_eq!(delivered(&now.claim()), Some(1));
    assert_eq!(
        ended(&waiting().then(&Command::Cancel)),
        [(1, MessageStatus::Cancelled), (2, MessageStatus::Withdrawn)]
    );
    let running = running();
    assert!(running.clone().then(&Command::Retry).last.is_empty(&running.job), "there is nothing to retry");
}

#[test]
fn the_sizes_of_changes_are_recorded_with_the_end_of_the_turn() {
    let counted = |additions, commit: char| {
        let stat = DiffStat { additions, deletions: 1, files: 2 };
        let commits = vec![CommitDiff { sha: sha(commit), subject: "Fix it".into(), stat, paths: Vec::new() }];
        let branch = DiffStat { additions: 100, ..stat };
        TurnDiff { branch, message: MessageDiff { stat, commits, ..MessageDiff::default() } }
    };
    let ended = |commits: Vec<Sha>, diff: Option<TurnDiff>| Report::TurnEnded {
        head: sha('a'),
        commits,
        artifacts: TurnArtifacts { diff: diff.map(Box::new), ..TurnArtifacts::default() },
        ending: Ending::Done,
    };
    let row = |case: &Case| {
        case.last.rows.iter().find_map(|row| match row {
            Row::MessageDiff { id, diff } => Some((*id, diff.clone())),
            _ => None,
        })
    };
    let case = running().report(Report::TurnBegun(first_turn()));
    let done = case.clone().report(ended(vec![sha('a')], Some(counted(5, 'a'))));
    assert_eq!(row(&done), Some((msg(1), counted(5, 'a').message)));
    assert_eq!(done.job.diff, Some(counted(5, 'a').branch));
    // The same turn after a rebase, which has other commits.
    let rebased = done.report(ended(vec![sha('b')], Some(counted(7, 'b'))));
    assert_eq!(row(&rebased), Some((msg(1), counted(7, 'b').message)));
    // A follow-up that changes nothing keeps the size of the branch; one that was not counted makes it unknown.
    let next = rebased.publish('a').send(2).claim().report(Report::TurnBegun(first_turn()));
    let nothing = next.clone().report(ended(vec![], None));
    assert_eq!((row(&nothing), nothing.job.diff), (None, Some(counted(7, 'b').branch)));
    assert_eq!(next.clone().report(ended(vec![sha('c')], None)).job.diff, None);
    // Another branch begins without changes.
    let other = TurnBegun { branch: "journeyman/x-2".into(), generation: 2, ..first_turn() };
    assert_eq!(next.report(Report::TurnBegun(other)).job.diff, None);
}

#[test]
fn commits_that_could_not_be_published_are_published_with_a_later_message() {
    let failed = running().turn('a', Ending::Done).fail(None);
    assert_eq!(ended(&failed), [(1, MessageStatus::Failed)]);
    let later = failed.send(2).claim().turn('b', Ending::Done).publish('b');
    let row = later.last.rows.iter().find_map(|row| match row {
        Row::MessagePublishedWith { id, with, commits, pr_link } => {
            Some((*id, *with, commits.clone(), pr_link.clone()))
        }
        _ => None,
    });
    assert_eq!(row, Some((msg(1), msg(2), vec![sha('a')], Some("http://pull/1".into()))));
    assert!(later.kinds.contains(&"message.published_with".to_owned()));
    assert!(later.job.unpublished.is_empty());
}

#[test]
fn a_worker_that_restarts_releases_its_leases() {
    let mine = WorkerId::from_uuid(Uuid::from_u128(1));
    let case = running().then(&Command::ReleaseLease(mine));
    assert_eq!(case.job.due_at(), Some(case.now));
    assert_eq!(delivered(&case.claim()), Some(1), "it is taken over immediately");
    let other = running().then(&Command::ReleaseLease(WorkerId::from_uuid(Uuid::from_u128(2))));
    assert!(other.job.due_at() > Some(other.now));
}

#[test]
fn a_lease_from_before_the_clock_was_set_back_does_not_block_the_job() {
    let mut case = running();
    case.now = Timestamp::from_micros(case.now.as_micros() - 3_600_000_000);
    assert!(case.job.is_due(case.now));
    assert_eq!(delivered(&case.claim()), Some(1));
}
