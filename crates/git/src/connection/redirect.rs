//! Redirects of servers to another address on the same host: of a renamed repository, to the address with `.git`, or to
//! https.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::{HeaderValue, header};
use journeyman_core::ports::Remote;
use journeyman_net::{Limits, Outbound};
use url::Url;

use super::Service;
use crate::command::{Git, GitCommand, Output};
use crate::failure::GitError;
use crate::route::Route;

/// The limits of the request. Only the head of the answer is used.
const LIMITS: Limits = Limits { time: Duration::from_secs(30), bytes: 1 << 20 };

/// The maximum number of redirects within a host.
const REDIRECTS: usize = 3;

impl Git {
    /// Runs a command that connects to a remote, which `build` makes for a route. If the server redirects to another
    /// address on the same host, the command is repeated with that address.
    ///
    /// # Errors
    /// As [`Git::route`] and [`GitCommand::run`].
    pub async fn ask(
        &self,
        remote: &Remote,
        service: Service,
        build: impl Fn(&Route) -> GitCommand + Send + Sync,
    ) -> Result<Output, GitError> {
        let mut remote = remote.clone();
        let mut left = REDIRECTS;
        loop {
            let route = self.route(&remote).await?;
            let error = match build(&route).through(&route).run().await {
                Err(error) if error.is_redirect() && left > 0 => error,
                done => return done,
            };
            left -= 1;
            match within_host(&self.outbound, &remote, service).await {
                Some(next) => remote = next,
                None => return Err(error),
            }
        }
    }
}

/// Asks the server of a remote where it redirects to. Returns the remote there if it is on the same host.
async fn within_host(outbound: &Outbound, remote: &Remote, service: Service) -> Option<Remote> {
    let base = remote.url.trim_end_matches('/');
    let url = Url::parse(&format!("{base}/info/refs?service={}", service.name())).ok()?;
    let client = outbound.client(outbound.policy_of_url(remote.reach, &remote.url));
    let mut request = http::Request::get(url.as_str()).header(header::USER_AGENT, "git/journeyman");
    if let Some(credential) = &remote.credential {
        let text = match credential.username.is_empty() {
            true => format!("Bearer {}", credential.password),
            false => format!("Basic {}", BASE64.encode(format!("{}:{}", credential.username, credential.password))),
        };
        let mut value = HeaderValue::try_from(text).ok()?;
        value.set_sensitive(true);
        request = request.header(header::AUTHORIZATION, value);
    }
    let answer = match client.send(request.body(Bytes::new()).ok()?, LIMITS).await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::info!(host = url.host_str(), %error, "a redirect of a repository's server could not be read");
            return None;
        }
    };
    if !answer.status().is_redirection() {
        return None;
    }
    let location = answer.headers().get(header::LOCATION)?.to_str().ok()?;
    let target = url.join(location).ok();
    let next = target.as_ref().and_then(|target| allowed(&url, target));
    let is_followed = next.is_some();
    let to = target.as_ref().and_then(Url::host_str).unwrap_or_default();
    tracing::info!(host = url.host_str(), to, is_followed, "the server of a repository redirects");
    let next = next?;
    // A credential for http is not for https, which is another server.
    let is_same = Url::parse(&next).is_ok_and(|next| next.origin() == url.origin());
    let credential = remote.credential.clone().filter(|_| is_same);
    (next != remote.url).then(|| Remote { url: next, credential, ..remote.clone() })
}

/// Returns the address of the repository to which a request for its refs was redirected, if it is on the same host.
fn allowed(from: &Url, to: &Url) -> Option<String> {
    let is_upgrade = from.scheme() == "http"
        && to.scheme() == "https"
        && from.host() == to.host()
        && (from.port(), to.port()) == (None, None);
    let has_user = !to.username().is_empty() || to.password().is_some();
    if has_user || !(is_upgrade || from.origin() == to.origin()) {
        return None;
    }
    let mut to = to.clone();
    to.set_query(None);
    to.set_fragment(None);
    Some(to.as_str().strip_suffix("/info/refs")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_redirects_within_the_host_are_followed() {
        let from = "http://a.example/b/info/refs?service=git-upload-pack";
        for (to, expected) in [
            ("http://a.example/c.git/info/refs?service=git-upload-pack", Some("http://a.example/c.git")),
            ("https://a.example/b.git/info/refs", Some("https://a.example/b.git")),
            ("https://a.example:8443/b.git/info/refs", None),
            ("http://a.example:8080/b/info/refs", None),
            ("http://b.example/b/info/refs", None),
            ("http://127.0.0.1/b/info/refs", None),
            ("http://user@a.example/c/info/refs", None),
            ("file:///b/info/refs", None),
            ("http://a.example/login", None),
        ] {
            let found = allowed(&from.parse().unwrap(), &to.parse().unwrap());
            assert_eq!(found.as_deref(), expected, "{to}");
        }
        let secure = "https://a.example/b/info/refs".parse().unwrap();
        assert_eq!(allowed(&secure, &"http://a.example/b/info/refs".parse().unwrap()), None, "no downgrade");
    }
}
