//! Times on pages: relative, with the absolute time as a tooltip and in machine-readable form. The server renders UTC,
//! because it does not know the reader's time zone; the script converts it.

use std::fmt;

use askama::filters::HtmlSafe;
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

impl Moment {
    /// Creates a moment whose distance is relative to `now`.
    pub(crate) fn new(at: Timestamp, now: Timestamp) -> Self {
        let iso = at.to_string();
        let text = match iso.split_once('T') {
            Some((date, time)) => format!("{date} {} UTC", time.get(..5).unwrap_or(time)),
            None => iso.clone(),
        };
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

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
