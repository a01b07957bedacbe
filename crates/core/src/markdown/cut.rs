//! Texts that are cut to a number of characters.

/// The end of a text that was cut.
const CUT: char = '…';

/// Cuts a text to a number of characters. The last one is then `…`.
#[must_use]
pub fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some(_) => text.chars().take(chars.saturating_sub(1)).chain([CUT]).collect(),
        None => text.to_owned(),
    }
}
