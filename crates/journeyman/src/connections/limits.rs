//! The limits of open connections.

/// The default maximum number of connections: more would need memory that few machines have to spare.
const USUAL: usize = 16_384;

/// The fraction of the connections that one address may have by default: one quarter.
const OF_ONE_ADDRESS: usize = 4;

/// The number of descriptors for files, the database, and everything else that a process needs.
const OWN_DESCRIPTORS: usize = 512;

/// The number of descriptors of a run: pipes of git and of the agent, and the agent's outbound proxies.
const RUN_DESCRIPTORS: usize = 128;

/// The limits of open connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The limit for all addresses together.
    pub(crate) total: usize,
    /// The limit for one address.
    pub(crate) per_address: usize,
}

/// Derives the limits from the settings (`None` if not set) and from the limit of open files (`None` if there is none).
/// `runs` and `database` are the numbers of concurrent runs and of database connections.
pub(crate) fn limits(
    total: Option<usize>,
    per_address: Option<usize>,
    files: Option<usize>,
    runs: usize,
    database: usize,
) -> Limits {
    let files = files.unwrap_or(usize::MAX);
    let others = OWN_DESCRIPTORS.saturating_add(runs.saturating_mul(RUN_DESCRIPTORS)).saturating_add(database);
    // If there are few descriptors at all, connections get half of them.
    let possible = files.saturating_sub(others).max(files / 2);
    let total = total.unwrap_or(USUAL).min(possible).max(2);
    let per_address = per_address.unwrap_or(total / OF_ONE_ADDRESS).clamp(1, total);
    Limits { total, per_address }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_left_for_everything_else() {
        let cases = [
            ((None, None, None), (16_384, 4096)),
            ((None, None, Some(1_048_576)), (16_384, 4096)),
            ((None, None, Some(16_384)), (15_350, 3837)),
            ((None, None, Some(1024)), (512, 128)),
            ((Some(50_000), None, Some(1_048_576)), (50_000, 12_500)),
            ((Some(50_000), Some(100), Some(16_384)), (15_350, 100)),
            ((Some(20), Some(50), None), (20, 20)),
        ];
        for ((total, per_address, files), (all, one)) in cases {
            let found = limits(total, per_address, files, 4, 10);
            assert_eq!(found, Limits { total: all, per_address: one }, "{total:?} {per_address:?} {files:?}");
        }
    }
}
