//! Deadlines for the steps that follow a turn. Those of git measure progress ([`overdue`]), because the work of an agent is
//! not lost for a busy machine. `limits.runSeconds` limits the turn; without a deadline for each later
//! step, an agent could leave files behind that keep its run busy for much longer.

use std::time::Duration;

use journeyman_core::ports::Process;
use journeyman_core::run::ReasonCode;
use tokio::time::Instant;

use crate::error::{RunError, storage_unavailable};

/// The time limit for walking a tree or counting its files: a million files take seconds.
pub(crate) const SCAN: Duration = Duration::from_secs(120);

/// The time limit for ending an agent whose processes were killed.
pub(crate) const END: Duration = Duration::from_secs(30);

/// The time limit for pausing or ending an agent that has ended its turn. Its container engine may be away; the message
/// then waits, and its turn is not repeated.
pub(crate) const END_OF_TURN: Duration = Duration::from_secs(60);

/// The time limit for archiving a home of the maximum size.
pub(crate) const ARCHIVE: Duration = Duration::from_secs(120);

/// The time limit for unpacking a home of the maximum size. Creating a file takes about twice as long as reading it.
pub(crate) const UNPACK: Duration = Duration::from_secs(240);

/// The time limit for storing an archive or a bundle.
pub(crate) const STORE: Duration = Duration::from_secs(300);

/// The time limit for checking imported commits.
pub(crate) const CHECK: Duration = Duration::from_secs(120);

/// The time that git on a tree may use no processor time, until it counts as blocked.
pub(crate) const GIT_BLOCKED: Duration = Duration::from_secs(60);

/// The time limit for a step of git on a tree, however busy the machine is.
pub(crate) const GIT_LONGEST: Duration = Duration::from_secs(3600);

/// The time limit for the start of an agent, however busy the machine is.
const START_LONGEST: Duration = Duration::from_secs(600);

/// The processor time limit for git on a small tree; larger trees get more, up to [`GIT_MOST`].
const GIT_LEAST: Duration = Duration::from_secs(60);

/// The processor time limit for git on the largest tree.
const GIT_MOST: Duration = Duration::from_secs(600);

/// The interval at which the processor time of a program is read.
const OVERDUE_INTERVAL: Duration = Duration::from_secs(1);

/// Bytes per second that git stores on a slow machine.
const GIT_BYTES: u64 = 20 << 20;

/// Files per second that git reads on a slow machine.
const GIT_FILES: u64 = 5000;

/// Returns the processor time limit for a step of committing a tree with this many bytes and entries.
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

/// The limits of a program's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkLimits {
    /// The processor time that it may use. If it cannot be read, it is a limit of time.
    pub(crate) processor: Duration,
    /// The time for which it may use no processor time.
    pub(crate) blocked: Duration,
    /// The time that it may take in any case.
    pub(crate) longest: Duration,
}

impl WorkLimits {
    /// Returns the limits of a step of git on a tree that may use this much processor time.
    pub(crate) const fn of_git(processor: Duration) -> Self {
        Self { processor, blocked: GIT_BLOCKED, longest: GIT_LONGEST }
    }

    /// Returns the limits of an agent's start, which takes at most `usual` on an idle machine.
    pub(crate) fn of_start(usual: Duration) -> Self {
        Self { processor: usual, blocked: usual, longest: START_LONGEST.max(usual) }
    }
}

/// The reason why a program is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// It used up its processor time.
    Busy,
    /// It used no processor time for too long.
    Blocked,
    /// It took too long.
    Long,
}

/// Waits until a program exceeds its limits. On a busy machine, a program may take much longer than its processor time,
/// as long as it works.
pub(crate) async fn overdue(program: &dyn Process, limits: WorkLimits) -> Overdue {
    let WorkLimits { processor: limit, blocked, longest } = limits;
    let (begin, first) = (Instant::now(), program.processor_time().await);
    let (mut last, mut worked) = (first, begin);
    loop {
        tokio::time::sleep(OVERDUE_INTERVAL).await;
        let now = program.processor_time().await;
        match (first, now) {
            (Some(first), Some(now)) if now.saturating_sub(first) > limit => return Overdue::Busy,
            (None, _) | (_, None) if begin.elapsed() > limit => return Overdue::Long,
            (Some(_), Some(_)) if now > last => worked = Instant::now(),
            (Some(_), Some(_)) if worked.elapsed() > blocked => return Overdue::Blocked,
            _ => {}
        }
        if begin.elapsed() > longest {
            return Overdue::Long;
        }
        last = now;
    }
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

/// Runs a step that reads or writes the blob store, and aborts it after [`STORE`]; `what` names the step in the reason.
pub(crate) async fn storing<T, E: Into<RunError>>(
    what: &str,
    step: impl Future<Output = Result<T, E>>,
) -> Result<T, RunError> {
    match tokio::time::timeout(STORE, step).await {
        Ok(done) => done.map_err(Into::into),
        Err(_) => Err(storage_unavailable(&format!("{what} took longer than {} seconds", STORE.as_secs()))),
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use journeyman_core::ports::Exit;

    use super::*;

    #[test]
    fn a_small_tree_gets_a_minute_and_the_largest_ten() {
        assert_eq!(commit_time(0, 10), Duration::from_secs(60));
        assert_eq!(commit_time(2 << 30, 50_000), Duration::from_secs(60 + 102 + 10));
        assert_eq!(commit_time(u64::MAX, u64::MAX), GIT_MOST);
    }

    /// A program that uses so much processor time in each of its first seconds.
    struct Program {
        begin: Instant,
        per_second: Option<Duration>,
        seconds: u64,
    }

    #[async_trait]
    impl Process for Program {
        async fn wait(&mut self) -> Exit {
            std::future::pending().await
        }

        async fn deleted_bytes(&self, _device: u64) -> u64 {
            0
        }

        async fn processor_time(&self) -> Option<Duration> {
            let worked = self.begin.elapsed().as_secs().min(self.seconds);
            Some(self.per_second? * u32::try_from(worked).unwrap_or(u32::MAX))
        }

        async fn end(&mut self) -> Exit {
            Exit::Signal(9)
        }
    }

    /// Waits for a program that uses `per_second` of processor time in each of the first `seconds`, and then none.
    async fn waited(per_second: Duration, seconds: u64) -> (Overdue, Duration) {
        let begin = Instant::now();
        let program = Program { begin, per_second: Some(per_second), seconds };
        (overdue(&program, WorkLimits::of_git(Duration::from_secs(100))).await, begin.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn git_is_stopped_if_it_is_blocked_and_not_if_the_machine_is_busy() {
        let second = Duration::from_secs(1);
        assert_eq!(waited(second, u64::MAX).await, (Overdue::Busy, 101 * second));
        assert_eq!(waited(second / 10, u64::MAX).await, (Overdue::Busy, 1001 * second), "the machine is busy");
        assert_eq!(waited(second / 10, 200).await, (Overdue::Blocked, 261 * second));
        assert_eq!(waited(second / 100, u64::MAX).await, (Overdue::Long, 3601 * second));
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_may_start_slowly_as_long_as_it_works() {
        let second = Duration::from_secs(1);
        let started = async |per_second, seconds| {
            let begin = Instant::now();
            let program = Program { begin, per_second: Some(per_second), seconds };
            (overdue(&program, WorkLimits::of_start(15 * second)).await, begin.elapsed())
        };
        assert_eq!(started(second, u64::MAX).await, (Overdue::Busy, 16 * second));
        assert_eq!(started(second / 10, u64::MAX).await, (Overdue::Busy, 151 * second), "the machine is busy");
        assert_eq!(started(second / 10, 0).await, (Overdue::Blocked, 16 * second));
        assert_eq!(started(second / 100, u64::MAX).await, (Overdue::Long, 601 * second));
    }

    #[tokio::test(start_paused = true)]
    async fn without_processor_times_git_gets_as_much_time() {
        let begin = Instant::now();
        let program = Program { begin, per_second: None, seconds: 0 };
        let limits = WorkLimits::of_git(Duration::from_secs(100));
        assert_eq!(overdue(&program, limits).await, Overdue::Long);
        assert_eq!(begin.elapsed().as_secs(), 101);
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_that_takes_too_long_is_aborted_and_named() {
        let endless = std::future::pending::<Result<(), RunError>>();
        let Err(RunError::Failed { reason, retry }) = within(SCAN, "counting", endless).await else { panic!("no end") };
        assert!(retry && reason.text.contains("counting took longer than 120 seconds"), "{}", reason.text);
    }
}
