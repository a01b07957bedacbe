//! Times on pages: how long ago, with the whole time as a tooltip and for machines. Always UTC, for a page knows no zone;
//! the script says it in the reader's.

use std::fmt;

use askama::filters::HtmlSafe;
use journeyman_core::time::Timestamp;

use crate::words;

/// A time, as the element `<time>`.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    /// `2026-11-21T01:25:30.123Z`
    iso: String,
    /// `2026-11-21 01:25 UTC`
    text: String,
    /// `3 min ago`, `in 4 d`
    relative: String,
}

impl Moment {
    /// As seen from `now`.
    pub(crate) fn new(at: Timestamp, now: Timestamp) -> Self {
        let iso = at.to_string();
        let text = match iso.split_once('T') {
            Some((date, time)) => format!("{date} {} UTC", time.get(..5).unwrap_or(time)),
            None => iso.clone(),
        };
        let relative = if at > now {
            // Rounded up: what was made for 90 days a moment ago ends in 90.
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
        write!(f, "<time datetime=\"{iso}\" title=\"{text}\">{relative}</time>")
    }
}

/// Digits, letters and marks of ours alone.
impl HtmlSafe for Moment {}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_moment_is_told_from_now() {
        let at = Timestamp::from_micros(1_795_224_330_123_456);
        let now = at + Duration::from_secs(200);
        let whole = "<time datetime=\"2026-11-21T01:25:30.123Z\" title=\"2026-11-21 01:25 UTC\">";
        assert_eq!(Moment::new(at, now).to_string(), format!("{whole}3 min ago</time>"));
        assert_eq!(Moment::new(at, at).to_string(), format!("{whole}now</time>"));
        assert_eq!(Moment::new(at, at - Duration::from_secs(7200)).to_string(), format!("{whole}in 2 h</time>"));
    }
}
