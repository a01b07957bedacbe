//! Webhooks: the signature is verified first, over the bytes as they arrived and in constant time. Reading comes later.

use std::borrow::Cow;

use async_trait::async_trait;
use hmac::{Hmac, KeyInit, Mac};
use journeyman_core::code_host::{CodeHost, CodeHostId, HostKind};
use journeyman_core::hook::{HookContent, HookEvent};
use journeyman_core::ids::ProjectId;
use journeyman_core::ports::{HookRefusal, Hooks, RawHook, StoreError, VerifiedHook};
use journeyman_core::project::WEBHOOK_SECRET;
use journeyman_core::secret::SecretValue;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::find::Finder;
use crate::{bitbucket, bitbucket_data_center, gitea, github, gitlab};

/// The headers by which a host identifies an event.
pub(crate) struct Envelope {
    /// The ID of the delivery.
    pub(crate) delivery: String,
    /// The name of the event.
    pub(crate) event: String,
}

/// Returns whether `signature` is the HMAC-SHA256 of the body in hexadecimal digits.
pub(crate) fn is_signed(secret: &SecretValue, body: &[u8], signature: &str) -> bool {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.0.as_bytes()) else { return false };
    mac.update(body);
    let digits: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    digits.as_bytes().ct_eq(signature.to_ascii_lowercase().as_bytes()).into()
}

/// Returns whether two texts are equal, in constant time.
pub(crate) fn is_equal(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

/// Returns a header, or the error that it is missing.
pub(crate) fn required(hook: &RawHook, name: &'static str) -> Result<String, HookRefusal> {
    hook.header(name).filter(|value| !value.is_empty()).map(str::to_owned).ok_or(HookRefusal::Header(name))
}

/// Returns the JSON of a body that a host sends as a form with the field `payload`; other bodies stay as they are.
pub(crate) fn payload(body: &[u8]) -> Cow<'_, [u8]> {
    if !body.starts_with(b"payload=") {
        return Cow::Borrowed(body);
    }
    let fields = url::form_urlencoded::parse(body);
    let found = fields.into_iter().find(|(name, _)| name == "payload");
    found.map_or(Cow::Borrowed(body), |(_, value)| Cow::Owned(value.into_owned().into_bytes()))
}

/// Reads a JSON body.
pub(crate) fn parsed<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

/// Returns the event of a push to refs with these full names. Tags and other refs do not matter.
pub(crate) fn pushed<'a>(refs: impl IntoIterator<Item = &'a str>) -> HookContent {
    let branches = refs.into_iter().filter_map(|name| name.strip_prefix("refs/heads/")).filter(|name| !name.is_empty());
    let branches: Vec<String> = branches.map(str::to_owned).collect();
    if branches.is_empty() { HookContent::Other } else { HookContent::Push { branches } }
}

fn is_valid(kind: HostKind, secret: &SecretValue, hook: &RawHook) -> bool {
    match kind {
        HostKind::Github => github::hooks::is_signed(secret, hook),
        HostKind::Gitlab => gitlab::hooks::is_signed(secret, hook),
        HostKind::Gitea | HostKind::Forgejo => gitea::hooks::is_signed(secret, hook),
        HostKind::Bitbucket => bitbucket::hooks::is_signed(secret, hook),
        HostKind::BitbucketDataCenter => bitbucket_data_center::hooks::is_signed(secret, hook),
    }
}

/// Returns whether a webhook can be signed, as far as its headers say.
fn may_be_signed(kind: HostKind, secret: &SecretValue, hook: &RawHook) -> bool {
    let is_digest = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let has_digest = |name| hook.header(name).and_then(|value| value.strip_prefix("sha256=")).is_some_and(is_digest);
    match kind {
        HostKind::Github => has_digest("x-hub-signature-256"),
        HostKind::Gitlab => gitlab::hooks::may_be_signed(secret, hook),
        HostKind::Gitea | HostKind::Forgejo => gitea::hooks::has_signature(hook),
        HostKind::Bitbucket | HostKind::BitbucketDataCenter => has_digest("x-hub-signature"),
    }
}

fn envelope(kind: HostKind, hook: &RawHook) -> Result<Envelope, HookRefusal> {
    match kind {
        HostKind::Github => github::hooks::envelope(hook),
        HostKind::Gitlab => gitlab::hooks::envelope(hook),
        HostKind::Gitea | HostKind::Forgejo => gitea::hooks::envelope(hook),
        HostKind::Bitbucket => bitbucket::hooks::envelope(hook),
        HostKind::BitbucketDataCenter => bitbucket_data_center::hooks::envelope(hook),
    }
}

impl Finder {
    /// Returns the code host of a webhook, and the secret that signs it.
    async fn signer(
        &self,
        id: &CodeHostId,
        project: Option<&ProjectId>,
    ) -> Result<(CodeHost, SecretValue), HookRefusal> {
        let unavailable = |error: &dyn std::fmt::Display| HookRefusal::Unavailable(error.to_string());
        let found = Self::host(self, id).await.map_err(|error| unavailable(&error))?;
        let Some(project) = project else {
            let found = found.ok_or(HookRefusal::NotFound)?;
            return Ok((found.host, found.secrets.webhook.ok_or(HookRefusal::NoSecret)?));
        };
        let projects = self.projects();
        let project = projects.project(project.clone()).await.map_err(|error| unavailable(&error))?;
        let project = project.ok_or(HookRefusal::NotFound)?;
        let host = self.host_of(&project).await.map_err(|error| unavailable(&error))?;
        let host = host.filter(|host| host.id == *id).ok_or(HookRefusal::NotFound)?;
        let secrets = projects.secrets(project.id).await.map_err(|error| unavailable(&error))?;
        let own = secrets.get(WEBHOOK_SECRET).cloned();
        let secret = own.or_else(|| found.and_then(|found| found.secrets.webhook));
        Ok((host, secret.ok_or(HookRefusal::NoSecret)?))
    }
}

/// Returns whether an administrator tests the URL of a webhook. Data Center does not sign that.
fn is_test(kind: HostKind, hook: &RawHook) -> bool {
    let is_ping = hook.header("x-event-key") == Some("diagnostics:ping");
    kind == HostKind::BitbucketDataCenter && is_ping && hook.header("x-hub-signature").is_none()
}

#[async_trait]
impl Hooks for Finder {
    async fn check_head(
        &self,
        host: &CodeHostId,
        project: Option<&ProjectId>,
        hook: &RawHook,
    ) -> Result<(), HookRefusal> {
        let (host, secret) = self.signer(host, project).await?;
        if is_test(host.kind, hook) {
            return Err(HookRefusal::Test);
        }
        if secret.0.is_empty() || !may_be_signed(host.kind, &secret, hook) {
            return Err(HookRefusal::Signature);
        }
        envelope(host.kind, hook).map(drop)
    }

    async fn verify(
        &self,
        host: &CodeHostId,
        project: Option<&ProjectId>,
        hook: &RawHook,
    ) -> Result<VerifiedHook, HookRefusal> {
        let (host, secret) = self.signer(host, project).await?;
        if is_test(host.kind, hook) {
            return Err(HookRefusal::Test);
        }
        if secret.0.is_empty() || !is_valid(host.kind, &secret, hook) {
            return Err(HookRefusal::Signature);
        }
        let Envelope { delivery, event } = envelope(host.kind, hook)?;
        Ok(VerifiedHook { host, delivery, event })
    }

    async fn host(&self, host: &CodeHostId, project: Option<&ProjectId>) -> Result<Option<CodeHost>, StoreError> {
        if let Some(found) = Self::host(self, host).await? {
            return Ok(Some(found.host));
        }
        let Some(project) = project else { return Ok(None) };
        let Some(project) = self.projects().project(project.clone()).await? else { return Ok(None) };
        Ok(self.host_of(&project).await.ok().flatten().filter(|found| found.id == *host))
    }

    fn read(&self, host: &CodeHost, event: &str, body: &[u8]) -> Result<HookEvent, String> {
        let mut event = self.parse(host, event, body)?;
        // Data Center does not always say its own address.
        match &mut event.content {
            HookContent::Comment { comment, .. } if comment.url.starts_with('/') => {
                comment.url = format!("{}{}", host.url, comment.url);
            }
            _ => {}
        }
        Ok(event)
    }
}

impl Finder {
    fn parse(&self, host: &CodeHost, event: &str, body: &[u8]) -> Result<HookEvent, String> {
        let body = &*payload(body);
        match host.kind {
            HostKind::Github => github::hooks::read(event, body),
            HostKind::Gitlab => gitlab::hooks::read(event, body),
            HostKind::Gitea | HostKind::Forgejo => gitea::hooks::read(event, body),
            HostKind::Bitbucket => bitbucket::hooks::read(event, body),
            HostKind::BitbucketDataCenter => bitbucket_data_center::hooks::read(event, body),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_contains_the_body() {
        for (body, expected) in [
            ("payload=%7B%22a%22%3A%22b+c%22%7D", r#"{"a":"b c"}"#),
            ("payload=%7B%7D&other=1", "{}"),
            ("payload=", ""),
            (r#"{"payload=":1}"#, r#"{"payload=":1}"#),
        ] {
            assert_eq!(&*payload(body.as_bytes()), expected.as_bytes(), "{body}");
        }
    }

    #[test]
    fn a_signature_is_the_hmac_of_the_bytes() {
        // The example in GitHub's documentation.
        let secret = SecretValue("It's a Secret to Everybody".to_owned());
        let signature = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        assert!(is_signed(&secret, b"Hello, World!", signature));
        assert!(is_signed(&secret, b"Hello, World!", &signature.to_uppercase()));
        for (body, signature) in
            [(b"Hello, World?".as_slice(), signature), (b"Hello, World!", &signature[..62]), (b"Hello, World!", "")]
        {
            assert!(!is_signed(&secret, body, signature));
        }
    }
}
