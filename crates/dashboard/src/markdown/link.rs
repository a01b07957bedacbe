//! The rules for links.

use std::borrow::Cow;
use std::ops::Range;

use crate::visible;

/// The allowed schemes. Only absolute URLs become links, never paths of the dashboard.
const SCHEMES: [&str; 3] = ["https://", "http://", "mailto:"];

/// Returns true if a link may lead to this URL.
pub(super) fn is_allowed(address: &str) -> bool {
    let starts_with =
        |scheme: &&str| address.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    // Browsers remove tabs and newlines and turn backslashes into slashes; valid URLs have no quotes and no angle
    // brackets; bidirectional controls deceive readers.
    SCHEMES.iter().any(starts_with)
        && !address.contains(|c: char| c.is_whitespace() || matches!(c, '<' | '>' | '"' | '`' | '\\'))
        && matches!(visible::line(address), Cow::Borrowed(_))
}

/// Returns true for a link of an article to a section of the same page, or to another page of the documentation.
pub(super) fn is_own(address: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '#' | '-' | '_' | '.');
    (address.starts_with('#') || address.starts_with("/docs")) && address.chars().all(is_plain)
}

/// Finds the first http or https URL in a text without link syntax.
pub(super) fn bare(text: &str) -> Option<Range<usize>> {
    text.match_indices("http").find_map(|(start, _)| {
        let (before, rest) = (text.get(..start)?, text.get(start..)?);
        let scheme = SCHEMES.iter().find(|scheme| rest.starts_with(**scheme))?;
        if before.ends_with(char::is_alphanumeric) {
            return None;
        }
        // A host name must follow the scheme. This check comes first, because a search for the end of each false match
        // would take quadratic time.
        if !rest.get(scheme.len()..)?.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return None;
        }
        let end =
            rest.find(|c: char| !c.is_ascii_graphic() || matches!(c, '<' | '>' | '"' | '`')).unwrap_or(rest.len());
        Some(start..start + without_punctuation(rest.get(..end)?))
    })
}

/// Returns the length of a URL without the punctuation that belongs to the surrounding sentence.
fn without_punctuation(address: &str) -> usize {
    let count = |sign: u8| address.bytes().filter(|byte| *byte == sign).count();
    let (opened, mut closed) = (count(b'('), count(b')'));
    let kept = address.trim_end_matches(|c: char| match c {
        '?' | '!' | '.' | ',' | ':' | ';' | '*' | '_' | '~' | '\'' => true,
        // A parenthesis that was opened in the URL is part of it.
        ')' if closed > opened => {
            closed -= 1;
            true
        }
        _ => false,
    });
    kept.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_urls_with_known_schemes_are_allowed() {
        for address in ["https://x.y", "http://x.y/a?b#c", "mailto:a@b.c", "HTTPS://x.y", "https://x.y/ä"] {
            assert!(is_allowed(address), "{address}");
        }
        for address in [
            "",
            "/projects",
            "//x.y",
            "#files",
            "x.html",
            "javascript:alert(1)",
            "JaVaScRiPt:alert(1)",
            "java\tscript:alert(1)",
            " https://x.y",
            "https://x.y/a b",
            "https://x.y/\u{202e}",
            "https://x.y/\u{1}",
            "https://x.y/<b>",
            "https://x.y/\"",
            "https://x.y\\@z",
            "data:text/html,x",
            "vbscript:x",
            "file:///etc/passwd",
            "https:x.y",
            "https:/x.y",
            "ä://x",
        ] {
            assert!(!is_allowed(address), "{address}");
        }
    }

    #[test]
    fn links_of_articles_lead_to_sections_and_to_the_documentation() {
        for address in ["#errors", "/docs", "/docs/guides/errors#what-to-do", "/docs/openapi.json"] {
            assert!(is_own(address), "{address}");
        }
        for address in ["", "/projects", "//docs", "/docs?x=y", "/docs/\"", "javascript:x", "#a b"] {
            assert!(!is_own(address), "{address}");
        }
    }

    #[test]
    fn bare_urls_are_found() {
        for (text, found) in [
            ("see https://x.y/a_b.", Some("https://x.y/a_b")),
            ("(https://x.y)", Some("https://x.y")),
            ("https://x.y/a_(b)", Some("https://x.y/a_(b)")),
            ("(https://x.y/a_(b)).", Some("https://x.y/a_(b)")),
            ("http://x.y?a=b&c, then", Some("http://x.y?a=b&c")),
            ("https://x.y\"onclick=x", Some("https://x.y")),
            ("https://x.y<b>", Some("https://x.y")),
            ("https://x.y/\u{202e}gpj", Some("https://x.y/")),
            ("xhttps://x.y", None),
            ("https://", None),
            ("https://.", None),
            ("http and https", None),
            ("javascript:https//x", None),
            ("HTTPS://x.y", None),
            ("", None),
        ] {
            assert_eq!(bare(text).map(|range| &text[range]), found, "{text}");
        }
    }
}
