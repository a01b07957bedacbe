//! Numbers and times in words.

use std::time::Duration;

use journeyman_core::time::Timestamp;
use unicode_width::UnicodeWidthChar;

use super::paint::width;

/// Returns a number with its noun: `1 commit`, `2 commits`.
pub(super) fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Returns how long ago a time was, such as `5 minutes ago`. Returns a text that is not a time as it is.
pub(super) fn ago(time: &str, now: Timestamp) -> String {
    time.parse::<Timestamp>().map_or_else(|_| time.to_owned(), |at| since(now.since(at)))
}

fn since(passed: Duration) -> String {
    let seconds = passed.as_secs();
    let (count, noun) = match seconds {
        0..60 => return "just now".to_owned(),
        60..3600 => (seconds / 60, "minute"),
        3600..86_400 => (seconds / 3600, "hour"),
        86_400..2_592_000 => (seconds / 86_400, "day"),
        2_592_000..31_536_000 => (seconds / 2_592_000, "month"),
        _ => (seconds / 31_536_000, "year"),
    };
    format!("{} ago", counted(usize::try_from(count).unwrap_or(usize::MAX), noun))
}

/// Returns the distance of a time that may be in the future, such as `in 5 minutes`. Returns a text that is not a time as
/// it is.
pub(super) fn when(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Err(_) => time.to_owned(),
        Ok(at) if at > now => until(at.since(now)),
        Ok(at) => since(now.since(at)),
    }
}

fn until(left: Duration) -> String {
    // The server leaves out fractions of milliseconds: a key for 30 days must not have 29 days left at once.
    let seconds = (left + Duration::from_millis(999)).as_secs();
    let (count, noun) = match seconds {
        0..60 => return "in less than a minute".to_owned(),
        60..3600 => (seconds / 60, "minute"),
        3600..86_400 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("in {}", counted(usize::try_from(count).unwrap_or(usize::MAX), noun))
}

/// Shortens a text to at most `most` columns of a terminal.
pub(super) fn short(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    // The ellipsis takes one column.
    let mut left = most.saturating_sub(1);
    let fits = |c: &char| {
        let rest = left.checked_sub(c.width().unwrap_or(0));
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_the_noun_in_its_form() {
        assert_eq!((counted(1, "commit"), counted(0, "commit")), ("1 commit".to_owned(), "0 commits".to_owned()));
    }

    #[test]
    fn a_time_is_described_by_its_distance() {
        let day = 86_400;
        for (seconds, text) in [
            (0, "just now"),
            (59, "just now"),
            (60, "1 minute ago"),
            (7200, "2 hours ago"),
            (day, "1 day ago"),
            (45 * day, "1 month ago"),
            (800 * day, "2 years ago"),
        ] {
            assert_eq!(since(Duration::from_secs(seconds)), text);
        }
        let now = Timestamp::from_micros(120_000_000);
        assert_eq!(ago("1970-01-01T00:00:00.000Z", now), "2 minutes ago");
        assert_eq!(ago("1970-01-02T00:00:00.000Z", now), "just now", "the clock of the server may be ahead");
        assert_eq!(ago("soon", now), "soon");
    }

    #[test]
    fn a_time_in_the_future_is_described_by_its_distance_too() {
        let now = Timestamp::from_micros(120_000_500);
        for (time, text) in [
            ("1970-01-01T00:02:30.000Z", "in less than a minute"),
            ("1970-01-01T00:07:00.000Z", "in 5 minutes"),
            ("1970-01-01T01:02:00.000Z", "in 1 hour"),
            ("1970-04-01T00:02:00.000Z", "in 90 days"),
            ("1970-01-01T00:00:00.000Z", "2 minutes ago"),
            ("soon", "soon"),
        ] {
            assert_eq!(when(time, now), text, "{time}");
        }
    }

    #[test]
    fn a_long_text_is_shortened() {
        assert_eq!((short("abcdef", 4), short("abcd", 4)), ("abc…".to_owned(), "abcd".to_owned()));
        assert_eq!((short("日本語", 5), short("日本語", 4)), ("日本…".to_owned(), "日…".to_owned()));
    }
}
