//! Numbers on the command line.

use std::num::NonZeroUsize;

use crate::config::whole;

/// Parses the maximum number of entries of a list.
pub(super) fn limit(text: &str) -> Result<NonZeroUsize, String> {
    NonZeroUsize::new(whole(text)?).ok_or_else(|| "write a number of 1 or more".to_owned())
}

/// Parses the maximum number of entries of a page.
pub(super) fn page(text: &str) -> Result<u32, String> {
    let size = whole(text)?;
    if (1..=100).contains(&size) { Ok(size) } else { Err("write a number from 1 to 100".to_owned()) }
}

/// Parses the number of a pull request: `7` or `#7`.
pub(super) fn pull_request(text: &str) -> Result<u64, String> {
    let number = text.strip_prefix('#').unwrap_or(text);
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
    let number = number.parse::<u64>().ok().filter(|number| is_plain && *number > 0);
    number.ok_or_else(|| "write the number of a pull request, such as 7".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_from_1() {
        assert_eq!(limit("20").map(NonZeroUsize::get), Ok(20));
        assert_eq!(limit("0"), Err("write a number of 1 or more".to_owned()));
        assert_eq!(limit("x"), Err("write a whole number".to_owned()));
        assert_eq!((page("1"), page("100")), (Ok(1), Ok(100)));
        for text in ["0", "101"] {
            assert_eq!(page(text), Err("write a number from 1 to 100".to_owned()), "{text}");
        }
    }

    #[test]
    fn a_pull_request_has_a_number() {
        assert_eq!((pull_request("7"), pull_request("#12")), (Ok(7), Ok(12)));
        for text in ["x", "", "#", "0", "-7", "+7", "7.0", "99999999999999999999"] {
            let error = pull_request(text).unwrap_err();
            assert!(error.contains("write the number of a pull request"), "{text}: {error}");
        }
    }
}
