//! The period of a report.

use journeyman_core::usage::{format_day, parse_day};

use crate::words;

/// The maximum number of days: a leap year.
const MAX_DAYS: i64 = 366;

/// A period of whole days in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Period {
    /// The first day, as [`journeyman_core::model::price::day`] numbers it.
    pub(super) first: i64,
    /// The last day.
    pub(super) last: i64,
    /// The number of days, if the period was chosen as the last days up to today.
    pub(super) days: Option<u32>,
}

impl Period {
    /// Returns the last days up to `today`.
    pub(super) fn newest(days: u32, today: i64) -> Self {
        Self { first: today - (i64::from(days) - 1), last: today, days: Some(days) }
    }

    /// Reads the period of a URL: a number of days, or a first and a last day. Without any, it is the last 30 days.
    ///
    /// # Errors
    /// Returns what is wrong with a value.
    pub(super) fn of(days: Option<&str>, from: Option<&str>, to: Option<&str>, today: i64) -> Result<Self, String> {
        let given = |text: Option<&str>| text.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
        let date = |name: &str, text: Option<String>| {
            let wrong = |text: &String| format!("{name}: {text:?} is not a date such as 2026-11-23");
            text.map(|text| parse_day(&text).ok_or_else(|| wrong(&text))).transpose()
        };
        let (days, from, to) = (given(days), date("from", given(from))?, date("to", given(to))?);
        let period = match (days, from, to) {
            (_, Some(first), last) => Self { first, last: last.unwrap_or(today), days: None },
            (_, None, Some(last)) => Self { first: last - 29, last, days: None },
            (Some(days), None, None) => {
                let count = days.parse::<u32>().ok().filter(|count| (1..=MAX_DAYS).contains(&i64::from(*count)));
                let wrong = || format!("days: {days:?} is not a number from 1 to {MAX_DAYS}");
                Self::newest(count.ok_or_else(wrong)?, today)
            }
            (None, None, None) => Self::newest(30, today),
        };
        if period.first > period.last {
            return Err("from: must not be after to".to_owned());
        }
        if period.length() > MAX_DAYS {
            return Err(format!("from: a period has at most {MAX_DAYS} days"));
        }
        Ok(period)
    }

    /// Returns the number of days.
    pub(super) const fn length(&self) -> i64 {
        self.last - self.first + 1
    }

    /// Returns the period of the same length that ends before this one.
    pub(super) const fn before(&self) -> Self {
        Self { first: self.first - self.length(), last: self.first - 1, days: None }
    }

    /// Returns the query that selects this period.
    pub(super) fn query(&self) -> String {
        match self.days {
            Some(days) => format!("days={days}"),
            None => format!("from={}&to={}", format_day(self.first), format_day(self.last)),
        }
    }

    /// Returns the first and the last day for the name of a file.
    pub(super) fn file_name(&self) -> String {
        format!("{}-{}", format_day(self.first), format_day(self.last))
    }

    /// Returns the period in words: `October 24 to November 22, 2026`.
    pub(super) fn text(&self) -> String {
        let year = |day: i64| format_day(day).chars().take(4).collect::<String>();
        let (first, last) = (year(self.first), year(self.last));
        let end = format!("{}, {last}", words::date(self.last));
        if self.first == self.last {
            return end;
        }
        let begin = words::date(self.first);
        if first == last { format!("{begin} to {end}") } else { format!("{begin}, {first} to {end}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(text: &str) -> i64 {
        parse_day(text).unwrap()
    }

    #[test]
    fn a_period_is_a_number_of_days_or_two_dates() {
        let today = day("2026-11-22");
        let of = |days, from, to| Period::of(days, from, to, today);
        assert_eq!(of(None, None, None), Ok(Period::newest(30, today)));
        assert_eq!(of(None, None, None).unwrap().text(), "October 24 to November 22, 2026");
        assert_eq!(of(Some("7"), Some(" "), Some("")).unwrap().first, day("2026-11-16"));
        let custom = of(Some("7"), Some("2025-12-30"), Some("2026-01-02")).unwrap();
        assert_eq!((custom.length(), custom.days), (4, None));
        assert_eq!(custom.text(), "December 30, 2025 to January 2, 2026");
        assert_eq!(custom.query(), "from=2025-12-30&to=2026-01-02");
        assert_eq!(custom.before().text(), "December 26 to December 29, 2025");
        assert_eq!(of(None, None, Some("2026-01-30")).unwrap().first, day("2026-01-01"));
        assert_eq!(of(Some("1"), None, None).unwrap().text(), "November 22, 2026");
    }

    #[test]
    fn a_wrong_period_is_named() {
        let of = |days, from, to| Period::of(days, from, to, day("2026-11-22")).unwrap_err();
        assert!(of(Some("x"), None, None).contains("days: \"x\""));
        assert!(of(Some("0"), None, None).contains("1 to 366") && of(Some("367"), None, None).contains("1 to 366"));
        assert!(of(None, Some("2026-13-01"), None).contains("from: \"2026-13-01\" is not a date"));
        assert!(of(None, Some("2026-11-23"), None).contains("must not be after to"));
        assert!(of(None, Some("2020-01-01"), None).contains("at most 366 days"));
    }
}
