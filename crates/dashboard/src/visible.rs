//! Visible replacements for characters that can deceive a reviewer: control characters, bidirectional controls, and
//! characters without width. The templates do the escaping of HTML, not this module.

use std::borrow::Cow;

/// Makes hidden characters in a single line visible, including newlines. Tabs stay.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    replaced(text, |c| c == '\n' || deceives(c))
}

/// Makes hidden characters in several lines visible. Newlines and tabs stay, and `\r\n` becomes `\n`.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") {
        Cow::Owned(replaced(&text.replace("\r\n", "\n"), deceives).into_owned())
    } else {
        replaced(text, deceives)
    }
}

fn deceives(c: char) -> bool {
    match c {
        '\t' | '\n' => false,
        // Bidirectional controls; then spaces without width, and tag characters, which can hide a whole text.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        '\u{200b}' | '\u{2060}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => c.is_control(),
    }
}

fn replaced(text: &str, hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match u32::from(c) {
            _ if !hidden(c) => shown.push(c),
            // The Unicode block Control Pictures has the same order as the control characters.
            code @ 0..=0x1f => shown.extend(char::from_u32(0x2400 + code)),
            0x7f => shown.push('␡'),
            code => shown.push_str(&format!("⟨U+{code:04X}⟩")),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_text_is_unchanged() {
        for text in ["", "fn main() {\t}", "größer 日本語 שלום 👩‍👩‍👧"] {
            assert!(matches!(line(text), Cow::Borrowed(same) if same == text), "{text}");
        }
        assert_eq!(lines("a\n\nb"), "a\n\nb");
        assert_eq!(lines("a\r\nb"), "a\nb");
    }

    #[test]
    fn hidden_characters_are_shown() {
        assert_eq!(line("a\u{202e}b"), "a⟨U+202E⟩b");
        assert_eq!(line("\u{0}\u{1b}[1m\r\n\u{7f}\u{85}"), "␀␛[1m␍␊␡⟨U+0085⟩");
        assert_eq!(line("\u{e0041}\u{200b}"), "⟨U+E0041⟩⟨U+200B⟩");
        assert_eq!(lines("a\rb\u{2066}"), "a␍b⟨U+2066⟩");
    }
}
