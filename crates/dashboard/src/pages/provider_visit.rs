//! A visit to the OpenID provider: the URL to which it returns, and the cookie that keeps its state.

use axum::http::{HeaderMap, HeaderValue};

use crate::{Shared, cookies, words};

/// The lifetime of the cookie, in seconds.
const PENDING_SECONDS: u64 = 600;

/// Returns the URL to which the provider sends the browser back.
pub(super) fn redirect(shared: &Shared) -> String {
    format!("{}/login/returned", shared.settings.public_url)
}

fn cookie_name(shared: &Shared) -> &'static str {
    if shared.settings.is_secure() { "__Host-journeyman-sign-in" } else { "journeyman-sign-in" }
}

/// Returns the cookie with the state of a sign-in. An empty value deletes it. It is `SameSite=Lax`, because the
/// provider redirects the browser from another site.
pub(super) fn pending_cookie(shared: &Shared, value: &str) -> HeaderValue {
    let seconds = if value.is_empty() { 0 } else { PENDING_SECONDS };
    cookies::set(&shared.settings, cookie_name(shared), value, seconds)
}

/// The content of the cookie that is set until the browser returns.
pub(super) struct Pending {
    /// The state that the provider's client needs.
    pub(super) state: String,
    /// The path to go to after a sign-in.
    pub(super) next: String,
    /// The session whose user is to be connected; `None` for a sign-in.
    pub(super) connects: Option<String>,
    /// The session whose user confirms who they are; `None` for a sign-in.
    pub(super) confirms: Option<String>,
}

impl Pending {
    /// Returns the value of the cookie. None of its parts has a vertical bar.
    pub(super) fn encoded(&self) -> String {
        let Self { state, next, connects, confirms } = self;
        let [connects, confirms] = [connects, confirms].map(|session| session.as_deref().unwrap_or_default());
        format!("{state}|{}|{connects}|{confirms}", words::in_query(next))
    }

    fn decode(value: &str) -> Self {
        let mut parts = value.split('|');
        let mut part = || parts.next().unwrap_or_default();
        let (state, next) = (part().to_owned(), decoded(part()));
        let mut session = || Some(part().to_owned()).filter(|session| !session.is_empty());
        let (connects, confirms) = (session(), session());
        Self { state, next, connects, confirms }
    }

    /// Returns the content of the cookie of a request; empty if there is none.
    pub(super) fn of(shared: &Shared, headers: &HeaderMap) -> Self {
        let mut all = cookies::all(headers, cookie_name(shared));
        // A second cookie may come from another server at this host name.
        let only = all.next().filter(|_| all.next().is_none());
        Self::decode(only.unwrap_or_default())
    }
}

/// Decodes the output of [`words::in_query`].
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        if byte != b'%' {
            bytes.push(byte);
        } else if let (Some(high), Some(low)) = (digit(rest.next()), digit(rest.next())) {
            bytes.extend(u8::try_from(high * 16 + low));
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the name of the provider, from the label of the sign-in button.
pub(super) fn provider_name(shared: &Shared) -> Option<&str> {
    let label = shared.services.provider.as_ref()?.label();
    Some(label.strip_prefix("Sign in with ").unwrap_or(label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_is_decoded_unchanged() {
        for (connects, confirms) in [(Some("0f"), None), (None, Some("0e")), (None, None)] {
            let [connects, confirms] = [connects, confirms].map(|session: Option<&str>| session.map(str::to_owned));
            let kept = Pending { state: "a.b".to_owned(), next: "/x?a=|&b".to_owned(), connects, confirms };
            let read = Pending::decode(&kept.encoded());
            assert_eq!((read.state, read.next), (kept.state, kept.next));
            assert_eq!((read.connects, read.confirms), (kept.connects, kept.confirms));
        }
        // An older version, which may run beside this one, writes two parts.
        let older = Pending::decode("a.b|%2Fkeys");
        assert_eq!((older.state.as_str(), older.next.as_str(), older.connects), ("a.b", "/keys", None));
        assert_eq!(Pending::decode("").connects, None);
    }

    #[test]
    fn the_return_path_is_decoded_unchanged() {
        for text in ["/projects/shop?q=a b&c=ü", "", "/"] {
            assert_eq!(decoded(&words::in_query(text)), text);
        }
        assert_eq!(decoded("%zz%4"), "");
    }
}
