//! Finds the code host of a repository's address, and the repository's path on it.

use std::fmt;

use serde::{Deserialize, Serialize};
use url::Url;

use super::{CodeHost, CodeHostId, HostKind};

/// The name of a code host in the index of pull requests: the host of its URL, with the port and the path if it has
/// them, such as `github.com` or `git.example:3000/gitea`. It stays the same if the ID in the configuration changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostName(pub String);

impl HostName {
    /// The name of the built-in code host. No URL has this name, because it contains a colon without a port.
    #[must_use]
    pub fn local() -> Self {
        Self("local:".to_owned())
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The path of a repository on a code host, without `.git`: `owner/name`, or more segments on GitLab.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepositoryPath(String);

impl RepositoryPath {
    /// Parses a path such as `owner/name`, with or without slashes around it and `.git` at its end.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim_matches('/');
        let text = text.strip_suffix(".git").unwrap_or(text);
        let good = |part: &str| {
            let good = |c: char| c.is_alphanumeric() || "-_.~+".contains(c);
            !part.is_empty() && !part.starts_with("..") && part != "." && part.chars().all(good)
        };
        let valid = text.len() <= 500 && text.contains('/') && text.split('/').all(good);
        valid.then(|| Self(text.to_owned()))
    }

    /// Returns the path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the owner (a user, an organization, a workspace or a project; on GitLab, all groups) and the name.
    #[must_use]
    pub fn parts(&self) -> (&str, &str) {
        self.0.rsplit_once('/').unwrap_or_default()
    }
}

impl fmt::Display for RepositoryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The parts of a repository's address that identify a code host.
struct Parts {
    host: String,
    /// The port, if the address is an HTTP URL with an unusual one. The port of ssh says nothing about the code host.
    port: Option<u16>,
    path: String,
    is_http: bool,
}

fn parts(repository: &str) -> Option<Parts> {
    if repository.contains("://") {
        let url = Url::parse(repository).ok()?;
        let is_http = matches!(url.scheme(), "http" | "https");
        if !is_http && url.scheme() != "ssh" {
            return None;
        }
        let (host, path) = (url.host_str()?.to_lowercase(), url.path().to_owned());
        return Some(Parts { host, port: url.port().filter(|_| is_http), path, is_http });
    }
    let (user_and_host, path) = repository.split_once(':')?;
    let (_, host) = user_and_host.rsplit_once('@')?;
    Some(Parts { host: host.to_lowercase(), port: None, path: path.to_owned(), is_http: false })
}

impl CodeHost {
    /// Returns the name of this host in the index of pull requests.
    #[must_use]
    pub fn name(&self) -> HostName {
        let name = self.url.split_once("://").map_or(self.url.as_str(), |(_, rest)| rest);
        HostName(name.to_lowercase())
    }

    /// Returns the path of a repository if its address, in any form that git accepts, is on this host.
    #[must_use]
    pub fn path_of(&self, repository: &str) -> Option<RepositoryPath> {
        let (own, parts) = (Url::parse(&self.url).ok()?, parts(repository)?);
        let same_port = !parts.is_http || own.port() == parts.port;
        if own.host_str()?.to_lowercase() != parts.host || !same_port {
            return None;
        }
        let path = parts.path.trim_start_matches('/');
        if !parts.is_http {
            return self.checked(path);
        }
        let prefix = own.path().trim_matches('/');
        let path = if prefix.is_empty() { path } else { path.strip_prefix(prefix)?.strip_prefix('/')? };
        let path = match self.kind {
            HostKind::BitbucketDataCenter => path.strip_prefix("scm/")?,
            _ => path,
        };
        self.checked(path)
    }

    fn checked(&self, path: &str) -> Option<RepositoryPath> {
        let path = RepositoryPath::parse(path)?;
        let is_valid = self.kind == HostKind::Gitlab || path.as_str().split('/').count() == 2;
        is_valid.then_some(path)
    }

    /// Returns the URL from which git clones a repository over HTTP.
    #[must_use]
    pub fn clone_url(&self, path: &RepositoryPath) -> String {
        let below = match self.kind {
            HostKind::BitbucketDataCenter => "scm/",
            _ => "",
        };
        format!("{}/{below}{path}.git", self.url)
    }

    /// Returns the code host of a repository whose project has its own token: of a public service by its name,
    /// otherwise of the given kind at the root of the address.
    #[must_use]
    pub fn of_repository(repository: &str, kind: Option<HostKind>) -> Option<Self> {
        let Parts { host, port, is_http, .. } = parts(repository)?;
        let kind = kind.or_else(|| HostKind::of_public_host(&host))?;
        let scheme = if is_http && repository.starts_with("http://") { "http" } else { "https" };
        let port = port.map_or_else(String::new, |port| format!(":{port}"));
        let id: CodeHostId = host.trim_matches(['[', ']']).replace(':', "-").parse().ok()?;
        let found = Self::of_address(id, kind, format!("{scheme}://{host}{port}"));
        found.path_of(repository).is_some().then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(kind: HostKind, url: &str) -> CodeHost {
        CodeHost::of_address("x".parse().unwrap(), kind, url.to_owned())
    }

    #[test]
    fn a_repository_is_found_on_its_host_in_every_form_of_its_address() {
        let github = host(HostKind::Github, "https://github.com");
        for address in [
            "https://github.com/acme/shop",
            "https://github.com/acme/shop.git",
            "https://GitHub.com/acme/shop/",
            "ssh://git@github.com/acme/shop.git",
            "ssh://git@github.com:443/acme/shop.git",
            "git@github.com:acme/shop.git",
        ] {
            assert_eq!(github.path_of(address).unwrap().as_str(), "acme/shop", "{address}");
        }
        for other in [
            "https://github.com.evil.example/acme/shop",
            "https://github.com:444/acme/shop",
            "https://github.com/acme",
            "https://github.com/acme/shop/tree",
            "https://github.com/acme/../shop",
            "https://evil.example/github.com/acme/shop",
            "git://github.com/acme/shop",
            "file:///github.com/acme/shop",
            "/github.com/acme/shop",
            "local:shop",
        ] {
            assert_eq!(github.path_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_host_may_have_a_port_and_a_path() {
        let gitea = host(HostKind::Gitea, "http://10.0.0.1:3000/git");
        assert_eq!(gitea.path_of("http://10.0.0.1:3000/git/a/b.git").unwrap().as_str(), "a/b");
        assert_eq!(gitea.path_of("http://10.0.0.1:3000/a/b.git"), None);
        assert_eq!(gitea.path_of("http://10.0.0.1:3000/gitx/b.git"), None);
        assert_eq!(gitea.path_of("git@10.0.0.1:a/b.git").unwrap().as_str(), "a/b");
        assert_eq!(gitea.name(), HostName("10.0.0.1:3000/git".to_owned()));
    }

    #[test]
    fn each_product_has_its_form_of_paths() {
        let gitlab = host(HostKind::Gitlab, "https://gitlab.com");
        let path = gitlab.path_of("https://gitlab.com/acme/web/shop.git").unwrap();
        assert_eq!((path.as_str(), path.parts()), ("acme/web/shop", ("acme/web", "shop")));
        let center = host(HostKind::BitbucketDataCenter, "https://bb.example");
        let path = center.path_of("https://bb.example/scm/~ada/shop.git").unwrap();
        assert_eq!(path.as_str(), "~ada/shop");
        assert_eq!(center.clone_url(&path), "https://bb.example/scm/~ada/shop.git");
        assert_eq!(center.path_of("ssh://git@bb.example:7999/AC/shop.git").unwrap().as_str(), "AC/shop");
    }

    #[test]
    fn a_public_service_is_known_by_its_name() {
        let found = CodeHost::of_repository("git@codeberg.org:ada/shop.git", None).unwrap();
        assert_eq!(
            (found.id.as_str(), found.kind, found.url.as_str()),
            ("codeberg.org", HostKind::Forgejo, "https://codeberg.org")
        );
        assert_eq!(CodeHost::of_repository("https://git.example/ada/shop.git", None), None);
        let found = CodeHost::of_repository("http://git.example:3000/ada/shop.git", Some(HostKind::Gitea)).unwrap();
        assert_eq!((found.id.as_str(), found.url.as_str()), ("git.example", "http://git.example:3000"));
        assert_eq!(CodeHost::of_repository("/srv/git/shop.git", Some(HostKind::Gitea)), None);
    }
}
