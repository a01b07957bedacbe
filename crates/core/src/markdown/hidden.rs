//! Makes characters visible that a reader does not see.

use std::borrow::Cow;

/// The number of hidden characters in a row that are written one by one. Longer rows are counted.
const WRITTEN: usize = 4;

/// Returns the text with visible replacements for control characters, bidirectional controls, and characters without
/// width, except those that emoji and scripts need. Tabs stay. Newlines stay if the text has `several` lines.
pub(super) fn shown(text: &str, several: bool) -> Cow<'_, str> {
    let is_kept = |c: char| c == '\t' || (c == '\n' && several);
    if text.chars().all(|c| is_kept(c) || (!c.is_control() && !may_hide(c))) {
        return Cow::Borrowed(text);
    }
    let chars: Vec<char> = text.replace("\r\n", "\n").chars().collect();
    let mut shown = String::with_capacity(text.len() + 16);
    let mut at = 0;
    while let Some(c) = chars.get(at).copied() {
        let is_hidden = |at: usize| {
            chars.get(at).is_some_and(|c| {
                may_hide(*c) && !is_needed(*c, at.checked_sub(1).and_then(|b| chars.get(b)), chars.get(at + 1))
            })
        };
        let row = (at..chars.len()).take_while(|at| is_hidden(*at)).count();
        if row > WRITTEN {
            shown.push_str(&format!("⟨{row} hidden characters⟩"));
            at += row;
            continue;
        }
        match u32::from(c) {
            _ if is_kept(c) => shown.push(c),
            _ if row > 0 => shown.push_str(&format!("⟨U+{:04X}⟩", u32::from(c))),
            // The Unicode block Control Pictures has the same order as the control characters.
            code @ 0..=0x1f => shown.extend(char::from_u32(0x2400 + code)),
            0x7f => shown.push('␡'),
            code if c.is_control() => shown.push_str(&format!("⟨U+{code:04X}⟩")),
            _ => shown.push(c),
        }
        at += 1;
    }
    Cow::Owned(shown)
}

/// Returns whether a character has no width, or changes the direction of text.
fn may_hide(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns whether a character without width is needed where it is: joiners between characters beyond ASCII, and a single
/// choice of the form of an emoji.
fn is_needed(c: char, before: Option<&char>, after: Option<&char>) -> bool {
    let is_visible = |c: Option<&char>| c.is_some_and(|c| !c.is_ascii() && !may_hide(*c));
    match c {
        '\u{200c}' | '\u{200d}' => {
            (is_visible(before) || before.is_some_and(|c| *c == '\u{fe0f}')) && is_visible(after)
        }
        '\u{fe0e}' | '\u{fe0f}' => before.is_some_and(|c| "#*0123456789".contains(*c)) || is_visible(before),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_text_is_unchanged() {
        for text in ["", "größer 日本語 שלום", "👩‍👩‍👧 ⚠️ 1️⃣ ✔︎", "می‌خواهم", "a\tb"]
        {
            assert_eq!(shown(text, false), text);
        }
        assert_eq!(shown("a\r\nb", true), "a\nb");
    }

    #[test]
    fn hidden_characters_are_shown() {
        for (text, expected) in [
            ("a\u{200b}b", "a⟨U+200B⟩b"),
            ("a\u{202e}b\u{202c}", "a⟨U+202E⟩b⟨U+202C⟩"),
            ("a\u{1b}[31mb\u{7f}\u{9b}", "a␛[31mb␡⟨U+009B⟩"),
            ("a\nb", "a␊b"),
            ("a\u{e0041}\u{e0042}\u{e0043}\u{e0044}\u{e0045}b", "a⟨5 hidden characters⟩b"),
            ("😀\u{fe01}\u{fe02}", "😀⟨U+FE01⟩⟨U+FE02⟩"),
            ("a\u{200d}b", "a⟨U+200D⟩b"),
            ("a\u{ad}b\u{feff}", "a⟨U+00AD⟩b⟨U+FEFF⟩"),
        ] {
            assert_eq!(shown(text, false), expected, "{text:?}");
        }
    }
}
