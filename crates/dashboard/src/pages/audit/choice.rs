//! The choices of a filter.

use crate::visible;

/// A choice of a filter: the value, the label, and whether it is chosen.
pub(super) struct Choice {
    pub(super) value: String,
    pub(super) label: String,
    pub(super) is_chosen: bool,
}

/// Returns the choices of a filter.
pub(super) fn choices<'a>(known: impl Iterator<Item = (&'a str, &'a str)>, chosen: Option<&str>) -> Vec<Choice> {
    let choice = |(value, label): (&str, &str)| Choice {
        value: value.to_owned(),
        label: visible::line(label).into_owned(),
        is_chosen: chosen == Some(value),
    };
    known.map(choice).collect()
}
