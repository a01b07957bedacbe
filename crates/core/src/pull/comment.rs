//! Comments on pull requests: their form, and messages to jobs in them.

/// The mention that makes a comment a message to the job, if the comment begins with it.
const MENTION: &str = "@journeyman";

/// The maximum length of a comment, in characters.
const MAX_CHARS: usize = 60_000;

/// Checks the text of a comment.
///
/// # Errors
/// The error says which texts are allowed.
pub fn check(body: &str) -> Result<(), String> {
    if body.trim().is_empty() || body.contains('\0') || body.chars().count() > MAX_CHARS {
        return Err(format!("a comment has 1 to {MAX_CHARS} characters, and no NUL character"));
    }
    Ok(())
}

/// Returns the message to the job in a comment that begins with the mention.
#[must_use]
pub fn prompt(body: &str) -> Option<&str> {
    let rest = body.trim().strip_prefix(MENTION)?;
    // `@journeymanship` is another name.
    let is_word = rest.chars().next().is_none_or(|next| !next.is_alphanumeric() && next != '-' && next != '_');
    let rest = rest.trim_start_matches([':', ',']).trim();
    (is_word && !rest.is_empty()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_that_begins_with_the_mention_is_a_message() {
        for (body, expected) in [
            ("@journeyman add a test", Some("add a test")),
            (" @journeyman: add a test\nplease ", Some("add a test\nplease")),
            ("@journeyman", None),
            ("@journeyman-bot do it", None),
            ("@journeymanship", None),
            ("ask @journeyman to do it", None),
        ] {
            assert_eq!(prompt(body), expected, "{body:?}");
        }
    }

    #[test]
    fn a_comment_is_not_blank_and_not_too_long() {
        for (body, is_valid) in [("x", true), (" \n", false), ("a\0b", false), (&"x".repeat(60_001), false)] {
            assert_eq!(check(body).is_ok(), is_valid, "{} characters", body.len());
        }
    }
}
