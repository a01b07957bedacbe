//! The contract's table of states: the effect of a message, cancel, archive and unarchive in each state.

use journeyman_core::job::JobStatus;
use journeyman_core::job::command::Command;
use journeyman_core::job::decide::Rejected;
use journeyman_core::job::turn::Ending;
use journeyman_core::message::{DeliveryMode, MAX_QUEUED};

use super::fixtures::{archived, completed, created, failed, message, msg, running};

#[test]
fn a_message_in_every_state() {
    use DeliveryMode::{Interrupt, Queue, Reject};
    for (name, case, delivery, expected) in [
        ("waiting", created(), Queue, Ok(())),
        ("waiting", created(), Interrupt, Ok(())),
        ("waiting", created(), Reject, Err(Rejected::Busy)),
        ("running", running(), Queue, Ok(())),
        ("running", running(), Interrupt, Ok(())),
        ("running", running(), Reject, Err(Rejected::Busy)),
        ("retrying", running().fail(Some(0)), Queue, Ok(())),
        ("retrying", running().fail(Some(0)), Interrupt, Ok(())),
        ("retrying", running().fail(Some(0)), Reject, Err(Rejected::Busy)),
        ("completed", completed(), Queue, Ok(())),
        ("completed", completed(), Interrupt, Ok(())),
        ("completed", completed(), Reject, Ok(())),
        ("failed", failed(), Queue, Ok(())),
        ("failed", failed(), Interrupt, Ok(())),
        ("failed", failed(), Reject, Ok(())),
        ("archived", archived(), Queue, Err(Rejected::Archived)),
        ("archived", archived(), Interrupt, Err(Rejected::Archived)),
        ("archived", archived(), Reject, Err(Rejected::Archived)),
        (
            "archived while publishing",
            running().turn('a', Ending::Done).then(&Command::Archive),
            Queue,
            Err(Rejected::Archived),
        ),
    ] {
        let outcome = case.attempt(&Command::AddMessage(message(9, delivery)));
        assert_eq!(outcome.as_ref().map(|_| ()).map_err(|rejected| *rejected), expected, "{name} {delivery:?}");
        if let Ok(change) = outcome {
            assert_eq!(change.job.status(), JobStatus::Active, "{name} {delivery:?}");
            assert!(change.job.queue.contains(&msg(9)), "{name} {delivery:?}");
            assert_eq!(change.job.record().pr_link, None, "{name} {delivery:?}");
        }
    }
}

#[test]
fn a_queue_holds_at_most_a_hundred_messages() {
    let mut case = running();
    for number in 0..MAX_QUEUED {
        case = case.send(1000 + number as u128);
    }
    let full = case.attempt(&Command::AddMessage(message(9, DeliveryMode::Queue)));
    assert_eq!(full.map(|_| ()), Err(Rejected::QueueFull));
}

#[test]
fn cancel_in_every_state() {
    for (name, case, after) in [
        ("waiting", created(), JobStatus::Failed),
        ("running", running(), JobStatus::Failed),
        ("running with a queue", running().send(2).send(3), JobStatus::Failed),
        ("retrying", running().fail(Some(0)).send(2), JobStatus::Failed),
        ("publishing", running().turn('a', Ending::Done).send(2), JobStatus::Active),
        ("publishing, before a retry", running().turn('a', Ending::Done).fail(Some(0)), JobStatus::Failed),
        ("completed", completed(), JobStatus::Completed),
        ("failed", failed(), JobStatus::Failed),
        ("archived", archived(), JobStatus::Archived),
    ] {
        let once = case.then(&Command::Cancel);
        assert_eq!((once.job.status(), once.job.queue.len()), (after, 0), "{name}");
        let again = once.clone().then(&Command::Cancel);
        assert!(again.last.is_empty(&once.job), "{name}: a repetition has no effect");
    }
}

#[test]
fn a_message_is_canceled_without_the_others() {
    let cancel = |number| Command::CancelMessage(msg(number));
    let alone = running().then(&cancel(1));
    assert_eq!(alone.job.status(), JobStatus::Failed, "its run is stopped");
    let behind = running().send(2);
    assert!(behind.clone().then(&cancel(1)).last.is_empty(&behind.job), "message 2 waits behind it");
    let without = behind.then(&cancel(2));
    assert_eq!((without.job.status(), without.job.queue.len()), (JobStatus::Active, 0), "message 1 still runs");
    assert_eq!(without.then(&cancel(1)).job.status(), JobStatus::Failed);
    for (name, case) in [("completed", completed()), ("failed", failed()), ("archived", archived())] {
        assert!(case.clone().then(&cancel(1)).last.is_empty(&case.job), "{name}");
    }
    let other = running();
    assert!(other.clone().then(&cancel(7)).last.is_empty(&other.job), "of another job");
}

#[test]
fn archive_and_unarchive_in_every_state() {
    for (name, case, before) in [
        ("waiting", created(), JobStatus::Failed),
        ("running", running().send(2), JobStatus::Failed),
        ("publishing", running().turn('a', Ending::Done).send(2), JobStatus::Active),
        ("completed", completed(), JobStatus::Completed),
        ("failed", failed(), JobStatus::Failed),
        ("archived", archived(), JobStatus::Completed),
    ] {
        let away = case.then(&Command::Archive);
        assert_eq!(away.job.status(), JobStatus::Archived, "{name}");
        assert!(away.job.record().archived_at.is_some(), "{name}");
        assert!(away.clone().then(&Command::Archive).last.is_empty(&away.job), "{name}: a repetition has no effect");
        let back = away.then(&Command::Unarchive);
        assert_eq!((back.job.status(), back.job.record().archived_at), (before, None), "{name}");
        assert!(back.clone().then(&Command::Unarchive).last.is_empty(&back.job), "{name}: a repetition has no effect");
    }
}

#[test]
fn only_queued_messages_can_be_withdrawn() {
    let withdraw = |number| Command::WithdrawMessage(msg(number));
    let case = running().send(2);
    assert_eq!(case.attempt(&withdraw(1)).map(|_| ()), Err(Rejected::AlreadyDelivered), "delivered");
    assert_eq!(case.attempt(&withdraw(7)).map(|_| ()), Err(Rejected::AlreadyDelivered), "unknown");
    assert_eq!(case.then(&withdraw(2)).job.status(), JobStatus::Active, "message 1 still runs");
    assert_eq!(completed().send(2).then(&withdraw(2)).job.status(), JobStatus::Completed, "the same as before");
    assert_eq!(failed().send(2).then(&withdraw(2)).job.status(), JobStatus::Failed, "the same as before");
    assert_eq!(created().then(&withdraw(1)).job.status(), JobStatus::Failed, "no run took a message");
}

#[test]
fn the_pull_request_is_shown_while_the_job_is_not_active() {
    let done = completed();
    assert_eq!(done.job.record().pr_link.as_deref(), Some("http://pull/1"));
    assert_eq!(done.send(2).job.record().pr_link, None);
}
