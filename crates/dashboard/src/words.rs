//! Numbers and durations as people read them, and texts as parts of addresses.

use std::time::Duration;

/// `1 file`, `2 files`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// `850 ms`, `12 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`.
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

/// A distance rounded up to what [`distance`] counts it in, if nearly all of the last is there.
pub(crate) fn rounded_up(time: Duration) -> Duration {
    let unit = match time.as_secs() {
        0..3600 => 60,
        3600..86_400 => 3600,
        _ => 86_400,
    };
    // A hundredth of it may be missing.
    let whole = (time.as_secs() + unit / 100 + 1) / unit * unit;
    Duration::from_secs(whole.max(time.as_secs()))
}

/// One word for a distance in time: `now`, `5 s`, `3 min`, `2 h`, `4 d`; beyond three months `4 mo`, `3 y`. The script of the
/// pages says it in the same words.
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

/// `$0.0042`, `$1.25`: dollars, with four digits where there are only cents.
pub(crate) fn money(micros: u64) -> String {
    if micros == 0 {
        return "$0".to_owned();
    }
    if micros < 100_000 {
        // Rounded up: nothing that costs looks free.
        let units = micros.div_ceil(100);
        return format!("${}.{:04}", units / 10_000, units % 10_000);
    }
    let cents = micros.saturating_add(5_000) / 10_000;
    format!("${}.{:02}", cents / 100, cents % 100)
}

/// `950`, `12.3 k`, `4.5 M`.
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

/// A text of an error as a sentence: they begin small and have no full stop, to stand in others.
pub(crate) fn sentence(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    // A name of a field keeps its spelling.
    let first = if text.split([' ', '.']).next().is_some_and(|word| word.ends_with(':')) {
        text.chars().take(1).collect()
    } else {
        first
    };
    let end = if text.ends_with(['.', '!', '?']) || text.is_empty() { "" } else { "." };
    format!("{first}{}{end}", rest.as_str())
}

/// A text as the value of a parameter in a query, or as one part of a path.
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

/// Whether an address from outside is one that a browser opens as a page; no other becomes a link.
pub(crate) fn is_page(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

/// A way back that stays on this site: a path of ours, else the first page. A browser takes `//host` and `/\host` for
/// another site.
pub(crate) fn way_back(next: &str) -> &str {
    let is_path = next.starts_with('/') && !next.starts_with("//");
    if is_path && next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') { next } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
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
    fn an_error_becomes_a_sentence() {
        for (text, shown) in [
            ("there is none", "There is none."),
            ("Already one.", "Already one."),
            ("id: must not be empty", "id: must not be empty."),
            ("", ""),
        ] {
            assert_eq!(sentence(text), shown);
        }
    }

    #[test]
    fn times_are_short() {
        let all = [850, 12_000, 185_000, 7_800_000, 273_600_000].map(|ms| duration(Duration::from_millis(ms)));
        assert_eq!(all, ["850 ms", "12 s", "3 min 5 s", "2 h 10 min", "3 d 4 h"]);
        let all = [1, 7, 200, 7800, 273_600, 11_000_000, 90_000_000].map(|s| distance(Duration::from_secs(s)));
        assert_eq!(all, ["now", "7 s", "3 min", "2 h", "3 d", "4 mo", "2 y"]);
        let all =
            [7 * 86_400 - 2, 90 * 86_400 - 30, 86_400 * 3 / 2].map(|s| distance(rounded_up(Duration::from_secs(s))));
        assert_eq!(all, ["7 d", "90 d", "1 d"]);
    }

    #[test]
    fn the_way_back_stays_here() {
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
            assert_eq!(way_back(next), back, "{next}");
        }
    }
}
