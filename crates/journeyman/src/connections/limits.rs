//! How many connections there may be.

/// Connections at most, unless the settings say otherwise: more need memory that few machines have to spare.
const USUAL: usize = 16_384;

/// The part of them that one address may have.
const OF_ONE_ADDRESS: usize = 4;

/// Descriptors for files, the database, and what else a process needs.
const OWN_DESCRIPTORS: usize = 512;

/// Descriptors of a run: pipes of git and of the agent, its ways out of the sandbox.
const RUN_DESCRIPTORS: usize = 128;

/// Limits of open connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// For all.
    pub(crate) total: usize,
    /// For one address.
    pub(crate) per_address: usize,
}

/// Derives the limits from what the settings say (`None` where they say nothing) and from the limit of open files
/// (`None` where there is none); `runs` and `database` are the runs and database connections at a time.
pub(crate) fn limits(
    total: Option<usize>,
    per_address: Option<usize>,
    files: Option<usize>,
    runs: usize,
    database: usize,
) -> Limits {
    let files = files.unwrap_or(usize::MAX);
    let others = OWN_DESCRIPTORS.saturating_add(runs.saturating_mul(RUN_DESCRIPTORS)).saturating_add(database);
    // Where there are few descriptors at all, connections get half of them.
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
