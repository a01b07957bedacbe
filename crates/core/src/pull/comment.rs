//! Comments on pull requests of the built-in code host: their validation and their IDs.

use crate::hook::HostUser;

/// The ID of the service as the author of comments. IDs of users begin with `usr_`.
pub const SERVICE: &str = "journeyman";

/// The maximum length of a comment, in characters.
const MAX_CHARS: usize = 60_000;

/// Checks the text of a comment.
///
/// # Errors
/// The error says which texts are allowed.
pub fn check(body: &str) -> Result<(), String> {
    if body.trim().is_empty() {
        return Err(format!("a comment must have 1 to {MAX_CHARS} characters, and no NUL character"));
    }
    check_summary(body)
}

/// Checks the text of a review, which may be empty.
///
/// # Errors
/// The error says which texts are allowed.
pub fn check_summary(body: &str) -> Result<(), String> {
    if body.contains('\0') || body.chars().count() > MAX_CHARS {
        return Err(format!("a comment must have 1 to {MAX_CHARS} characters, and no NUL character"));
    }
    Ok(())
}

/// Returns the user as whom the service writes on the built-in code host.
#[must_use]
pub fn service() -> HostUser {
    HostUser { id: SERVICE.to_owned(), name: SERVICE.to_owned(), is_bot: true }
}

/// Returns the ID of a comment or review by its number on the pull request.
#[must_use]
pub fn id(repository: &str, pull: u64, number: u64) -> String {
    format!("{repository}/{pull}/{number}")
}

/// Returns the number on the pull request of a comment or review with this [`id`].
#[must_use]
pub fn number(id: &str) -> Option<u64> {
    id.rsplit('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_is_not_blank_and_not_too_long() {
        for (body, is_valid) in [("x", true), (" \n", false), ("a\0b", false), (&"x".repeat(60_001), false)] {
            assert_eq!(check(body).is_ok(), is_valid, "{} characters", body.len());
        }
        assert!(check_summary("").is_ok() && check_summary("\0").is_err());
    }

    #[test]
    fn the_number_of_a_comment_is_in_its_id() {
        assert_eq!(id("shop", 7, 12), "shop/7/12");
        assert_eq!((number("shop/7/12"), number("shop/7/"), number("x")), (Some(12), None, None));
    }
}
