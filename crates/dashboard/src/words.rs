//! Formatting of numbers, durations and sentences, and encoding of URLs.

use std::time::Duration;

use journeyman_core::usage::format_day;

/// Returns the text about a limit of attempts, after which the viewer waits for a number of seconds.
pub(crate) fn too_often(seconds: u64) -> String {
    format!("Too many attempts. Try again in {seconds} seconds.")
}

/// Formats a count with its noun: `1 file`, `2 files`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Formats a duration: `850 ms`, `12 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    let two = |large: u64, large_unit: &str, small: u64, small_unit: &str| {
        if small == 0 { format!("{large} {large_unit}") } else { format!("{large} {large_unit} {small} {small_unit}") }
    };
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        1..60 => format!("{seconds} s"),
        60..3600 => two(seconds / 60, "min", seconds % 60, "s"),
        3600..86_400 => two(seconds / 3600, "h", seconds % 3600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

/// Formats a running time: `0:42`, `4:12`, `1:02:03`. The script that keeps it current uses the same form.
pub(crate) fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// Formats a duration in a narrow column: `0.2 s`, `38 s`, `6 min`, `2 h`.
pub(crate) fn brief(time: Duration) -> String {
    match time.as_millis() {
        millis @ 0..10_000 => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        _ => distance(time),
    }
}

/// Formats a count with a comma after each three digits: `1,452`.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Rounds a duration up to the unit in which [`distance`] shows it, if it is nearly a whole number of units.
pub(crate) fn rounded_up(time: Duration) -> Duration {
    let unit = match time.as_secs() {
        0..3600 => 60,
        3600..86_400 => 3600,
        _ => 86_400,
    };
    // At most a hundredth of a unit may be missing.
    let whole = (time.as_secs() + unit / 100 + 1) / unit * unit;
    Duration::from_secs(whole.max(time.as_secs()))
}

/// Formats a distance in time with one unit: `now`, `5 s`, `3 min`, `2 h`, `4 d`, and from 100 days on `4 mo`, `3 y`.
/// `distance` in `journeyman.js` uses the same units.
pub(crate) fn distance(time: Duration) -> String {
    const DAY: u64 = 86_400;
    match time.as_secs() {
        0..5 => "now".to_owned(),
        seconds @ 5..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..DAY => format!("{} h", seconds / 3600),
        seconds if seconds < 100 * DAY => format!("{} d", seconds / DAY),
        seconds if seconds < 730 * DAY => format!("{} mo", seconds / (30 * DAY)),
        seconds => format!("{} y", seconds / (365 * DAY)),
    }
}

/// Formats a time since something happened, from one second on: `1 s`, `3 min`. `updateClocks` in `journeyman.js` uses the
/// same form.
pub(crate) fn elapsed(time: Duration) -> String {
    if time < Duration::from_secs(5) { format!("{} s", time.as_secs().max(1)) } else { distance(time) }
}

/// Formats an amount in millionths of a dollar: `$0.0042`, `$1.25`. Amounts below ten cents have four decimals.
pub(crate) fn money(micros: u64) -> String {
    if micros == 0 {
        return "$0".to_owned();
    }
    if micros < 100_000 {
        // Rounded up, so that no cost looks like zero.
        let units = micros.div_ceil(100);
        return format!("${}.{:04}", units / 10_000, units % 10_000);
    }
    let cents = micros.saturating_add(5_000) / 10_000;
    format!("${}.{:02}", cents / 100, cents % 100)
}

/// Formats a number of tokens: `950`, `12.3 k`, `4.5 M`.
pub(crate) fn tokens(count: u64) -> String {
    let tenths = |unit: u64, name: &str| {
        let tenths = count / (unit / 10);
        format!("{}.{} {name}", tenths / 10, tenths % 10)
    };
    match count {
        0..1000 => count.to_string(),
        1000..1_000_000 => tenths(1000, "k"),
        _ => tenths(1_000_000, "M"),
    }
}

/// Formats a size in units of 1000: `850 bytes`, `12 MB`, `1.4 GB`, `61 GB`.
pub(crate) fn bytes(size: u64) -> String {
    let units = [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "kB")];
    let Some((unit, name)) = units.into_iter().find(|(unit, _)| size >= *unit) else {
        return format!("{size} bytes");
    };
    let tenths = size / (unit / 10);
    if tenths < 100 { format!("{}.{} {name}", tenths / 10, tenths % 10) } else { format!("{} {name}", size / unit) }
}

/// Formats a time since something happened so that the text changes at most once a minute: `less than 1 min`, `3 min`,
/// `2 h`, `4 d`.
pub(crate) fn coarse(time: Duration) -> String {
    if time < Duration::from_secs(60) { "less than 1 min".to_owned() } else { distance(time) }
}

/// The names of the months.
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Formats a day, as [`journeyman_core::model::price::day`] numbers it, without the year: `November 22`.
pub(crate) fn date(day: i64) -> String {
    let text = format_day(day);
    let mut parts = text.rsplit('-').map(|part| part.parse::<usize>().unwrap_or_default());
    let (date, month) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let month = month.checked_sub(1).and_then(|index| MONTHS.get(index)).unwrap_or(&"");
    format!("{month} {date}")
}

/// Formats a day as [`date`] does, with three letters of the month: `Nov 22`.
pub(crate) fn short_date(day: i64) -> String {
    let text = date(day);
    let (month, date) = text.split_once(' ').unwrap_or((&text, ""));
    format!("{} {date}", month.get(..3).unwrap_or(month))
}

/// Formats a day with its year: `20 Feb 2027`.
pub(crate) fn full_date(day: i64) -> String {
    let (short, year) = (short_date(day), format_day(day));
    let (month, date) = short.split_once(' ').unwrap_or((&short, ""));
    format!("{date} {month} {}", year.rsplitn(3, '-').last().unwrap_or_default())
}

/// Converts an error text into a sentence. Error texts begin in lower case and have no period, so that they can be
/// embedded in others.
pub(crate) fn sentence(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    // The name of a field, a URL and a path keep their case.
    let keeps_case = |word: &str| word.ends_with(':') || word.contains('/') || word.trim_end_matches('.').contains('.');
    let first = if text.split(' ').next().is_some_and(keeps_case) { text.chars().take(1).collect() } else { first };
    let end = if text.ends_with(['.', '!', '?']) || text.is_empty() { "" } else { "." };
    format!("{first}{}{end}", rest.as_str())
}

/// Returns the text with its first letter in upper case.
pub(crate) fn capitalized(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default() + rest.as_str()
}

/// Lists alternatives: `open`, `open or merged`, `open, merged or closed`.
pub(crate) fn alternatives(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// Percent-encodes a text as a value in a query, or as one segment of a path.
pub(crate) fn in_query(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() + 8);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// Returns true for http and https URLs. URLs from outside with other schemes do not become links.
pub(crate) fn is_page(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

/// Returns the path to go to after the sign-in: `next` if it is a path on this site, otherwise `/`. Browsers interpret
/// `//host` and `/\host` as another site.
pub(crate) fn return_path(next: &str) -> &str {
    let is_path = next.starts_with('/') && !next.starts_with("//");
    if is_path && next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') { next } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_abbreviated() {
        assert_eq!([0, 950, 1000, 12_345, 4_567_890].map(tokens), ["0", "950", "1.0 k", "12.3 k", "4.5 M"]);
        assert_eq!(tokens(u64::MAX), "18446744073709.5 M");
        assert_eq!(money(u64::MAX), "$18446744073709.55");
        assert_eq!(
            [0, 1, 4200, 99_950, 100_000, 1_254_999].map(money),
            ["$0", "$0.0001", "$0.0042", "$0.1000", "$0.10", "$1.25"]
        );
        assert_eq!([counted(1, "file"), counted(0, "file")], ["1 file", "0 files"]);
    }

    #[test]
    fn alternatives_are_a_list() {
        let names = ["a", "b", "c"].map(str::to_owned);
        let lists = [0, 1, 2, 3].map(|count| alternatives(&names[..count]));
        assert_eq!(lists, ["", "a", "a or b", "a, b or c"]);
    }

    #[test]
    fn sizes_times_and_dates_have_one_unit() {
        let all = [0, 999, 1000, 12_400_000, 1_450_000_000, 61_900_000_000, u64::MAX].map(bytes);
        assert_eq!(all, ["0 bytes", "999 bytes", "1.0 kB", "12 MB", "1.4 GB", "61 GB", "18446744 TB"]);
        let all = [0, 59, 60, 90_000].map(|seconds| coarse(Duration::from_secs(seconds)));
        assert_eq!(all, ["less than 1 min", "less than 1 min", "1 min", "1 d"]);
        assert_eq!([date(0), date(364), short_date(31)], ["January 1", "December 31", "Feb 1"]);
        assert_eq!([full_date(0), full_date(20_869)], ["1 Jan 1970", "20 Feb 2027"]);
    }

    #[test]
    fn numbers_and_times_fit_into_narrow_columns() {
        assert_eq!([0, 18, 1452, 1_234_567].map(grouped), ["0", "18", "1,452", "1,234,567"]);
        let seconds = Duration::from_secs;
        assert_eq!([0, 42, 252, 3723].map(|time| clock(seconds(time))), ["0:00", "0:42", "4:12", "1:02:03"]);
        let all = [40, 230, 2100, 38_000, 401_000, 7_300_000].map(|ms| brief(Duration::from_millis(ms)));
        assert_eq!(all, ["0.0 s", "0.2 s", "2.1 s", "38 s", "6 min", "2 h"]);
    }

    #[test]
    fn an_error_becomes_a_sentence() {
        assert_eq!(["waiting to retry", ""].map(capitalized), ["Waiting to retry", ""]);
        for (text, shown) in [
            ("there is none", "There is none."),
            ("Already one.", "Already one."),
            ("id: must not be empty", "id: must not be empty."),
            ("checks.mode: no such mode", "checks.mode: no such mode."),
            ("checks.attempts must be from 1", "checks.attempts must be from 1."),
            ("nothing.", "Nothing."),
            ("https://git.example answers", "https://git.example answers."),
            ("acme/shop can be read", "acme/shop can be read."),
            ("", ""),
        ] {
            assert_eq!(sentence(text), shown);
        }
    }

    #[test]
    fn durations_and_distances_use_few_units() {
        let all = [850, 12_000, 185_000, 7_800_000, 273_600_000].map(|ms| duration(Duration::from_millis(ms)));
        assert_eq!(all, ["850 ms", "12 s", "3 min 5 s", "2 h 10 min", "3 d 4 h"]);
        let all = [1, 7, 200, 7800, 273_600, 11_000_000, 90_000_000].map(|s| distance(Duration::from_secs(s)));
        assert_eq!(all, ["now", "7 s", "3 min", "2 h", "3 d", "4 mo", "2 y"]);
        let all =
            [7 * 86_400 - 2, 90 * 86_400 - 30, 86_400 * 3 / 2].map(|s| distance(rounded_up(Duration::from_secs(s))));
        assert_eq!(all, ["7 d", "90 d", "1 d"]);
    }

    #[test]
    fn the_return_path_stays_on_this_site() {
        for (next, back) in [
            ("/projects/shop?q=1", "/projects/shop?q=1"),
            ("//evil.example", "/"),
            ("/\\evil.example", "/"),
            ("/\t/evil.example", "/"),
            ("/\u{1}", "/"),
            ("https://evil.example", "/"),
            ("javascript:alert(1)", "/"),
            ("", "/"),
        ] {
            assert_eq!(return_path(next), back, "{next}");
        }
    }
}
