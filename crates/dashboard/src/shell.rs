//! Shell quoting for commands that people copy from pages. Git allows `$(…)` in branch names.

use std::borrow::Cow;

/// Returns the text as one word of a POSIX shell, quoted if necessary.
pub(crate) fn word(text: &str) -> Cow<'_, str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.@+,=".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_are_quoted() {
        for (text, quoted) in [
            ("journeyman/fix-1a2b", "journeyman/fix-1a2b"),
            ("", "''"),
            ("a;b", "'a;b'"),
            ("$(id)", "'$(id)'"),
            ("it's", r"'it'\''s'"),
        ] {
            assert_eq!(word(text), quoted);
        }
    }
}
