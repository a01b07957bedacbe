//! The creation of a GitHub App from a manifest: our page posts the manifest to GitHub, GitHub sends the browser back
//! with a code, and the server exchanges the code for the app and its secrets.
//!
//! GitHub returns the state that our page has sent. It is signed with a key that only the server and this session have,
//! so a link that someone else has made is refused, and so is one of another session.

use std::time::Duration;

use askama::Template;
use axum::response::{IntoResponse, Redirect, Response};
use hmac::{Hmac, KeyInit, Mac};
use journeyman_core::code_host::check::normalize_url;
use journeyman_core::code_host::manifest::{is_organization, is_reachable, manifest, target};
use journeyman_core::code_host::{CodeHostId, HostKind};
use journeyman_core::time::Timestamp;
use journeyman_core::user::TokenHash;
use sha2::Sha256;

use crate::failure::{Failure, Page, refused, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::headers::FormTarget;
use crate::words;

/// The time in which GitHub accepts the code.
const LIFETIME: Duration = Duration::from_secs(3600);

/// Separates this use of the session's hash from others.
const PURPOSE: &[u8] = b"GitHub App from a manifest";

/// The code host that a page has begun to create.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Begun {
    id: CodeHostId,
    /// The URL of GitHub's pages.
    url: String,
}

impl Begun {
    /// Returns the state for GitHub: the end of its validity, the signature, the ID and the URL.
    fn seal(&self, session: TokenHash, now: Timestamp) -> Option<String> {
        let until = (now + LIFETIME).as_micros();
        let Self { id, url } = self;
        let signature = signed(session, until, id.as_str(), url)?.finalize().into_bytes();
        let signature: String = signature.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(format!("{until}.{signature}.{id}~{url}"))
    }

    /// Reads a state; `None` if it is of another session, too old, or forged.
    fn open(state: &str, session: TokenHash, now: Timestamp) -> Option<Self> {
        let (until, rest) = state.split_once('.')?;
        let (signature, rest) = rest.split_once('.')?;
        let (id, url) = rest.split_once('~')?;
        let until: i64 = until.parse().ok()?;
        // Comparing the bytes takes the same time wherever they differ.
        signed(session, until, id, url)?.verify_slice(&bytes(signature)?).ok()?;
        let is_valid = Timestamp::from_micros(until) > now;
        is_valid.then_some(Self { id: id.parse().ok()?, url: url.to_owned() })
    }
}

/// Returns the signature of a state; `None` if the key cannot be used, which does not occur with this length.
fn signed(session: TokenHash, until: i64, id: &str, url: &str) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&session.0).ok()?;
    for part in [PURPOSE, until.to_string().as_bytes(), id.as_bytes(), url.as_bytes()] {
        mac.update(part);
        mac.update(&[0]);
    }
    Some(mac)
}

/// Reads hexadecimal digits.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pair = |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    (0..digits.len()).step_by(2).map(pair).collect()
}

#[derive(Template)]
#[template(path = "code_host_app.html")]
struct AppPage<'a> {
    frame: &'a Frame,
    id: String,
    url: String,
    organization: String,
    /// `true` if GitHub can send webhooks to this service.
    is_reachable: bool,
    /// The address to which the browser posts the manifest, and the manifest; `None` if a field is not valid.
    post: Option<(String, String)>,
    error: Option<String>,
}

/// Shows the button that posts the manifest. The fields of the query choose the server and the organization.
pub(super) async fn show(frame: Frame, fields: Fields) -> Response {
    frame.answer(shown(&frame, &fields))
}

fn shown(frame: &Frame, fields: &Fields) -> Page {
    frame.needs_administrator()?;
    let public_url = &frame.shared.settings.public_url;
    let mut page = AppPage {
        frame,
        id: fields.given("id").unwrap_or_else(|| HostKind::Github.name().to_owned()),
        url: fields.given("url").unwrap_or_else(|| "https://github.com".to_owned()),
        organization: fields.given("organization").unwrap_or_default(),
        is_reachable: is_reachable(public_url),
        post: None,
        error: None,
    };
    let begun = match begun(&page) {
        Ok(begun) => begun,
        Err(text) => {
            page.error = Some(words::sentence(&text));
            return refused(&page);
        }
    };
    let organization = Some(page.organization.as_str()).filter(|name| !name.is_empty());
    let sealed = begun.seal(frame.viewer.session, frame.now);
    let state = sealed.ok_or_else(|| Failure::Render("the state cannot be signed".to_owned()))?;
    let action = format!("{}?state={}", target(&begun.url, organization), words::in_query(&state));
    page.post = Some((action, manifest(public_url, &begun.id).to_string()));
    let mut response = rendered(&page)?;
    response.extensions_mut().insert(FormTarget(origin(&begun.url).to_owned()));
    Ok(response)
}

fn begun(page: &AppPage<'_>) -> Result<Begun, String> {
    let id = page.id.parse().map_err(|error| format!("{error}"))?;
    let url = normalize_url("url", &page.url).map_err(|error| error.to_string())?;
    // The origin becomes part of a header, in which some characters of URLs have a meaning.
    if !origin(&url).bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:/[]".contains(&byte)) {
        return Err(format!("url: {url:?} has characters that no server's name has"));
    }
    if !page.organization.is_empty() && !is_organization(&page.organization) {
        return Err(format!("organization: {:?} has characters that no name on GitHub has", page.organization));
    }
    Ok(Begun { id, url })
}

/// Returns the scheme, the host and the port of a URL in its usual form.
fn origin(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find('/').map_or(url.len(), |at| start + at);
    &url[..end]
}

/// Stores the app after GitHub has sent the browser back.
pub(super) async fn returned(frame: Frame, fields: Fields) -> Response {
    let page = async {
        frame.needs_administrator()?;
        let begun = Begun::open(&fields.text("state"), frame.viewer.session, frame.now).ok_or_else(|| {
            let text = "this link was not made for your session, or is older than an hour; create the app again. If \
                        GitHub has created one already, delete it there";
            Failure::Form(text.to_owned())
        })?;
        let code = fields.text("code");
        frame.cases().create_github_app(&frame.caller(), &begun.id, &begun.url, &code).await?;
        Ok(Redirect::to("/system/code-hosts?done=app").into_response()) as Page
    };
    frame.answer(page.await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_valid_in_its_session_for_an_hour() {
        let begun = Begun { id: "github.example".parse().unwrap(), url: "https://ghe.example/~x".to_owned() };
        let (session, now) = (TokenHash([7; 32]), Timestamp::from_micros(1_000_000));
        let state = begun.seal(session, now).unwrap();
        assert_eq!(Begun::open(&state, session, now), Some(begun.clone()));
        assert_eq!(Begun::open(&state, TokenHash([8; 32]), now), None, "another session");
        assert_eq!(Begun::open(&state, session, now + LIFETIME), None, "too late");
        assert_eq!(Begun::open(&state.replace("ghe", "evil"), session, now), None, "another server");
        let until = (now + LIFETIME).as_micros();
        let longer = state.replacen(&until.to_string(), &(until + 1).to_string(), 1);
        assert_eq!(Begun::open(&longer, session, now), None, "a longer validity");
        for other in ["", ".", "1..a~b", "1.zz.a~b", "x.00.a~b", "1.0ä.a~b"] {
            assert_eq!(Begun::open(other, session, now), None, "{other}");
        }
    }

    #[test]
    fn an_origin_has_no_path() {
        assert_eq!(origin("https://github.com"), "https://github.com");
        assert_eq!(origin("http://10.0.0.7:3000/git/hub"), "http://10.0.0.7:3000");
    }
}
