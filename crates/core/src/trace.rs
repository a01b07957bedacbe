//! The trace context of a request (<https://www.w3.org/TR/trace-context/>), which a message keeps so that the trace of
//! its run can refer to the request that caused it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A trace ID, the ID of the span that sent the request, and the trace flags, in the format of version 00 of the header
/// `traceparent`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TraceParent(String);

/// An error for a text that is not a trace context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not a traceparent of the W3C trace context")]
pub struct InvalidTraceParent;

impl TraceParent {
    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the trace ID: 32 hexadecimal digits.
    #[must_use]
    pub fn trace_id(&self) -> &str {
        self.0.split('-').nth(1).unwrap_or_default()
    }

    /// Returns the span ID: 16 hexadecimal digits.
    #[must_use]
    pub fn span_id(&self) -> &str {
        self.0.split('-').nth(2).unwrap_or_default()
    }

    /// Returns whether the sender records the trace.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        let flags = self.0.split('-').nth(3).and_then(|flags| u8::from_str_radix(flags, 16).ok());
        flags.is_some_and(|flags| flags & 1 == 1)
    }
}

impl FromStr for TraceParent {
    type Err = InvalidTraceParent;

    /// Parses the header. A later version of the header may have more fields, which are ignored.
    fn from_str(text: &str) -> Result<Self, InvalidTraceParent> {
        let is_hex = |text: &str, length: usize| {
            text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        };
        let is_id = |text: &str, length| is_hex(text, length) && text.bytes().any(|byte| byte != b'0');
        let mut fields = text.splitn(5, '-');
        let mut next = || fields.next().ok_or(InvalidTraceParent);
        let (version, trace, span, flags) = (next()?, next()?, next()?, next()?);
        let has_more = fields.next().is_some();
        let is_valid = is_hex(version, 2) && version != "ff" && is_id(trace, 32) && is_id(span, 16) && is_hex(flags, 2);
        if !is_valid || (version == "00" && has_more) {
            return Err(InvalidTraceParent);
        }
        Ok(Self(format!("00-{trace}-{span}-{flags}")))
    }
}

impl TryFrom<String> for TraceParent {
    type Error = InvalidTraceParent;

    fn try_from(text: String) -> Result<Self, InvalidTraceParent> {
        text.parse()
    }
}

impl From<TraceParent> for String {
    fn from(parent: TraceParent) -> Self {
        parent.0
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification.
    const EXAMPLE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn valid_headers_are_parsed() {
        let parent: TraceParent = EXAMPLE.parse().unwrap();
        assert_eq!(parent.as_str(), EXAMPLE);
        assert_eq!(parent.trace_id(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(parent.span_id(), "b7ad6b7169203331");
        assert!(parent.is_sampled());
        let later = EXAMPLE.replacen("00", "cc", 1) + "-what-the-future-has";
        assert_eq!(later.parse::<TraceParent>().unwrap(), parent);
        let not_sampled: TraceParent = EXAMPLE.replace("-01", "-00").parse().unwrap();
        assert!(!not_sampled.is_sampled());
    }

    #[test]
    fn invalid_headers_are_refused() {
        for text in [
            "",
            "00",
            &EXAMPLE[..54],
            &format!("{EXAMPLE}-more"),
            &EXAMPLE.replacen("00", "ff", 1),
            &EXAMPLE.to_ascii_uppercase(),
            &EXAMPLE.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &EXAMPLE.replace("b7ad6b7169203331", &"0".repeat(16)),
            &EXAMPLE.replace('-', "_"),
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
        ] {
            assert_eq!(text.parse::<TraceParent>(), Err(InvalidTraceParent), "{text}");
        }
    }
}
