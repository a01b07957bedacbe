//! The manifest from which GitHub creates an app: its permissions, its events, and the address for webhooks.

use std::net::IpAddr;

use serde_json::{Value, json};
use url::{Host, Url};

use super::CodeHostId;
use crate::egress::is_public;
use crate::secret::SecretValue;

/// The permissions of the app. Tokens for repositories have no others.
pub const PERMISSIONS: [(&str, &str); 7] = [
    ("contents", "write"),
    ("pull_requests", "write"),
    ("issues", "write"),
    ("statuses", "write"),
    ("checks", "read"),
    ("actions", "read"),
    ("metadata", "read"),
];

/// The events that GitHub sends. Those about installations are always sent, and GitHub refuses a manifest that names
/// them.
pub const EVENTS: [&str; 10] = [
    "issue_comment",
    "issues",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "check_suite",
    "check_run",
    "status",
    "workflow_run",
    "push",
];

/// The path of the page to which GitHub sends the browser back.
pub const CALLBACK: &str = "/system/code-hosts/github/callback";

/// The maximum length of the name of an app, in characters.
const NAME_CHARS: usize = 34;

/// A GitHub App that was created from a manifest. `Debug` does not show the secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedApp {
    /// The ID.
    pub app_id: u64,
    /// The name in URLs.
    pub slug: String,
    /// The private key, in PEM format.
    pub private_key: SecretValue,
    /// The secret that signs webhooks; `None` if the app has no webhook.
    pub webhook_secret: Option<SecretValue>,
}

/// Returns whether a code host on the internet may reach the service: its URL is https, and its host is neither a name
/// of this machine or a private network, nor an address that is not public. Names are not resolved.
#[must_use]
pub fn is_reachable(public_url: &str) -> bool {
    let Ok(url) = Url::parse(public_url) else { return false };
    let is_public_host = match url.host() {
        Some(Host::Ipv4(address)) => is_public(IpAddr::V4(address)),
        Some(Host::Ipv6(address)) => is_public(IpAddr::V6(address)),
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            let private = [".localhost", ".local", ".internal", ".lan", ".test", ".invalid", ".home.arpa"];
            name.contains('.') && !private.iter().any(|suffix| name.ends_with(suffix))
        }
        None => false,
    };
    url.scheme() == "https" && is_public_host
}

/// Returns the manifest of an app for the service at `public_url`, whose code host will have this ID. If GitHub cannot
/// reach the service, the app has no webhook and no events: GitHub refuses addresses that it cannot reach.
#[must_use]
pub fn manifest(public_url: &str, id: &CodeHostId) -> Value {
    let permissions: serde_json::Map<_, _> =
        PERMISSIONS.iter().map(|(name, level)| ((*name).to_owned(), json!(level))).collect();
    let host = Url::parse(public_url).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
    let name: String = format!("Journeyman {host}").chars().take(NAME_CHARS).collect();
    let mut manifest = json!({
        "name": name.trim_end_matches(['.', '-', ' ']),
        "url": public_url,
        "description": "Carries out jobs with coding agents, and opens pull requests.",
        "public": false,
        "redirect_url": format!("{public_url}{CALLBACK}"),
        "default_permissions": permissions,
        "default_events": [],
    });
    if is_reachable(public_url) {
        manifest["default_events"] = json!(EVENTS);
        manifest["hook_attributes"] = json!({ "url": format!("{public_url}/hooks/{id}"), "active": true });
    }
    manifest
}

/// Returns the address to which the browser posts the manifest: of an organization, or of the user's own account.
#[must_use]
pub fn target(url: &str, organization: Option<&str>) -> String {
    match organization {
        Some(name) => format!("{url}/organizations/{name}/settings/apps/new"),
        None => format!("{url}/settings/apps/new"),
    }
}

/// Returns whether a text can be the name of an organization: letters, digits and hyphens.
#[must_use]
pub fn is_organization(name: &str) -> bool {
    (1..=100).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// Returns the page on which an app is installed.
#[must_use]
pub fn install_page(url: &str, slug: &str) -> String {
    let folder = if url == "https://github.com" { "apps" } else { "github-apps" };
    format!("{url}/{folder}/{slug}/installations/new")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_https_urls_can_be_reached() {
        for good in ["https://journeyman.example.com", "https://203.0.114.7", "https://a.example/x"] {
            assert!(is_reachable(good), "{good}");
        }
        for bad in [
            "http://journeyman.example.com",
            "https://localhost",
            "https://box.local",
            "https://journeyman",
            "https://10.0.0.7:8443",
            "https://[::1]",
            "https://192.168.1.9",
            "nonsense",
        ] {
            assert!(!is_reachable(bad), "{bad}");
        }
    }

    #[test]
    fn a_service_that_github_cannot_reach_gets_no_webhook_and_no_events() {
        let id = "github".parse().unwrap();
        let public = manifest("https://journeyman.example.com", &id);
        assert_eq!(public["hook_attributes"]["url"], "https://journeyman.example.com/hooks/github");
        assert_eq!(public["default_events"].as_array().unwrap().len(), EVENTS.len());
        let private = manifest("http://127.0.0.1:8080", &id);
        assert_eq!(private["default_events"], json!([]));
        assert!(private.get("hook_attributes").is_none());
        assert_eq!(private["redirect_url"], "http://127.0.0.1:8080/system/code-hosts/github/callback");
        let long = manifest(&format!("https://{}.example.com", "x".repeat(40)), &id);
        assert_eq!(long["name"].as_str().unwrap().len(), NAME_CHARS);
    }

    #[test]
    fn an_organization_is_one_segment_of_a_path() {
        assert!(is_organization("acme-corp"));
        for bad in ["", "a/b", "a?b", "..", "a b"] {
            assert!(!is_organization(bad), "{bad}");
        }
        assert_eq!(
            target("https://github.com", Some("acme")),
            "https://github.com/organizations/acme/settings/apps/new"
        );
        assert_eq!(target("https://ghe.example", None), "https://ghe.example/settings/apps/new");
        assert_eq!(install_page("https://github.com", "j"), "https://github.com/apps/j/installations/new");
        assert_eq!(install_page("https://ghe.example", "j"), "https://ghe.example/github-apps/j/installations/new");
    }
}
