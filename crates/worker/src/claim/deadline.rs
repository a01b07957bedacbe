//! Deadlines for the steps that follow a turn. `limits.runSeconds` limits the turn; without a deadline for each later
//! step, an agent could leave files behind that keep its run busy for much longer.

use std::time::Duration;

use journeyman_core::run::ReasonCode;

use crate::error::RunError;

/// The time limit for walking a tree or counting its files: a million files take seconds.
pub(crate) const SCAN: Duration = Duration::from_secs(120);

/// The time limit for ending an agent whose processes were killed.
pub(crate) const END: Duration = Duration::from_secs(30);

/// The time limit for archiving a home of the maximum size.
pub(crate) const ARCHIVE: Duration = Duration::from_secs(120);

/// The time limit for storing an archive or a bundle.
pub(crate) const STORE: Duration = Duration::from_secs(300);

/// The time limit for checking imported commits.
pub(crate) const CHECK: Duration = Duration::from_secs(120);

/// The time limit for git on a small tree; larger trees get more, up to [`GIT_MOST`].
const GIT_LEAST: Duration = Duration::from_secs(60);

/// The time limit for git on the largest tree.
const GIT_MOST: Duration = Duration::from_secs(600);

/// Bytes per second that git stores on a slow machine.
const GIT_BYTES: u64 = 20 << 20;

/// Files per second that git reads on a slow machine.
const GIT_FILES: u64 = 5000;

/// Returns the time limit for committing a tree with this many bytes and entries.
pub(crate) fn commit_time(bytes: u64, entries: u64) -> Duration {
    git_time(bytes, entries)
}

/// Returns the time limit for importing a pack with this many bytes.
pub(crate) fn import_time(bytes: u64) -> Duration {
    git_time(bytes.saturating_mul(4), 0)
}

fn git_time(bytes: u64, files: u64) -> Duration {
    (GIT_LEAST + Duration::from_secs(bytes / GIT_BYTES + files / GIT_FILES)).min(GIT_MOST)
}

/// Runs a step, and aborts it after `time`; `what` names the step in the reason.
pub(crate) async fn within<T, E: Into<RunError>>(
    time: Duration,
    what: &str,
    step: impl Future<Output = Result<T, E>>,
) -> Result<T, RunError> {
    match tokio::time::timeout(time, step).await {
        Ok(done) => done.map_err(Into::into),
        Err(_) => {
            let text = format!("{what} took longer than {} seconds and was aborted", time.as_secs());
            Err(RunError::may_pass(ReasonCode::Internal, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_tree_gets_a_minute_and_the_largest_ten() {
        assert_eq!(commit_time(0, 10), Duration::from_secs(60));
        assert_eq!(commit_time(2 << 30, 50_000), Duration::from_secs(60 + 102 + 10));
        assert_eq!(commit_time(u64::MAX, u64::MAX), GIT_MOST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_that_takes_too_long_is_aborted_and_named() {
        let endless = std::future::pending::<Result<(), RunError>>();
        let Err(RunError::Failed { reason, retry }) = within(SCAN, "counting", endless).await else { panic!("no end") };
        assert!(retry && reason.text.contains("counting took longer than 120 seconds"), "{}", reason.text);
    }
}
