//! Deadlines of the steps that follow a turn. `limits.runSeconds` bounds the turn; without a deadline for each later step an
//! agent could leave files behind that hold its run for much longer.

use std::time::Duration;

use journeyman_core::run::ReasonCode;

use crate::failure::Stopped;
use crate::survey::Survey;

/// For looking through a tree, or counting what it has: a million files take seconds.
pub(crate) const LOOK: Duration = Duration::from_secs(120);

/// For the end of an agent whose processes were killed.
pub(crate) const END: Duration = Duration::from_secs(30);

/// For an archive of a home of the largest size.
pub(crate) const ARCHIVE: Duration = Duration::from_secs(120);

/// For storing an archive or a bundle.
pub(crate) const STORE: Duration = Duration::from_secs(300);

/// For judging commits that were imported.
pub(crate) const JUDGE: Duration = Duration::from_secs(120);

/// For git over any tree; large trees get more, up to [`GIT_MOST`].
const GIT_LEAST: Duration = Duration::from_secs(60);

/// For git over the largest tree.
const GIT_MOST: Duration = Duration::from_secs(600);

/// Bytes that git stores in a second on a slow machine.
const GIT_BYTES: u64 = 20 << 20;

/// Files that git looks at in a second on a slow machine.
const GIT_FILES: u64 = 5000;

/// Returns the time for making commits of a tree.
pub(crate) fn commit_time(seen: &Survey) -> Duration {
    git_time(seen.bytes, seen.entries)
}

/// Returns the time for importing a pack of so many bytes.
pub(crate) fn import_time(bytes: u64) -> Duration {
    git_time(bytes.saturating_mul(4), 0)
}

fn git_time(bytes: u64, files: u64) -> Duration {
    (GIT_LEAST + Duration::from_secs(bytes / GIT_BYTES + files / GIT_FILES)).min(GIT_MOST)
}

/// Carries out a step, or gives it up after its time: `what` says in a reason what took too long.
pub(crate) async fn within<T, E: Into<Stopped>>(
    time: Duration,
    what: &str,
    step: impl Future<Output = Result<T, E>>,
) -> Result<T, Stopped> {
    match tokio::time::timeout(time, step).await {
        Ok(done) => done.map_err(Into::into),
        Err(_) => {
            let text = format!("{what} took longer than {} seconds and was given up", time.as_secs());
            Err(Stopped::may_pass(ReasonCode::Internal, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_tree_gets_a_minute_and_the_largest_ten() {
        let tree = |bytes, entries| Survey { bytes, entries, ..Survey::default() };
        assert_eq!(commit_time(&tree(0, 10)), Duration::from_secs(60));
        assert_eq!(commit_time(&tree(2 << 30, 50_000)), Duration::from_secs(60 + 102 + 10));
        assert_eq!(commit_time(&tree(u64::MAX, u64::MAX)), GIT_MOST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_that_does_not_end_is_given_up_and_named() {
        let endless = std::future::pending::<Result<(), Stopped>>();
        let Err(Stopped::Failed { reason, retry }) = within(LOOK, "counting", endless).await else { panic!("no end") };
        assert!(retry && reason.text.contains("counting took longer than 120 seconds"), "{}", reason.text);
    }
}
