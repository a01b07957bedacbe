//! Words for commands that people copy into a shell. git allows `$(…)` in the name of a branch.

use std::borrow::Cow;

/// The text as one word of a POSIX shell, quoted where it must be.
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
    fn a_word_stays_one_word() {
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
