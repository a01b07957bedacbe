//! Cookies of requests and responses.

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};

use crate::Settings;

/// Returns the values of all cookies with a name in a request.
pub(crate) fn all<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(found, _)| *found == name).map(|(_, value)| value)
}

/// Returns the header that sets a cookie for all pages of this server. Scripts cannot read the cookie, and other sites
/// cannot send forms with it. A lifetime of 0 seconds deletes it.
pub(crate) fn set(settings: &Settings, name: &str, value: &str, seconds: u64) -> HeaderValue {
    let secure = if settings.is_secure() { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    // The text consists of ASCII letters, digits and punctuation, so the conversion cannot fail.
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cookies_with_a_name_are_found() {
        let mut headers = HeaderMap::new();
        for value in ["a=1; b=2", "b=3;c", "ab=4"] {
            headers.append(COOKIE, value.parse().expect("a header"));
        }
        for (name, values) in [("a", vec!["1"]), ("b", vec!["2", "3"]), ("c", vec![])] {
            assert_eq!(all(&headers, name).collect::<Vec<_>>(), values, "{name}");
        }
    }
}
