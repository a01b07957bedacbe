//! The policy for new passwords: they must be long and not easy to guess. There are no rules about kinds of characters
//! and no expiry, because both make passwords worse (NIST SP 800-63B-4, OWASP ASVS 5).

use super::common::COMMON;
use super::normalize;

/// The minimum number of characters of a password. There is no second factor.
pub const MIN_CHARS: usize = 12;

/// The maximum number of characters of a password.
pub const MAX_CHARS: usize = 128;

/// The minimum length of names that a password must not contain. Shorter names are part of many words.
const MIN_NAME_CHARS: usize = 4;

/// The maximum length of a piece whose repetition is not accepted as a password.
const MAX_PERIOD: usize = 4;

/// The reason why a new password is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WeakPassword {
    /// The password has too few characters.
    #[error(
        "this password is too short: use at least {MIN_CHARS} characters, for example four words that have nothing to \
         do with each other"
    )]
    TooShort,
    /// The password has too many characters.
    #[error("this password is too long: use at most {MAX_CHARS} characters")]
    TooLong,
    /// The password contains the user's name.
    #[error("this password contains your name: choose one without it")]
    HasName,
    /// The password is in the list of common passwords.
    #[error(
        "this password is one of the most common: choose another, for example four words that have nothing to do with \
         each other"
    )]
    Common,
    /// The password repeats a short piece, or is a sequence of consecutive characters.
    #[error(
        "this password is a repetition or a sequence: choose another, for example four words that have nothing to do \
         with each other"
    )]
    Repeated,
}

/// Checks a new password of the user `name` against the policy.
///
/// # Errors
/// Returns the reason if the password is too short, too long, or easy to guess.
pub fn check_new(password: &str, name: &str) -> Result<(), WeakPassword> {
    let password = normalize(password);
    let length = password.chars().count();
    if length < MIN_CHARS {
        return Err(WeakPassword::TooShort);
    }
    if length > MAX_CHARS {
        return Err(WeakPassword::TooLong);
    }
    let lower = password.to_lowercase();
    let chars: Vec<char> = lower.chars().collect();
    if repeats(&chars) || is_sequence(&chars) {
        return Err(WeakPassword::Repeated);
    }
    if COMMON.contains(&lower.trim_end_matches(['!', '.', '?'])) || COMMON.contains(&lower.as_str()) {
        return Err(WeakPassword::Common);
    }
    if has_name(&lower, &normalize(name).to_lowercase()) {
        return Err(WeakPassword::HasName);
    }
    Ok(())
}

/// Returns true if the password contains the name, or the local part of a name that is an email address.
fn has_name(password: &str, name: &str) -> bool {
    let local = name.split('@').next().unwrap_or_default();
    [name, local].iter().any(|part| part.chars().count() >= MIN_NAME_CHARS && password.contains(part))
}

fn repeats(chars: &[char]) -> bool {
    (1..=MAX_PERIOD).any(|period| chars.iter().zip(chars.iter().skip(period)).all(|(one, next)| one == next))
}

/// Returns true for characters in ascending or descending order, such as `abcdefghijkl` and `098765432109`.
fn is_sequence(chars: &[char]) -> bool {
    let pairs = || chars.iter().zip(chars.iter().skip(1));
    pairs().all(|(one, next)| successor(*one) == Some(*next))
        || pairs().all(|(one, next)| successor(*next) == Some(*one))
}

fn successor(c: char) -> Option<char> {
    match c {
        '9' => Some('0'),
        'z' => Some('a'),
        _ => char::from_u32(u32::from(c) + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_password_must_be_long_and_not_easy_to_guess() {
        let long = "räuber".repeat(30);
        let cases: [(&str, &str, Result<(), WeakPassword>); 24] = [
            ("four unlike words here", "ada", Ok(())),
            ("äöüßéèêñçøåœ", "ada", Ok(())),
            ("🦔🌲🚲🧀🎻🦉🍐🧊🪁🧵🛶🥨", "ada", Ok(())),
            ("            x", "ada", Ok(())),
            ("elevenchars", "ada", Err(WeakPassword::TooShort)),
            ("", "ada", Err(WeakPassword::TooShort)),
            // Twelve code points, but eleven visible letters.
            ("u\u{308}berlange r", "ada", Err(WeakPassword::TooShort)),
            (&long, "ada", Err(WeakPassword::TooLong)),
            ("password1234", "ada", Err(WeakPassword::Common)),
            ("PassWord1234", "ada", Err(WeakPassword::Common)),
            ("Password1234!", "ada", Err(WeakPassword::Common)),
            ("1q2w3e4r5t6y", "ada", Err(WeakPassword::Common)),
            ("correcthorsebatterystaple", "ada", Err(WeakPassword::Common)),
            ("aaaaaaaaaaaa", "ada", Err(WeakPassword::Repeated)),
            ("abcabcabcabca", "ada", Err(WeakPassword::Repeated)),
            ("ha! ha! ha! ", "ada", Err(WeakPassword::Repeated)),
            ("abcdefghijkl", "ada", Err(WeakPassword::Repeated)),
            ("123456789012", "ada", Err(WeakPassword::Repeated)),
            ("098765432109", "ada", Err(WeakPassword::Repeated)),
            ("lovelace-is-me", "lovelace", Err(WeakPassword::HasName)),
            ("LoveLace-is-me", "lovelace", Err(WeakPassword::HasName)),
            ("i am lovelace", "lovelace@example.com", Err(WeakPassword::HasName)),
            ("the adamant one", "ada", Ok(())),
            ("lovelace-is-me", "", Ok(())),
        ];
        for (password, name, expected) in cases {
            assert_eq!(check_new(password, name), expected, "{password:?} of {name:?}");
        }
    }

    #[test]
    fn common_passwords_are_long_and_in_normalized_form() {
        assert!(COMMON.len() >= 50);
        for common in COMMON {
            assert!(common.chars().count() >= MIN_CHARS, "{common} is too short anyway");
            assert_eq!(common.to_lowercase(), *common);
            assert!(!common.ends_with(['!', '.', '?']), "{common}");
        }
    }
}
