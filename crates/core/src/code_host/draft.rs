//! Code hosts as administrators enter them: in a request, on a page, or on the command line.

use std::collections::BTreeSet;

use super::HostSecretChanges;
use super::check::{InvalidCodeHost, check, normalize_url};
use super::{Access, CodeHost, CodeHostId, DefinedIn, HostKind, HostSecret, HostSecrets};
use crate::secret::SecretValue;
use crate::time::Timestamp;

/// The fields of a code host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// The software.
    pub kind: HostKind,
    /// The address of its pages, in any form.
    pub url: String,
    /// The address of its HTTP interface, if it is not the usual one.
    pub api_url: Option<String>,
    /// The user name that belongs to the token.
    pub username: Option<String>,
    /// The ID of a GitHub App, which is then used in place of a token.
    pub app_id: Option<u64>,
    /// The name of the app in URLs.
    pub app_slug: Option<String>,
    /// The IDs of bots whose comments become messages.
    pub trusted_bots: BTreeSet<String>,
    /// The new values of secrets. A secret without an entry keeps its value, and `None` removes it.
    pub secrets: HostSecretChanges,
}

impl Draft {
    /// Returns the fields of a code host, without changes to its secrets.
    #[must_use]
    pub fn of(host: &CodeHost) -> Self {
        let (username, app_id, app_slug) = match host.access.clone() {
            Some(Access::Token { username }) => (username, None, None),
            Some(Access::App { app_id, slug }) => (None, Some(app_id), Some(slug)),
            None => (None, None, None),
        };
        Self {
            kind: host.kind,
            url: host.url.clone(),
            api_url: host.api_url.clone(),
            username,
            app_id,
            app_slug,
            trusted_bots: host.trusted_bots.clone(),
            secrets: HostSecretChanges::new(),
        }
    }

    /// Returns the code host that the fields describe, and the changes to its secrets. `current` is the stored code host
    /// that they replace. It must have the secret that its access needs.
    ///
    /// # Errors
    /// A field is not valid, or a secret is missing.
    pub fn host(
        &self,
        id: &CodeHostId,
        current: Option<&CodeHost>,
        now: Timestamp,
    ) -> Result<(CodeHost, HostSecretChanges), InvalidCodeHost> {
        let access = self.access(current)?;
        let host = CodeHost {
            api_url: self.api_url.as_deref().map(|url| normalize_url("api-url", url)).transpose()?,
            access,
            trusted_bots: self.trusted_bots.clone(),
            defined_in: DefinedIn::Store,
            created_at: current.map_or(now, |current| current.created_at),
            ..CodeHost::of_address(id.clone(), self.kind, normalize_url("url", &self.url)?)
        };
        if !has_api_near(&host) {
            return Err(InvalidCodeHost::ApiElsewhere);
        }
        let changes = self.changes(&host);
        check(&host, &effective(&host, current, &changes))?;
        if let Some(secret) = host.needed_secret()
            && current.is_some_and(|current| !current.is_at_same_address(&host))
            && !changes.contains_key(&secret)
        {
            return Err(InvalidCodeHost::SecretMoves(field_of(secret)));
        }
        Ok((host, changes))
    }

    fn access(&self, current: Option<&CodeHost>) -> Result<Option<Access>, InvalidCodeHost> {
        let token = self.secrets.get(&HostSecret::Token);
        let gives_token = matches!(token, Some(Some(_)));
        if let Some(app_id) = self.app_id {
            return match gives_token {
                true => Err(InvalidCodeHost::TwoCredentials),
                false => Ok(Some(Access::App { app_id, slug: self.app_slug.clone().unwrap_or_default() })),
            };
        }
        let has_token = current.is_some_and(|current| current.needed_secret() == Some(HostSecret::Token));
        let keeps_token = token.is_none() && has_token;
        Ok((gives_token || keeps_token).then(|| Access::Token { username: self.username.clone() }))
    }

    /// Returns the changes to the secrets. A secret that the access does not need is removed.
    fn changes(&self, host: &CodeHost) -> HostSecretChanges {
        let mut changes = self.secrets.clone();
        for secret in [HostSecret::Token, HostSecret::PrivateKey] {
            if host.needed_secret() != Some(secret) {
                changes.insert(secret, None);
            }
        }
        changes
    }
}

/// Returns whether the HTTP interface is on the host of the pages, or on a name below it. Projects send their own tokens
/// there, and administrators cannot read those.
fn has_api_near(host: &CodeHost) -> bool {
    let name = |url: &str| url::Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned));
    match (name(&host.url), host.api_url.as_deref().map(name)) {
        (_, None) => true,
        (Some(pages), Some(Some(api))) => {
            let is_name = !pages.starts_with('[') && pages.parse::<std::net::Ipv4Addr>().is_err();
            api == pages || (is_name && api.ends_with(&format!(".{pages}")))
        }
        _ => false,
    }
}

/// Returns the secrets that the code host would have. A stored secret is represented by a placeholder, because only its
/// presence is checked.
fn effective(host: &CodeHost, current: Option<&CodeHost>, changes: &HostSecretChanges) -> HostSecrets {
    let secret = |secret| match changes.get(&secret) {
        Some(change) => change.clone(),
        None => {
            let is_stored = current.is_some_and(|current| current.needed_secret() == Some(secret));
            (is_stored && host.needed_secret() == Some(secret)).then(|| SecretValue("stored".to_owned()))
        }
    };
    HostSecrets {
        token: secret(HostSecret::Token),
        private_key: secret(HostSecret::PrivateKey),
        webhook: secret(HostSecret::Webhook),
    }
}

const fn field_of(secret: HostSecret) -> &'static str {
    match secret {
        HostSecret::Token => "token",
        HostSecret::PrivateKey => "private-key",
        HostSecret::Webhook => "webhook-secret",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft() -> Draft {
        Draft {
            kind: HostKind::Github,
            url: "https://GitHub.com/".to_owned(),
            api_url: None,
            username: None,
            app_id: None,
            app_slug: None,
            trusted_bots: BTreeSet::new(),
            secrets: HostSecretChanges::new(),
        }
    }

    fn value(text: &str) -> Option<SecretValue> {
        Some(SecretValue(text.to_owned()))
    }

    fn made(draft: &Draft, current: Option<&CodeHost>) -> Result<(CodeHost, HostSecretChanges), String> {
        let id = "github".parse().unwrap();
        draft.host(&id, current, Timestamp::default()).map_err(|error| error.to_string())
    }

    fn with_token() -> CodeHost {
        made(&Draft { secrets: [(HostSecret::Token, value("t"))].into(), ..draft() }, None).unwrap().0
    }

    #[test]
    fn a_host_has_the_access_that_its_fields_name() {
        let (host, changes) = made(&draft(), None).unwrap();
        assert_eq!((host.url.as_str(), host.access), ("https://github.com", None));
        assert_eq!(changes.len(), 2, "no other secret stays");
        let app = Draft { app_id: Some(7), secrets: [(HostSecret::PrivateKey, value("k"))].into(), ..draft() };
        let (host, changes) = made(&app, None).unwrap();
        assert_eq!(host.access, Some(Access::App { app_id: 7, slug: String::new() }));
        assert_eq!(changes.get(&HostSecret::Token), Some(&None));
        assert_eq!(with_token().access, Some(Access::Token { username: None }));
        assert!(made(&Draft { app_id: Some(7), ..draft() }, None).unwrap_err().contains("private-key"));
        let both = Draft { secrets: [(HostSecret::Token, value("t"))].into(), ..app };
        assert!(made(&both, None).unwrap_err().contains("not both"));
    }

    #[test]
    fn a_stored_secret_stays_unless_it_is_changed() {
        let current = with_token();
        let (kept, changes) = made(&Draft { username: Some("bot".to_owned()), ..draft() }, Some(&current)).unwrap();
        assert_eq!(kept.access, Some(Access::Token { username: Some("bot".to_owned()) }));
        assert!(!changes.contains_key(&HostSecret::Token));
        let removed = Draft { secrets: [(HostSecret::Token, None)].into(), ..draft() };
        assert_eq!(made(&removed, Some(&current)).unwrap().0.access, None);
        let app = Draft { app_id: Some(7), secrets: [(HostSecret::PrivateKey, value("k"))].into(), ..draft() };
        assert_eq!(made(&app, Some(&current)).unwrap().1.get(&HostSecret::Token), Some(&None));
    }

    #[test]
    fn the_fields_of_a_host_describe_it_again() {
        let token = Draft {
            username: Some("bot".to_owned()),
            api_url: Some("https://api.github.com".to_owned()),
            trusted_bots: ["7".to_owned()].into(),
            secrets: [(HostSecret::Token, value("t"))].into(),
            ..draft()
        };
        let (app_id, app_slug) = (Some(7), Some("bot".to_owned()));
        let app = Draft { app_id, app_slug, secrets: [(HostSecret::PrivateKey, value("k"))].into(), ..draft() };
        for given in [draft(), token, app] {
            let (host, _) = made(&given, None).unwrap();
            let (again, changes) = made(&Draft::of(&host), Some(&host)).unwrap();
            assert_eq!(again, host);
            assert!(host.needed_secret().is_none_or(|secret| !changes.contains_key(&secret)), "{changes:?}");
        }
    }

    #[test]
    fn a_stored_secret_is_not_sent_to_another_address() {
        let current = with_token();
        let moved = Draft { url: "https://github.example".to_owned(), ..draft() };
        assert!(made(&moved, Some(&current)).unwrap_err().contains("another address"));
        let api = Draft { api_url: Some("https://api2.github.com".to_owned()), ..draft() };
        assert!(made(&api, Some(&current)).unwrap_err().contains("another address"));
        let given = Draft { secrets: [(HostSecret::Token, value("new"))].into(), ..moved };
        assert!(made(&given, Some(&current)).is_ok());
    }

    #[test]
    fn the_interface_is_not_on_another_host() {
        let with = |api: &str| made(&Draft { api_url: Some(api.to_owned()), ..draft() }, None);
        for good in ["https://api.github.com", "https://github.com/api", "https://github.com:8443/api"] {
            assert!(with(good).is_ok(), "{good}");
        }
        for bad in ["https://evil.example", "https://evilgithub.com", "https://github.com.evil.example"] {
            assert!(with(bad).unwrap_err().contains("api-url"), "{bad}");
        }
        let address =
            Draft { url: "http://1.2.3.4".to_owned(), api_url: Some("http://x.1.2.3.4".to_owned()), ..draft() };
        assert!(made(&address, None).is_err());
    }
}
