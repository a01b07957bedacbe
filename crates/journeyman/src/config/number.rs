//! Parsers of numbers, with errors for people.

use std::str::FromStr;

/// Parses a whole number that is not negative.
pub(crate) fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let problem = || if is_number { "the number is too large" } else { "write a whole number" };
    text.parse().map_err(|_| problem().to_owned())
}

/// Parses a share, from 0 to 1.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "write a number from 0 to 1, such as 0.1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_texts_than_numbers_are_explained() {
        assert_eq!(whole::<u32>("17"), Ok(17));
        for (text, error) in [
            ("x", "write a whole number"),
            ("", "write a whole number"),
            ("-1", "write a whole number"),
            ("4294967296", "the number is too large"),
        ] {
            assert_eq!(whole::<u32>(text), Err(error.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_share_is_from_0_to_1() {
        assert_eq!((share("0"), share("0.25"), share("1")), (Ok(0.0), Ok(0.25), Ok(1.0)));
        for text in ["x", "", "1.1", "-0.1", "NaN", "inf"] {
            assert!(share(text).unwrap_err().contains("from 0 to 1"), "{text}");
        }
    }
}
