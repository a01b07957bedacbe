//! Simulates a day of polls of 10,000 open pull requests on GitHub's rate limits: the number of requests, and the delay
//! from a comment to its event.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use journeyman_core::code_host::HostKind;
use journeyman_core::poll::Cost;
use journeyman_core::poll::budget::{Budget, SHARE};
use journeyman_core::poll::schedule::{Activity, interval};
use journeyman_core::time::Timestamp;

const DAY: i64 = 24 * 3600;

/// The number of comments on all pull requests in a day: one on every second pull request.
const COMMENTS: usize = 5_000;

/// The figures of a day.
#[derive(Debug)]
struct Day {
    /// The greatest number of requests in an hour.
    requests: u64,
    /// The greatest number of requests in an hour that count against the rate limit.
    charged: u64,
    /// The median delay of a comment, in seconds.
    median: i64,
    /// The longest delay of a comment, in seconds.
    longest: i64,
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

/// Simulates a day. `is_free` is true if an unchanged answer does not count against the rate limit.
fn simulate(repositories: usize, comments_in_total: usize, is_free: bool) -> Day {
    let mut seed = 7_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut comments: Vec<Vec<i64>> = vec![Vec::new(); repositories];
    for _ in 0..comments_in_total {
        let repository = random(repositories as u64) as usize;
        comments[repository].push(random(DAY as u64 - 7200) as i64);
    }
    comments.iter_mut().for_each(|times| times.sort_unstable_by_key(|time| Reverse(*time)));
    let mut due: BinaryHeap<Reverse<(i64, usize)>> = (0..repositories).map(|number| Reverse((0, number))).collect();
    let (mut quiet, mut delays) = (vec![0_u32; repositories], Vec::new());
    let (mut hours, mut budget) = (vec![(0, 0); 25], Budget::new(HostKind::Github, at(0)));
    for now in 0..DAY {
        // As the poller does: at most eight at once, each second.
        for _ in 0..budget.available(at(now)).min(8) {
            let Some(Reverse((_, number))) = due.peek().copied().filter(|Reverse((time, _))| *time <= now) else {
                break;
            };
            due.pop();
            let mut found = 0;
            while comments[number].last().is_some_and(|time| *time <= now) {
                delays.push(now - comments[number].pop().unwrap());
                found += 1;
            }
            quiet[number] = if found > 0 { 0 } else { quiet[number] + 1 };
            // The list of changes, the comments, the repository, and for each pull request its state and its reviews.
            let cost = match found {
                0 => Cost { requests: 1, charged: u32::from(!is_free) },
                found => Cost { requests: 3 + 2 * found, charged: 3 + 2 * found },
            };
            budget.spend(cost);
            let hour = &mut hours[(now / 3600) as usize];
            (hour.0, hour.1) = (hour.0 + u64::from(cost.requests), hour.1 + u64::from(cost.charged));
            let activity = Activity { has_pulls: true, quiet: quiet[number], ..Activity::default() };
            due.push(Reverse((now + interval(activity, at(now)).as_secs() as i64, number)));
        }
    }
    delays.sort_unstable();
    Day {
        requests: hours.iter().map(|hour| hour.0).max().unwrap(),
        charged: hours.iter().map(|hour| hour.1).max().unwrap(),
        median: delays[delays.len() / 2],
        longest: *delays.last().unwrap(),
    }
}

#[test]
fn ten_thousand_pull_requests_stay_within_a_quarter_of_the_limit() {
    for (repositories, is_free, median, longest) in [
        (500, true, 1200, 7200),
        (500, false, 3600, 14_400),
        (10_000, true, 14_400, 43_200),
        (10_000, false, 21_600, 86_400),
    ] {
        let day = simulate(repositories, COMMENTS, is_free);
        let case = format!("{repositories} repositories, unchanged answers are free: {is_free}: {day:?}");
        assert!(day.charged <= 5_000 / SHARE && day.requests <= 54_000 / SHARE, "{case}");
        assert!(day.median <= median && day.longest <= longest, "{case}");
    }
}
