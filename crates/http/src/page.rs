//! Pages of lists: the parameters of a request, and the end of a page.

use std::str::FromStr;

use serde::Deserialize;
use utoipa::IntoParams;

use crate::error::{ApiError, ErrorCode};

/// The maximum number of entries on a page.
pub(crate) const MOST: usize = 100;

/// The largest number in a request: the largest integer that a JavaScript number represents exactly.
pub(crate) const LARGEST_NUMBER: u64 = (1 << 53) - 1;

/// The size of the texts on a page, in bytes, after which the page ends early.
const FULL: usize = 1 << 20;

/// The parameters of a page.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// The maximum number of entries on the page; by default, 100.
    #[param(minimum = 1, maximum = 100)]
    pub(crate) limit: Option<usize>,
    /// The `nextCursor` of the previous page.
    #[param(min_length = 1)]
    pub(crate) cursor: Option<String>,
}

impl PageQuery {
    /// Reads the parameters: the limit, and the ID after which the page begins.
    pub(crate) fn read<I: FromStr>(&self) -> Result<(usize, Option<I>), ApiError> {
        Ok((limit(self.limit, MOST)?, self.cursor.as_deref().map(cursor).transpose()?))
    }
}

/// Checks the parameter `limit`.
pub(crate) fn limit(given: Option<usize>, default: usize) -> Result<usize, ApiError> {
    let limit = given.unwrap_or(default);
    if (1..=MOST).contains(&limit) {
        return Ok(limit);
    }
    Err(ApiError::bad_request(ErrorCode::InvalidQuery, format!("limit: must be from 1 to {MOST}")))
}

/// Parses the parameter `cursor`.
pub(crate) fn cursor<I: FromStr>(text: &str) -> Result<I, ApiError> {
    text.parse().map_err(|_| invalid_cursor())
}

/// Returns the error for a cursor that is not from an earlier page.
pub(crate) fn invalid_cursor() -> ApiError {
    ApiError::bad_request(ErrorCode::InvalidQuery, "cursor: must be the nextCursor of an earlier page")
}

/// Cuts a list, of which one more entry than `limit` was read, to a page. Returns the cursor of the next page, if there
/// is one.
pub(crate) fn cut<T>(entries: &mut Vec<T>, limit: usize, cursor: impl Fn(&T) -> String) -> Option<String> {
    let is_last = entries.len() <= limit;
    entries.truncate(limit);
    entries.last().filter(|_| !is_last).map(cursor)
}

/// Cuts a short list that was read as a whole to the page after the entry with the ID `after`. Returns the cursor of the
/// next page, if there is one. If that entry was removed, the page is empty.
pub(crate) fn cut_after<T, I: PartialEq + ToString>(
    entries: &mut Vec<T>,
    after: Option<I>,
    limit: usize,
    id: impl Fn(&T) -> I,
) -> Option<String> {
    begin_after(entries, after, &id);
    cut(entries, limit, |entry| id(entry).to_string())
}

/// Removes the entries of a list up to the one with the ID `after`, or all entries if none has this ID.
pub(crate) fn begin_after<T, I: PartialEq>(entries: &mut Vec<T>, after: Option<I>, id: impl Fn(&T) -> I) {
    if let Some(after) = after {
        let begin = entries.iter().position(|entry| id(entry) == after).map_or(entries.len(), |index| index + 1);
        entries.drain(..begin);
    }
}

/// Like [`cut`], for entries with texts of `size` bytes: a page with much text ends before `limit`.
pub(crate) fn cut_by_size<T>(
    entries: &mut Vec<T>,
    limit: usize,
    size: impl Fn(&T) -> usize,
    cursor: impl Fn(&T) -> String,
) -> Option<String> {
    let mut bytes = 0;
    let fitting = entries.iter().take_while(|entry| {
        let fits = bytes < FULL;
        bytes += size(entry);
        fits
    });
    let fitting = fitting.count();
    cut(entries, limit.min(fitting), cursor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_at_its_limit_or_when_it_is_full() {
        let page = |sizes: &[usize], limit| {
            let mut entries = sizes.to_vec();
            let next = cut_by_size(&mut entries, limit, |size| *size, ToString::to_string);
            (entries.len(), next)
        };
        assert_eq!(page(&[], 2), (0, None));
        assert_eq!(page(&[1, 2], 2), (2, None));
        assert_eq!(page(&[1, 2, 3], 2), (2, Some("2".to_owned())));
        assert_eq!(page(&[FULL, 2, 3], 5), (1, Some(FULL.to_string())), "the next entry is on the next page");
        assert_eq!(page(&[FULL - 1, FULL, 3], 5).0, 2, "an entry is never cut");
        assert_eq!(page(&[FULL * 9], 5), (1, None));
    }

    #[test]
    fn a_page_of_a_whole_list_begins_after_an_entry() {
        let page = |after| {
            let mut entries = vec![3, 5, 8];
            let next = cut_after(&mut entries, after, 2, |entry| *entry);
            (entries, next)
        };
        assert_eq!(page(None), (vec![3, 5], Some("5".to_owned())));
        assert_eq!(page(Some(5)), (vec![8], None));
        assert_eq!(page(Some(4)), (vec![], None), "the entry was removed");
    }

    #[test]
    fn the_parameters_of_a_page_are_checked() {
        let query = |limit, cursor: Option<&str>| PageQuery { limit, cursor: cursor.map(str::to_owned) };
        assert_eq!(query(None, None).read::<u64>().ok(), Some((MOST, None)));
        assert_eq!(query(Some(7), Some("12")).read::<u64>().ok(), Some((7, Some(12))));
        for wrong in [query(Some(0), None), query(Some(101), None), query(None, Some("x"))] {
            assert!(wrong.read::<u64>().is_err(), "{wrong:?}");
        }
    }
}
