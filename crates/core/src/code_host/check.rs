//! The rules for the fields of a code host.

use crate::code_host::{Access, CodeHost, HostSecrets};
use crate::secret::SecretValue;

/// The maximum length of a secret, in bytes; private keys have about 3,200.
const SECRET_BYTES: usize = 20_000;

/// The maximum number of trusted bots.
const TRUSTED_BOTS: usize = 100;

/// An error in the fields of a code host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCodeHost {
    /// A URL is not valid.
    #[error(
        "{0} must be an https or http URL without a credential, a query and a fragment, such as https://github.com"
    )]
    Url(&'static str),
    /// The access needs a secret.
    #[error("{0} is missing")]
    SecretMissing(&'static str),
    /// A secret is too long or has control characters.
    #[error("{0} must have 1 to 20000 bytes; a token must have one line")]
    Secret(&'static str),
    /// Only GitHub has apps.
    #[error("only GitHub has apps; use a token for {0}")]
    NoApps(&'static str),
    /// The user name, the slug or the ID of a bot has a wrong form.
    #[error("{0} must have 1 to 200 characters, and no spaces and control characters")]
    Name(&'static str),
    /// An app and a token are given.
    #[error("set either an app or a token, not both")]
    TwoCredentials,
    /// A stored secret would be sent to another address. Its owner could read it there.
    #[error("{0} must be entered again: the stored one must not be sent to another address")]
    SecretMoves(&'static str),
    /// The interface is on another host, which would get the tokens of projects.
    #[error("api-url must be on the host of url, or on a name below it; only the configuration file may name another")]
    ApiElsewhere,
    /// The list of bots is too long.
    #[error("trusted-bots may have at most 100 entries")]
    TooManyBots,
}

/// Returns the URL in its usual form: without a slash at its end.
///
/// # Errors
/// It is not a URL that a code host can have; `field` is its name in the error.
pub fn normalize_url(field: &'static str, text: &str) -> Result<String, InvalidCodeHost> {
    let invalid = || InvalidCodeHost::Url(field);
    let url = url::Url::parse(text.trim()).map_err(|_| invalid())?;
    let is_plain = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
        && url.host_str().is_some_and(|host| !host.is_empty());
    if !matches!(url.scheme(), "http" | "https") || !is_plain || text.len() > 500 {
        return Err(invalid());
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// Checks the fields of a code host that has these secrets.
///
/// # Errors
/// Returns an error for the first invalid field.
pub fn check(host: &CodeHost, secrets: &HostSecrets) -> Result<(), InvalidCodeHost> {
    normalize_url("url", &host.url)?;
    if let Some(url) = &host.api_url {
        normalize_url("api-url", url)?;
    }
    match &host.access {
        Some(Access::App { slug, .. }) => {
            if host.kind != crate::code_host::HostKind::Github {
                return Err(InvalidCodeHost::NoApps(host.kind.product()));
            }
            // Without a slug, the service asks GitHub.
            if !slug.is_empty() {
                check_name("app-slug", slug)?;
            }
            secrets.private_key.as_ref().ok_or(InvalidCodeHost::SecretMissing("private-key-file"))?;
        }
        Some(Access::Token { username }) => {
            if let Some(username) = username {
                check_name("username", username)?;
            }
            secrets.token.as_ref().ok_or(InvalidCodeHost::SecretMissing("token-file"))?;
        }
        None => {}
    }
    if host.trusted_bots.len() > TRUSTED_BOTS {
        return Err(InvalidCodeHost::TooManyBots);
    }
    host.trusted_bots.iter().try_for_each(|bot| check_name("trusted-bots", bot))?;
    check_secret("token", secrets.token.as_ref(), false)?;
    check_secret("private-key", secrets.private_key.as_ref(), true)?;
    check_secret("webhook-secret", secrets.webhook.as_ref(), false)
}

fn check_secret(
    field: &'static str,
    secret: Option<&SecretValue>,
    may_have_lines: bool,
) -> Result<(), InvalidCodeHost> {
    let Some(SecretValue(text)) = secret else { return Ok(()) };
    let has_lines = text.trim().chars().any(char::is_control);
    let is_invalid = text.trim().is_empty() || text.len() > SECRET_BYTES || (has_lines && !may_have_lines);
    if is_invalid { Err(InvalidCodeHost::Secret(field)) } else { Ok(()) }
}

fn check_name(field: &'static str, name: &str) -> Result<(), InvalidCodeHost> {
    let is_invalid =
        name.is_empty() || name.chars().count() > 200 || name.chars().any(|c| c.is_control() || c.is_whitespace());
    if is_invalid { Err(InvalidCodeHost::Name(field)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code_host::HostKind;

    fn host() -> CodeHost {
        let url = "https://github.com".to_owned();
        let access = Some(Access::Token { username: None });
        CodeHost { access, ..CodeHost::of_address("github".parse().unwrap(), HostKind::Github, url) }
    }

    fn secrets() -> HostSecrets {
        HostSecrets { token: Some(SecretValue("ghp_1".to_owned())), ..HostSecrets::default() }
    }

    #[test]
    fn urls_have_one_form() {
        for (text, expected) in [
            ("https://github.com/", "https://github.com"),
            (" HTTPS://GitHub.com ", "https://github.com"),
            ("http://10.0.0.1:3000/git/", "http://10.0.0.1:3000/git"),
        ] {
            assert_eq!(normalize_url("url", text).as_deref(), Ok(expected));
        }
        for bad in
            ["", "github.com", "ssh://git@github.com", "https://a:b@github.com", "https://github.com/?x", "file:///x"]
        {
            assert_eq!(normalize_url("url", bad), Err(InvalidCodeHost::Url("url")), "{bad}");
        }
    }

    #[test]
    fn the_error_names_the_invalid_field() {
        assert_eq!(check(&host(), &secrets()), Ok(()));
        type Spoil = fn(&mut CodeHost, &mut HostSecrets);
        let cases: [(Spoil, &str); 8] = [
            (|host, _| host.url = "github.com".to_owned(), "url"),
            (|host, _| host.api_url = Some("x".to_owned()), "api-url"),
            (|_, secrets| secrets.token = None, "token-file"),
            (|_, secrets| secrets.token = Some(SecretValue("a\nb".to_owned())), "token"),
            (|_, secrets| secrets.webhook = Some(SecretValue(" ".to_owned())), "webhook-secret"),
            (|host, _| host.access = Some(Access::App { app_id: 1, slug: "x".to_owned() }), "private-key-file"),
            (|host, _| host.trusted_bots = ["a b".to_owned()].into(), "trusted-bots"),
            (
                |host, _| {
                    host.kind = HostKind::Gitlab;
                    host.access = Some(Access::App { app_id: 1, slug: "x".to_owned() });
                },
                "GitLab",
            ),
        ];
        for (spoil, named) in cases {
            let (mut host, mut secrets) = (host(), secrets());
            spoil(&mut host, &mut secrets);
            let text = check(&host, &secrets).expect_err(named).to_string();
            assert!(text.contains(named), "{text}");
        }
    }
}
