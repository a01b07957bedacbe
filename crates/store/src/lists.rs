//! Lists of jobs and pull requests, the same for both databases: the index to read a list from, and its start.
//!
//! A list without a search is read in order from an index. A search reads titles until it has found enough jobs. If
//! nothing matches, it reads all titles, so it reads them from the index (docs/decisions/0026-lists.md).

use journeyman_core::job::JobStatus;
use journeyman_core::ports::{JobFilter, PullCounts, PullFilter};
use journeyman_core::pull::PullState;

/// The statement that reads a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listing {
    /// Reads the index by project.
    All,
    /// Reads the index by project and status. A search for such a status reads the jobs themselves, because there are
    /// few of them.
    OfStatus,
    /// Searches the titles in the index.
    Search,
}

impl Listing {
    /// Returns the statement for a filter.
    pub(crate) fn of(filter: &JobFilter) -> Self {
        match (filter.status, &filter.title_contains) {
            // Over time, active and failed jobs become a small fraction of all jobs.
            (Some(JobStatus::Active | JobStatus::Failed), _) | (Some(_), None) => Self::OfStatus,
            (_, Some(_)) => Self::Search,
            (None, None) => Self::All,
        }
    }
}

/// Returns the exclusive start of a list: the creation time in microseconds and the id of a job that need not exist.
pub(crate) fn beginning(filter: &JobFilter) -> (i64, String) {
    let after = filter.after.map(|cursor| (cursor.created_at.as_micros(), cursor.id.to_string()));
    // No id sorts before the empty string, so jobs created exactly at this time are excluded.
    let before = filter.created_before.map(|before| (before.as_micros(), String::new()));
    after.into_iter().chain(before).min().unwrap_or((i64::MAX, String::new()))
}

/// Returns the exclusive start of a list of pull requests: a creation time in microseconds, and a number.
pub(crate) fn beginning_of_pulls(filter: &PullFilter) -> (i64, i64) {
    let start = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    filter.after.map_or((i64::MAX, i64::MAX), |after| (after.created_at.as_micros(), start(after.number)))
}

/// Adds up the numbers of pull requests by state.
pub(crate) fn pull_counts(counts: Vec<(PullState, u64)>) -> PullCounts {
    let mut sums = PullCounts::default();
    counts.into_iter().for_each(|(state, count)| sums.add(state, count));
    sums
}

#[cfg(test)]
mod tests {
    use journeyman_core::ids::JobId;
    use journeyman_core::ports::Cursor;
    use journeyman_core::time::Timestamp;
    use uuid::Uuid;

    use super::*;

    fn filter(status: Option<JobStatus>, text: Option<&str>) -> JobFilter {
        let title_contains = text.map(str::to_owned);
        JobFilter { status, title_contains, ..JobFilter::newest("shop".parse().unwrap(), 1) }
    }

    #[test]
    fn each_filter_uses_the_index_that_serves_it() {
        for (status, text, expected) in [
            (None, None, Listing::All),
            (None, Some("x"), Listing::Search),
            (Some(JobStatus::Completed), None, Listing::OfStatus),
            (Some(JobStatus::Completed), Some("x"), Listing::Search),
            (Some(JobStatus::Failed), Some("x"), Listing::OfStatus),
        ] {
            assert_eq!(Listing::of(&filter(status, text)), expected, "{status:?} {text:?}");
        }
    }

    #[test]
    fn a_list_starts_at_the_earlier_of_its_two_bounds() {
        let all = filter(None, None);
        assert_eq!(beginning(&all), (i64::MAX, String::new()));
        let at = Timestamp::from_micros;
        let id = JobId::from_uuid(Uuid::from_u128(7));
        let after = Some(Cursor { created_at: at(5), id });
        assert_eq!(beginning(&JobFilter { after, ..all.clone() }), (5, id.to_string()));
        let both = |before| JobFilter { after, created_before: Some(at(before)), ..all.clone() };
        assert_eq!(beginning(&both(5)), (5, String::new()));
        assert_eq!(beginning(&both(6)), (5, id.to_string()));
    }
}
