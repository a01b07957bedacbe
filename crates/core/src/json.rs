//! Repair of JSON that some programs write incorrectly.

use std::borrow::Cow;

/// The escape of the replacement character, U+FFFD.
const REPLACEMENT: &str = "\\ufffd";

/// Replaces escapes of lone surrogates, such as `\ud83d` without a second half, with `\ufffd`. Programs that cut text
/// in the middle of an emoji write such escapes (`JSON.stringify` before ECMAScript 2019, and everything that escapes
/// each UTF-16 unit separately). Strings in Rust cannot hold lone surrogates, so a parser rejects the whole text. All
/// other text is unchanged.
#[must_use]
pub fn replace_lone_surrogates(text: &str) -> Cow<'_, str> {
    let mut replaced = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = text[at..].find('\\') {
        let start = at + found;
        let Some(unit) = unit_at(text, start) else {
            // Another escape, which takes two characters; both are ASCII in valid JSON.
            at = start + 1 + text[start + 1..].chars().next().map_or(0, char::len_utf8);
            continue;
        };
        at = start + UNIT_LENGTH;
        let is_pair = is_high(unit) && unit_at(text, at).is_some_and(is_low);
        if is_pair {
            at += UNIT_LENGTH;
        } else if is_high(unit) || is_low(unit) {
            replaced.push_str(&text[copied..start]);
            replaced.push_str(REPLACEMENT);
            copied = at;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    replaced.push_str(&text[copied..]);
    Cow::Owned(replaced)
}

/// The length of an escape such as `\ud83d`.
const UNIT_LENGTH: usize = 6;

/// Reads the UTF-16 unit of an escape that begins at byte `start`; `None` if no such escape begins there.
fn unit_at(text: &str, start: usize) -> Option<u16> {
    let digits = text.get(start..start + UNIT_LENGTH)?.strip_prefix("\\u")?;
    // `from_str_radix` also accepts a sign.
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
}

const fn is_high(unit: u16) -> bool {
    matches!(unit, 0xd800..=0xdbff)
}

const fn is_low(unit: u16) -> bool {
    matches!(unit, 0xdc00..=0xdfff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_surrogates_are_replaced_and_nothing_else() {
        for (text, expected) in [
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""a\uD83D b""#, r#""a\ufffd b""#),
            (r#""\ude00x""#, r#""\ufffdx""#),
            (r#""\ude00\ud83d""#, r#""\ufffd\ufffd""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\ud83d\n""#, r#""\ufffd\n""#),
            (r#""\ud83dé\\""#, r#""\ufffdé\\""#),
        ] {
            assert_eq!(replace_lone_surrogates(text), expected, "{text}");
        }
    }

    #[test]
    fn other_text_is_borrowed() {
        for text in [
            "",
            r#""\ud83d\ude00""#,
            r#""\\ud83d""#,
            r#""\u00e9 \" \\ \/""#,
            r#""\u+83d""#,
            r#""\ud8""#,
            "\\",
            "\\é",
            "é😀",
        ] {
            assert!(matches!(replace_lone_surrogates(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }
}
