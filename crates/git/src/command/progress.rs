//! Time limits that measure progress: a command that works may take longer than one that waits, because a busy machine or
//! a slow disk is not a reason to lose the work of an agent.

use std::pin::pin;
use std::time::Duration;

use journeyman_core::process_stat::ProcessStat;
use rustix::param::clock_ticks_per_second;
use rustix::process::Pid;

/// The part of a period that a command must have used as processor time to get another period: one part in this number.
/// A transfer over a slow network uses about one in a hundred.
const PART: u32 = 500;

/// The maximum number of periods.
const PERIODS: u32 = 4;

/// Waits for `work`. After each period, the wait goes on if the processor time that `used` returns shows that there was
/// progress.
///
/// # Errors
/// There was no progress in a period, or the last period has passed. The error is the time that has passed.
pub(super) async fn within<T>(
    period: Duration,
    mut used: impl FnMut() -> Duration,
    work: impl Future<Output = T>,
) -> Result<T, Duration> {
    let mut work = pin!(work);
    let mut before = Duration::ZERO;
    for number in 1..=PERIODS {
        if let Ok(done) = tokio::time::timeout(period, work.as_mut()).await {
            return Ok(done);
        }
        let now = used();
        if number == PERIODS || now < before + period / PART {
            return Err(period * number);
        }
        before = now;
    }
    Err(period * PERIODS)
}

/// Returns the processor time that the processes of a group have used, with that of the processes for which they have
/// waited. Reads all processes of the machine.
pub(super) fn processor_time(group: Pid) -> Duration {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Duration::ZERO };
    let stats = processes.flatten().filter_map(|process| std::fs::read_to_string(process.path().join("stat")).ok());
    let members = stats.filter_map(|stat| ProcessStat::parse(&stat)).filter(|stat| stat.group == group.as_raw_pid());
    let ticks: u64 = members.map(|stat| stat.ticks).sum();
    Duration::from_millis(ticks.saturating_mul(1000) / clock_ticks_per_second().max(1))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use journeyman_testkit::until;

    use super::*;

    const PERIOD: Duration = Duration::from_secs(60);

    /// Waits for a command that takes 150 seconds, and uses so many milliseconds of processor time in each period.
    async fn waited(used: [u64; 2]) -> Result<(), Duration> {
        let (mut used, mut total) = (used.into_iter(), Duration::ZERO);
        let used = || {
            total += Duration::from_millis(used.next().unwrap());
            total
        };
        within(PERIOD, used, tokio::time::sleep(Duration::from_secs(150))).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_command_that_works_gets_more_time_and_one_that_waits_does_not() {
        assert_eq!(waited([120, 120]).await, Ok(()));
        assert_eq!(waited([119, 0]).await, Err(PERIOD));
        assert_eq!(waited([40_000, 119]).await, Err(2 * PERIOD), "only the last period counts");
    }

    #[tokio::test(start_paused = true)]
    async fn no_command_gets_more_than_four_periods() {
        let mut seconds = 0;
        let used = || {
            seconds += 60;
            Duration::from_secs(seconds)
        };
        assert_eq!(within(PERIOD, used, std::future::pending::<()>()).await, Err(4 * PERIOD));
    }

    #[test]
    fn the_time_of_a_group_is_read() {
        let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).process_group(0).spawn().unwrap();
        let group = Pid::from_raw(i32::try_from(busy.id()).unwrap()).unwrap();
        until("it has used processor time", || (processor_time(group) > Duration::ZERO).then_some(()));
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert_eq!(processor_time(group), Duration::ZERO, "the group has no process");
    }
}
