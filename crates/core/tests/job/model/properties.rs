//! The properties that every state must have, and the states that must be reachable.

use journeyman_core::job::{Ended, JobState, JobStatus, Work};
use journeyman_core::message::MessageStatus;
use journeyman_core::run::ReasonCode;
use stateright::Property;

use super::Machine;
use super::world::{WorkerState, World};

pub(super) fn all() -> Vec<Property<Machine>> {
    let always = Property::<Machine>::always;
    let sometimes = Property::<Machine>::sometimes;
    vec![
        always("no step breaks a rule", |_, world: &World| world.broken.is_none()),
        always("an active job has a run, a retry or a queue", |_, world| match world.job.0.state {
            JobState::Active(Work::Waiting) => !world.job.0.queue.is_empty(),
            _ => true,
        }),
        always("an inactive job has no queue", |_, world| active(world) || world.job.0.queue.is_empty()),
        always("an active job has a time at which it is due, and no other job has one", |_, world| {
            world.job.0.due_at().is_some() == active(world)
        }),
        always("a worker can always continue an active job", |_, world| !active(world) || world.can_continue()),
        always("the pull request of a job exists", |_, world| world.job.0.pull.is_none() || world.host.pulls == 1),
        always("at most one pull request is open", |_, world| world.host.pulls <= 1),
        always("the commits of a message are on the branch once", |_, world| {
            (1..=3).all(|message| world.host.branch.iter().filter(|commit| **commit == message).count() <= 1)
        }),
        always("the commits are in the order of delivery", |_, world| {
            let positions: Vec<_> =
                world.host.branch.iter().map(|commit| world.delivered.iter().position(|one| one == commit)).collect();
            positions.is_sorted() && positions.iter().all(Option::is_some)
        }),
        always("every message is final when the job and the workers are idle", |_, world| {
            let quiet = !active(world) && world.workers.iter().all(|state| *state == WorkerState::Idle);
            !quiet || world.finals[..usize::from(world.sent)].iter().all(Option::is_some)
        }),
        always("the commits of finished messages are on the branch", |_, world| {
            (1..=3u8).all(|message| {
                let finished = world.finals[usize::from(message) - 1] == Some(MessageStatus::Finished);
                !finished || !world.committed.contains(&message) || world.host.branch.contains(&message)
            })
        }),
        always("a message without effect, by its receipt, has no commit on the branch", |_, world| {
            world.denied.iter().all(|message| !world.host.branch.contains(message))
        }),
        sometimes("commits are published with a later message", |_, world| {
            world.finals[..2] == [Some(MessageStatus::Failed), Some(MessageStatus::Finished)]
                && world.host.branch == [1, 2]
        }),
        sometimes("a job is archived while its work is published", |_, world| {
            world.job.0.archive_requested_at().is_some()
        }),
        always("clients see the pull request only while the job is not active", |_, world| {
            world.job.0.status() != JobStatus::Active || world.job.0.record().pr_link.is_none()
        }),
        always("a finished message with a commit has its pull request", |_, world| {
            (1..=3u8).all(|message| {
                let finished = world.finals[usize::from(message) - 1] == Some(MessageStatus::Finished);
                !finished || !world.committed.contains(&message) || world.job.0.pull.is_some()
            })
        }),
        sometimes("three messages are finished in one pull request", |_, world| {
            world.finals == [Some(MessageStatus::Finished); 3] && world.host.pulls == 1 && world.host.branch.len() == 3
        }),
        sometimes("a worker publishes a turn that another worker has ended", |_, world| world.published_for_another),
        sometimes("a worker takes over between a pull request and its report", |_, world| {
            world.published_for_another && world.host.pulls == 1 && world.job.0.pull.is_none()
        }),
        sometimes("a report with a stale token is refused", |_, world| world.stale_refused),
        sometimes("an interrupted message keeps its commits", |_, world| {
            // A canceled job has canceled messages too; only the reason differs.
            let interrupted = |last: &Ended| matches!(last, Ended::Failed(why) if why.code == ReasonCode::Interrupted);
            world.delivered == [1]
                && world.finals[0] == Some(MessageStatus::Cancelled)
                && world.host.branch == [1]
                && world.job.0.last.as_ref().is_some_and(interrupted)
        }),
        sometimes("a message fails", |_, world| world.finals[0] == Some(MessageStatus::Failed)),
        sometimes("a message is withdrawn and the job completes", |_, world| {
            // Cancel also withdraws messages, but the job then fails.
            world.sent == 2
                && world.finals[1] == Some(MessageStatus::Withdrawn)
                && world.job.0.state == JobState::Completed
        }),
        sometimes("a job is archived", |_, world| matches!(world.job.0.state, JobState::Archived { .. })),
    ]
}

fn active(world: &World) -> bool {
    matches!(world.job.0.state, JobState::Active(_))
}
