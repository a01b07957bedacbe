//! Times on pages: relative, or as a date, with the absolute time as a tooltip and in machine-readable form. The server
//! renders UTC, because it does not know the reader's time zone; the script converts it.

use std::fmt;
use std::time::Duration;

use askama::filters::HtmlSafe;
use journeyman_core::model::price::day;
use journeyman_core::time::Timestamp;

use crate::words;

/// A point in time that renders as a `<time>` element.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    /// The time in ISO 8601, such as `2026-11-21T01:25:30.123Z`.
    iso: String,
    /// The text of the tooltip, such as `2026-11-21 01:25 UTC`.
    text: String,
    /// The distance to the current time, such as `3 min ago` or `in 4 d`.
    relative: String,
}

/// Returns a time in ISO 8601, its date and its minute, and the text of its tooltip.
fn parts(at: Timestamp) -> (String, String, String) {
    let iso = at.to_string();
    let (date, time) = iso.split_once('T').unwrap_or((&iso, ""));
    let minute = time.get(..5).unwrap_or(time).to_owned();
    let text = format!("{date} {minute} UTC");
    (iso, minute, text)
}

impl Moment {
    /// Creates a moment whose distance is relative to `now`.
    pub(crate) fn new(at: Timestamp, now: Timestamp) -> Self {
        let (iso, _, text) = parts(at);
        let relative = if at > now {
            // Rounded up, so that a key made for 90 days still shows `in 90 d` a few seconds later.
            format!("in {}", words::distance(words::rounded_up(at.since(now))))
        } else {
            match words::distance(now.since(at)).as_str() {
                "now" => "now".to_owned(),
                distance => format!("{distance} ago"),
            }
        };
        Self { iso, text, relative }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { iso, text, relative } = self;
        write!(f, "<time datetime=\"{iso}\" title=\"{text}\" data-relative>{relative}</time>")
    }
}

/// Safe because the text has only digits, letters and fixed punctuation.
impl HtmlSafe for Moment {}

/// The distance to the current time within which a [`Day`] has the time of the day.
const NEAR: Duration = Duration::from_hours(48);

/// A day, such as the expiry of a key, which renders as a `<time>` element: `20 Feb 2027`. A day near the current time
/// has the time of the day.
#[derive(Debug, Clone)]
pub(crate) struct Day {
    iso: String,
    /// The text of the tooltip.
    title: String,
    text: String,
    has_time: bool,
}

impl Day {
    /// Creates the day of `at`.
    pub(crate) fn new(at: Timestamp, now: Timestamp) -> Self {
        let (iso, minute, title) = parts(at);
        let has_time = at.since(now).max(now.since(at)) < NEAR;
        let date = words::full_date(day(at));
        let text = if has_time { format!("{date}, {minute} UTC") } else { date };
        Self { iso, title, text, has_time }
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { iso, title, text, has_time } = self;
        let kind = if *has_time { "time" } else { "date" };
        write!(f, "<time datetime=\"{iso}\" title=\"{title}\" data-day=\"{kind}\">{text}</time>")
    }
}

/// Safe because the text has only digits, letters and fixed punctuation.
impl HtmlSafe for Day {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_near_the_current_time_has_the_time_of_the_day() {
        let now: Timestamp = "2026-11-21T01:25:30Z".parse().unwrap();
        let far = Day::new("2027-02-20T23:59:00Z".parse().unwrap(), now).to_string();
        let whole = "<time datetime=\"2027-02-20T23:59:00.000Z\" title=\"2027-02-20 23:59 UTC\" data-day=\"date\">";
        assert_eq!(far, format!("{whole}20 Feb 2027</time>"));
        let near = Day::new("2026-11-22T01:05:00Z".parse().unwrap(), now).to_string();
        assert!(near.ends_with(" data-day=\"time\">22 Nov 2026, 01:05 UTC</time>"), "{near}");
        let past = Day::new("2026-11-01T00:00:00Z".parse().unwrap(), now).to_string();
        assert!(past.ends_with(">1 Nov 2026</time>"), "{past}");
    }

    #[test]
    fn a_moment_is_shown_relative_to_now() {
        let at = Timestamp::from_micros(1_795_224_330_123_456);
        let now = at + Duration::from_secs(200);
        let whole = "<time datetime=\"2026-11-21T01:25:30.123Z\" title=\"2026-11-21 01:25 UTC\" data-relative>";
        assert_eq!(Moment::new(at, now).to_string(), format!("{whole}3 min ago</time>"));
        assert_eq!(Moment::new(at, at).to_string(), format!("{whole}now</time>"));
        assert_eq!(Moment::new(at, at - Duration::from_secs(7200)).to_string(), format!("{whole}in 2 h</time>"));
    }
}
