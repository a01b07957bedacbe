//! The settings of sign-in through a provider, and their checks.

use journeyman_core::secret::SecretValue;
use journeyman_core::user::Role;
use url::Url;

use journeyman_net::is_loopback;

use super::OidcError;

/// The scopes that are requested by default.
pub const DEFAULT_SCOPES: [&str; 3] = ["openid", "email", "profile"];

/// The value of [`OidcSettings::allowed_domains`] that admits everyone whom the provider authenticates.
pub const ANY_DOMAIN: &str = "*";

const MAX_LABEL_CHARS: usize = 60;

/// The settings of sign-in through a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcSettings {
    /// The provider's URL, as in the `issuer` of its discovery document; `https`, or `http` on the loopback.
    pub issuer: Url,
    /// The client ID under which this server is registered at the provider.
    pub client_id: String,
    /// The client secret; `None` for a public client.
    pub client_secret: Option<SecretValue>,
    /// The scopes to request. An empty list stands for [`DEFAULT_SCOPES`].
    pub scopes: Vec<String>,
    /// The domains of the email addresses that may sign in, without their subdomains; or [`ANY_DOMAIN`] alone. An
    /// empty list is refused and does not admit everyone: at a public provider that would be the whole world.
    pub allowed_domains: Vec<String>,
    /// The role of people who sign in for the first time. It must not be administrator.
    pub default_role: Role,
    /// The label of the sign-in button.
    pub button_label: String,
}

/// The reason why settings are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOidcSettings {
    /// The issuer is not a usable URL.
    #[error(
        "oidc-issuer must be the provider's https address, equal to \"issuer\" in its discovery document, without \
         user, query or fragment; http is allowed only for a provider on this machine"
    )]
    Issuer,
    /// The client ID is empty.
    #[error("oidc-client-id must not be empty; register this server at the provider to get a client ID")]
    ClientId,
    /// The client secret is empty.
    #[error("the secret in oidc-secret-file must not be empty; leave it out for a public client")]
    ClientSecret,
    /// A scope has characters that are not allowed.
    #[error("scopes: {0:?} is not a scope")]
    Scope(
        /// The invalid scope.
        String,
    ),
    /// The list of allowed domains is empty, so no user could sign in.
    #[error(
        "oidc-domains must list the email domains that may sign in, such as [\"example.com\"], or be [\"*\"] for \
         everyone whom the provider authenticates"
    )]
    NoDomain,
    /// An entry of the allowed domains is not a domain.
    #[error("oidc-domains: {0:?} is not a domain such as example.com; \"*\" must be the only entry")]
    Domain(
        /// The invalid entry.
        String,
    ),
    /// The default role is administrator.
    #[error("oidc-role must be \"member\" or \"viewer\"; appoint administrators one by one")]
    Role,
    /// The label of the button is empty, too long, or has control characters.
    #[error("oidc-label must have 1 to {MAX_LABEL_CHARS} characters, none of them a control character")]
    Label,
}

impl OidcSettings {
    /// Checks and normalizes the settings, and fills in the default scopes.
    ///
    /// # Errors
    /// Returns the first setting that is invalid.
    pub fn checked(mut self) -> Result<Self, InvalidOidcSettings> {
        if !is_issuer(&self.issuer) {
            return Err(InvalidOidcSettings::Issuer);
        }
        if self.client_id.trim().is_empty() {
            return Err(InvalidOidcSettings::ClientId);
        }
        if self.client_secret.as_ref().is_some_and(|secret| secret.0.is_empty()) {
            return Err(InvalidOidcSettings::ClientSecret);
        }
        if self.scopes.is_empty() {
            self.scopes = DEFAULT_SCOPES.map(str::to_owned).into();
        }
        if let Some(scope) = self.scopes.iter().find(|scope| !is_scope(scope)) {
            return Err(InvalidOidcSettings::Scope(scope.clone()));
        }
        self.allowed_domains = domains(&self.allowed_domains)?;
        if self.default_role == Role::Administrator {
            return Err(InvalidOidcSettings::Role);
        }
        let label = self.button_label.trim();
        if label.is_empty() || label.chars().count() > MAX_LABEL_CHARS || label.chars().any(char::is_control) {
            return Err(InvalidOidcSettings::Label);
        }
        self.button_label = label.to_owned();
        Ok(self)
    }

    /// Checks that a person with this email address may sign in. Only the domain of a verified address counts.
    pub(super) fn admit(&self, email: Option<&str>, verified: bool) -> Result<(), OidcError> {
        if self.allowed_domains.iter().any(|domain| domain == ANY_DOMAIN) {
            return Ok(());
        }
        let domain = email.filter(|_| verified).and_then(domain_of).ok_or(OidcError::NotVerified)?;
        if self.allowed_domains.contains(&domain) {
            return Ok(());
        }
        Err(OidcError::DomainNotAllowed(super::error::one_line(&format!("{domain} is not in oidc-domains"))))
    }
}

fn is_issuer(issuer: &Url) -> bool {
    let safe = issuer.scheme() == "https" || (issuer.scheme() == "http" && is_loopback(issuer));
    let bare = issuer.username().is_empty()
        && issuer.password().is_none()
        && issuer.query().is_none()
        && issuer.fragment().is_none();
    safe && bare && issuer.has_host()
}

/// Checks the syntax of a scope (RFC 6749, 3.3).
fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\')
}

fn domains(given: &[String]) -> Result<Vec<String>, InvalidOidcSettings> {
    let normalized = |domain: &String| domain.trim().trim_start_matches('@').to_lowercase();
    let domains: Vec<String> = given.iter().map(normalized).collect();
    if domains.is_empty() {
        return Err(InvalidOidcSettings::NoDomain);
    }
    if domains == [ANY_DOMAIN] {
        return Ok(domains);
    }
    match domains.iter().find(|domain| !is_domain(domain)) {
        Some(bad) => Err(InvalidOidcSettings::Domain(bad.clone())),
        None => Ok(domains),
    }
}

fn is_domain(text: &str) -> bool {
    let label = |label: &str| !label.is_empty() && label.chars().all(|c| c.is_alphanumeric() || c == '-');
    text.contains('.') && text.split('.').all(label)
}

/// Returns the address's domain in lower case; `None` if the address is not unambiguous.
fn domain_of(email: &str) -> Option<String> {
    let (local, domain) = email.split_once('@')?;
    let domain = domain.to_lowercase();
    (!local.is_empty() && is_domain(&domain)).then_some(domain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> OidcSettings {
        OidcSettings {
            issuer: "https://id.example.com".parse().unwrap(),
            client_id: "journeyman".to_owned(),
            client_secret: Some(SecretValue("s3cret".to_owned())),
            scopes: vec![],
            allowed_domains: vec![" @Example.com".to_owned(), "example.org".to_owned()],
            default_role: Role::Member,
            button_label: " Sign in with Example ".to_owned(),
        }
    }

    #[test]
    fn checked_settings_are_normalized_and_have_default_scopes() {
        let checked = settings().checked().unwrap();
        assert_eq!(checked.scopes, DEFAULT_SCOPES);
        assert_eq!(checked.allowed_domains, ["example.com", "example.org"]);
        assert_eq!(checked.button_label, "Sign in with Example");
    }

    #[test]
    fn each_refused_setting_is_named() {
        type Change = fn(&mut OidcSettings);
        let cases: [(Change, &str); 16] = [
            (|s| s.issuer = "http://id.example.com".parse().unwrap(), "oidc-issuer"),
            (|s| s.issuer = "http://127.0.0.1.example.com".parse().unwrap(), "oidc-issuer"),
            (|s| s.issuer = "https://id.example.com/?a=b".parse().unwrap(), "oidc-issuer"),
            (|s| s.issuer = "https://me:pw@id.example.com".parse().unwrap(), "oidc-issuer"),
            (|s| s.issuer = "mailto:me@example.com".parse().unwrap(), "oidc-issuer"),
            (|s| s.client_id = " ".to_owned(), "oidc-client-id"),
            (|s| s.client_secret = Some(SecretValue(String::new())), "the secret in oidc-secret-file"),
            (|s| s.scopes = vec!["a b".to_owned()], "scopes"),
            (|s| s.allowed_domains.clear(), "oidc-domains"),
            (|s| s.allowed_domains = vec![String::new()], "oidc-domains"),
            (|s| s.allowed_domains.push("*".to_owned()), "oidc-domains"),
            (|s| s.allowed_domains.push("*.example.com".to_owned()), "oidc-domains"),
            (|s| s.allowed_domains.push("me@example.com".to_owned()), "oidc-domains"),
            (|s| s.default_role = Role::Administrator, "oidc-role"),
            (|s| s.button_label = "\n".to_owned(), "oidc-label"),
            (|s| s.button_label = "x".repeat(61), "oidc-label"),
        ];
        for (number, (change, named)) in cases.into_iter().enumerate() {
            let mut settings = settings();
            change(&mut settings);
            let error = settings.checked().unwrap_err().to_string();
            assert!(error.starts_with(named), "case {number}: {error}");
        }
        for issuer in ["http://127.0.0.1:1234", "http://[::1]:1234/realm", "http://localhost:1234"] {
            let mut settings = settings();
            settings.issuer = issuer.parse().unwrap();
            assert!(settings.checked().is_ok(), "{issuer}");
        }
    }

    #[test]
    fn only_verified_addresses_of_the_allowed_domains_are_admitted() {
        let settings = settings().checked().unwrap();
        assert_eq!(settings.admit(Some("ada@EXAMPLE.com"), true), Ok(()));
        for (email, verified) in [
            (Some("ada@example.com"), false),
            (None, true),
            (Some("ada"), true),
            (Some("@example.com"), true),
            (Some("ada@evil.test@example.com"), true),
            (Some("ada@example.com "), true),
        ] {
            assert_eq!(settings.admit(email, verified), Err(OidcError::NotVerified), "{email:?}");
        }
        for email in ["ada@sub.example.com", "ada@notexample.com", "ada@example.com.evil.test"] {
            let refused = settings.admit(Some(email), true).unwrap_err();
            assert_eq!(refused.code(), "domain_not_allowed", "{email}");
        }
    }

    #[test]
    fn the_star_admits_everybody() {
        let mut settings = settings();
        settings.allowed_domains = vec!["*".to_owned()];
        let settings = settings.checked().unwrap();
        assert_eq!(settings.admit(None, false), Ok(()));
    }
}
