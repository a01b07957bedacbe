//! Which passwords are taken: long ones that nobody tries first. No rules about kinds of characters, no expiry: both
//! make passwords worse (NIST SP 800-63B-4, OWASP ASVS 5).

use super::common::COMMON;
use super::normal;

/// Characters that a password has at least. There is no second factor.
pub const MIN_CHARS: usize = 12;

/// Characters that a password has at most.
pub const MAX_CHARS: usize = 128;

/// Names of fewer characters may be part of a password: they are part of many words.
const MIN_NAME_CHARS: usize = 4;

/// The longest piece that may not be all of a password, said again and again.
const MAX_PERIOD: usize = 4;

/// Why a new password is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WeakPassword {
    /// Too few characters.
    #[error(
        "this password is too short: take at least {MIN_CHARS} characters, such as four words that have nothing to do \
         with each other"
    )]
    TooShort,
    /// Too many characters.
    #[error("this password is too long: take at most {MAX_CHARS} characters")]
    TooLong,
    /// The user's name is in it.
    #[error("your name is in this password: take one without it")]
    HasName,
    /// It is among the commonest.
    #[error(
        "this password is one of those that are tried first: take another, such as four words that have nothing to do \
         with each other"
    )]
    Common,
    /// One piece again and again, or characters in their order.
    #[error(
        "this password repeats itself or counts on: take another, such as four words that have nothing to do with each \
         other"
    )]
    Repeated,
}

/// Whether a password may be the new one of the user with that name.
///
/// # Errors
/// It is too short, too long, or easily guessed.
pub fn check_new(password: &str, name: &str) -> Result<(), WeakPassword> {
    let password = normal(password);
    let length = password.chars().count();
    if length < MIN_CHARS {
        return Err(WeakPassword::TooShort);
    }
    if length > MAX_CHARS {
        return Err(WeakPassword::TooLong);
    }
    let lower = password.to_lowercase();
    let chars: Vec<char> = lower.chars().collect();
    if repeats(&chars) || counts(&chars) {
        return Err(WeakPassword::Repeated);
    }
    if COMMON.contains(&lower.trim_end_matches(['!', '.', '?'])) || COMMON.contains(&lower.as_str()) {
        return Err(WeakPassword::Common);
    }
    if has_name(&lower, &normal(name).to_lowercase()) {
        return Err(WeakPassword::HasName);
    }
    Ok(())
}

/// A name that is an address is looked for without its domain too.
fn has_name(password: &str, name: &str) -> bool {
    let local = name.split('@').next().unwrap_or_default();
    [name, local].iter().any(|part| part.chars().count() >= MIN_NAME_CHARS && password.contains(part))
}

fn repeats(chars: &[char]) -> bool {
    (1..=MAX_PERIOD).any(|period| chars.iter().zip(chars.iter().skip(period)).all(|(one, next)| one == next))
}

/// Up or down, as `abcdefghijkl` and `098765432109` do.
fn counts(chars: &[char]) -> bool {
    let pairs = || chars.iter().zip(chars.iter().skip(1));
    pairs().all(|(one, next)| following(*one) == Some(*next))
        || pairs().all(|(one, next)| following(*next) == Some(*one))
}

fn following(c: char) -> Option<char> {
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
    fn a_new_password_is_long_and_not_easily_guessed() {
        let long = "räuber".repeat(30);
        let cases: [(&str, &str, Result<(), WeakPassword>); 24] = [
            ("four unlike words here", "ada", Ok(())),
            ("äöüßéèêñçøåœ", "ada", Ok(())),
            ("🦔🌲🚲🧀🎻🦉🍐🧊🪁🧵🛶🥨", "ada", Ok(())),
            ("            x", "ada", Ok(())),
            ("elevenchars", "ada", Err(WeakPassword::TooShort)),
            ("", "ada", Err(WeakPassword::TooShort)),
            // Twelve code points, but eleven letters to whoever sees them.
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
    fn the_common_ones_are_in_the_form_that_is_compared() {
        assert!(COMMON.len() >= 50);
        for common in COMMON {
            assert!(common.chars().count() >= MIN_CHARS, "{common} is too short anyway");
            assert_eq!(common.to_lowercase(), *common);
            assert!(!common.ends_with(['!', '.', '?']), "{common}");
        }
    }
}
