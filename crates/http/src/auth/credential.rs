//! Reads the API key from the headers of a request.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The authentication schemes that a route accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Schemes {
    /// `Authorization: Bearer <key>`.
    Bearer,
    /// `Authorization: Bearer <key>`, or HTTP Basic with the key as the password.
    BasicToo,
}

impl Schemes {
    /// Returns the value of `WWW-Authenticate`.
    pub(super) const fn challenge(self) -> &'static str {
        match self {
            Self::Bearer => "Bearer realm=\"Journeyman\"",
            Self::BasicToo => "Basic realm=\"Journeyman\", charset=\"UTF-8\"",
        }
    }
}

/// The reason why a request has no usable key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoKey {
    #[error("this request needs an API key: send the header \"Authorization: Bearer <key>\"")]
    Bearer,
    #[error("this request needs an API key as the password, with any user name")]
    Password,
    #[error("the request has more than one Authorization header; send only one")]
    Ambiguous,
}

/// Returns the API key of a request, without checking its form.
pub(super) fn read(headers: &HeaderMap, schemes: Schemes) -> Result<String, NoKey> {
    let missing = match schemes {
        Schemes::Bearer => NoKey::Bearer,
        Schemes::BasicToo => NoKey::Password,
    };
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or(missing)?;
    if values.next().is_some() {
        return Err(NoKey::Ambiguous);
    }
    let (scheme, rest) = value.to_str().ok().and_then(|value| value.split_once(' ')).ok_or(missing)?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Ok(rest.trim().to_owned());
    }
    if scheme.eq_ignore_ascii_case("basic") && schemes == Schemes::BasicToo {
        let decoded = STANDARD.decode(rest.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        return decoded.and_then(|pair| pair.split_once(':').map(|(_, key)| key.to_owned())).ok_or(missing);
    }
    Err(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().expect("a header value"));
        }
        headers
    }

    #[test]
    fn every_route_accepts_a_bearer_token_and_some_accept_a_password() {
        let basic = format!("Basic {}", STANDARD.encode("me:jmn_x"));
        let cases = [
            (vec!["Bearer jmn_x"], Schemes::Bearer, Ok("jmn_x")),
            (vec!["bearer  jmn_x "], Schemes::Bearer, Ok("jmn_x")),
            (vec!["Bearer jmn_x"], Schemes::BasicToo, Ok("jmn_x")),
            (vec![basic.as_str()], Schemes::BasicToo, Ok("jmn_x")),
            (vec![basic.as_str()], Schemes::Bearer, Err(NoKey::Bearer)),
            (vec![], Schemes::Bearer, Err(NoKey::Bearer)),
            (vec!["jmn_x"], Schemes::Bearer, Err(NoKey::Bearer)),
            (vec!["Basic !"], Schemes::BasicToo, Err(NoKey::Password)),
            (vec!["Bearer a", "Bearer b"], Schemes::Bearer, Err(NoKey::Ambiguous)),
        ];
        for (values, schemes, expected) in cases {
            assert_eq!(read(&headers(&values), schemes), expected.map(str::to_owned), "{values:?}");
        }
    }
}
