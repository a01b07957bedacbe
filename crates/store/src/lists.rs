//! How jobs are listed, the same for both databases: which index a list is read from, and where it begins.
//!
//! A list without a search comes in order out of an index. One with a search reads titles until it has found enough; where
//! nothing is found that is all of them, so they are read out of the index (docs/decisions/0026-lists.md).

use journeyman_core::job::JobStatus;
use journeyman_core::ports::JobFilter;

/// The statement that a list is read by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listing {
    /// By project.
    All,
    /// By project and status. A search among them reads the jobs themselves: there are few of such a status.
    OfStatus,
    /// By titles in the index.
    Search,
}

impl Listing {
    pub(crate) fn of(filter: &JobFilter) -> Self {
        match (filter.status, &filter.title_contains) {
            // What is active or failed is a small part of what there is, in time.
            (Some(JobStatus::Active | JobStatus::Failed), _) | (Some(_), None) => Self::OfStatus,
            (_, Some(_)) => Self::Search,
            (None, None) => Self::All,
        }
    }
}

/// The place behind which a list begins, as the microseconds and the id of a job that need not be there.
pub(crate) fn beginning(filter: &JobFilter) -> (i64, String) {
    let after = filter.after.map(|place| (place.created_at.as_micros(), place.id.to_string()));
    // No id is before the empty one: of that moment there is none in the list.
    let before = filter.created_before.map(|before| (before.as_micros(), String::new()));
    after.into_iter().chain(before).min().unwrap_or((i64::MAX, String::new()))
}

#[cfg(test)]
mod tests {
    use journeyman_core::ids::JobId;
    use journeyman_core::ports::Cursor;
    use journeyman_core::time::Timestamp;
    use uuid::Uuid;

    use super::*;

    fn filter(status: Option<JobStatus>, text: Option<&str>) -> JobFilter {
        JobFilter {
            project: "shop".parse().unwrap(),
            status,
            created_after: None,
            created_before: None,
            title_contains: text.map(str::to_owned),
            after: None,
            limit: 1,
        }
    }

    #[test]
    fn each_list_is_read_by_the_index_that_has_what_it_asks_for() {
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
    fn a_list_begins_at_the_earlier_of_its_two_bounds() {
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
