//! Sentences about the effects of commands on a job.

use journeyman_client::models::Status;

use crate::cli::exit::Exit;

/// The command that was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Cancel,
    Archive,
    Unarchive,
    Retry,
}

/// The state of a job before a command.
#[derive(Debug)]
pub(super) struct Before {
    pub(super) status: Status,
    /// True if the current message of the job waits.
    pub(super) is_waiting: bool,
}

/// Returns a sentence about the effect of an action, and the exit code. A job that cannot be retried is a conflict; a
/// job that already has the requested state is not.
pub(super) fn outcome(job: &str, action: Action, before: &Before, after: &Status) -> (String, Exit) {
    let was = &before.status;
    let done = |text: String| (text, Exit::Done);
    match (action, was) {
        (Action::Cancel, Status::Active) if *after == Status::Active => done(format!(
            "The job {job} is publishing its work, and ends after that. Its queued messages were withdrawn."
        )),
        (Action::Cancel, Status::Active) if *after == Status::Completed => {
            done(format!("The job {job} completed before it was canceled."))
        }
        (Action::Cancel, Status::Active) => done(format!("Canceled the job {job}.")),
        (Action::Cancel, _) => done(format!("The job {job} is already {was}; nothing to cancel.")),
        (Action::Archive, Status::Archived) => done(format!("The job {job} is already archived.")),
        (Action::Archive, Status::Active) => done(format!("Canceled and archived the job {job}.")),
        (Action::Archive, _) => done(format!("Archived the job {job}.")),
        (Action::Unarchive, Status::Archived) => done(format!("Restored the job {job}; it is {after}.")),
        (Action::Unarchive, _) => done(format!("The job {job} is not archived; it is {was}.")),
        (Action::Retry, Status::Active) if before.is_waiting => done(format!("Retrying the job {job} now.")),
        (Action::Retry, Status::Active) => {
            done(format!("The job {job} is active and waits for nothing. If an attempt was delayed, it starts now."))
        }
        (Action::Retry, _) if *after == Status::Active => done(format!("The job {job} is active.")),
        (Action::Retry, _) => (format!("The job {job} is already {was}; nothing to retry."), Exit::Conflict),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_action_says_what_it_has_done() {
        use journeyman_client::models::Status::{Active, Archived, Completed, Failed};
        for (action, status, is_waiting, after, text, exit) in [
            (Action::Cancel, Active, false, Failed, "Canceled the job job_1.", Exit::Done),
            (Action::Cancel, Active, false, Active, "is publishing its work", Exit::Done),
            (Action::Cancel, Active, false, Completed, "completed before it was canceled.", Exit::Done),
            (Action::Cancel, Completed, false, Completed, "is already completed; nothing to cancel.", Exit::Done),
            (Action::Cancel, Failed, false, Failed, "is already failed; nothing to cancel.", Exit::Done),
            (Action::Archive, Completed, false, Archived, "Archived the job job_1.", Exit::Done),
            (Action::Archive, Active, false, Archived, "Canceled and archived", Exit::Done),
            (Action::Archive, Archived, false, Archived, "is already archived.", Exit::Done),
            (Action::Unarchive, Archived, false, Completed, "Restored the job job_1; it is completed.", Exit::Done),
            (Action::Unarchive, Failed, false, Failed, "is not archived; it is failed.", Exit::Done),
            (Action::Retry, Active, true, Active, "Retrying the job job_1 now.", Exit::Done),
            (Action::Retry, Active, false, Active, "is active and waits for nothing.", Exit::Done),
            (Action::Retry, Completed, false, Active, "The job job_1 is active.", Exit::Done),
            (Action::Retry, Completed, false, Completed, "is already completed; nothing to retry.", Exit::Conflict),
        ] {
            let before = Before { status, is_waiting };
            let (sentence, code) = outcome("job_1", action, &before, &after);
            assert!(sentence.contains(text), "{action:?} {before:?}: {sentence}");
            assert_eq!(code, exit, "{action:?} {before:?}");
        }
    }
}
