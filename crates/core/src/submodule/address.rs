//! The addresses of submodules: relative to that of the repository, or absolute.

use crate::ids::ProjectId;
use crate::project::{Address, InvalidProject, parse_address};

/// The address of the project's repository, against which the addresses of its submodules are checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Main {
    /// The address that relative ones refer to.
    url: String,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// A repository on the built-in code host, whose addresses begin with this text.
    BuiltIn(String),
    /// A path on this machine, in this folder, which ends with a slash.
    Path(String),
    /// A repository on another machine.
    Url,
}

/// Where the repository of a submodule is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubmoduleLocation {
    /// The repository of a project on the built-in code host.
    Project(ProjectId),
    /// A path on this machine.
    Path(String),
    /// A URL, or the short form of ssh.
    Url {
        /// The URL to fetch from.
        url: String,
        /// True if it is on the server of the project's repository, for which the project's credential is.
        is_same_server: bool,
    },
}

/// The repository of a submodule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The absolute address, without a password.
    pub address: String,
    /// The location of the repository.
    pub location: SubmoduleLocation,
}

impl Main {
    /// Returns the address of a project's repository. `public_url` is the URL of the service, without a slash at its end.
    ///
    /// # Errors
    /// The address is not valid.
    pub fn new(project: &ProjectId, repository: &str, public_url: &str) -> Result<Self, InvalidProject> {
        Ok(match parse_address(repository)? {
            Address::Local(_) => {
                let prefix = format!("{public_url}/git/");
                Self { url: format!("{prefix}{project}.git"), kind: Kind::BuiltIn(prefix) }
            }
            Address::Path(path) => Self::at_path(path),
            Address::Url(url) => match url.strip_prefix("file://") {
                Some(path) => Self::at_path(path.to_owned()),
                None => Self { url, kind: Kind::Url },
            },
        })
    }

    fn at_path(path: String) -> Self {
        let url = path.trim_end_matches('/').to_owned();
        let folder = url.rsplit_once('/').map_or("/", |(folder, _)| folder);
        Self { kind: Kind::Path(format!("{folder}/")), url }
    }

    /// Returns the address that relative addresses in the project's repository refer to.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Finds the repository of a submodule with the address `url`, in a repository with the absolute address `parent`.
    /// `None` if the service does not fetch from there.
    #[must_use]
    pub fn locate(&self, parent: &str, url: &str) -> Option<Located> {
        let is_relative = url.starts_with("./") || url.starts_with("../");
        let address = if is_relative { resolve(parent, url)? } else { url.to_owned() };
        if address.chars().any(char::is_control) {
            return None;
        }
        if let Kind::BuiltIn(prefix) = &self.kind
            && let Some(name) = address.strip_prefix(prefix.as_str())
        {
            let name = name.trim_end_matches('/');
            let project = name.strip_suffix(".git").unwrap_or(name).parse().ok()?;
            return Some(Located { address, location: SubmoduleLocation::Project(project) });
        }
        if address.starts_with('/') {
            // Only in the folder of the project's repository, and never as an absolute path.
            let Kind::Path(folder) = &self.kind else { return None };
            let inside = address.strip_prefix(folder.as_str()).filter(|_| is_relative)?;
            let is_plain = inside.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
            return is_plain.then(|| Located { location: SubmoduleLocation::Path(address.clone()), address });
        }
        // A local path is no URL here, and `ext::` and other transports that run commands are refused.
        let Ok(Address::Url(_)) = parse_address(&address) else { return None };
        if address.starts_with("file://") {
            return None;
        }
        let own = Server::of(&self.url).filter(|_| self.kind == Kind::Url);
        let (server, path) = (Server::of(&address)?, path_of(&address)?);
        if own.as_ref() == Some(&server) {
            return Some(Located {
                location: SubmoduleLocation::Url { url: address.clone(), is_same_server: true },
                address,
            });
        }
        if server.scheme != "ssh" {
            return Some(Located {
                location: SubmoduleLocation::Url { url: address.clone(), is_same_server: false },
                address,
            });
        }
        // An SSH key is a credential, and none is sent to other servers. The host of the project's repository has the same
        // repositories over https.
        let own = own.filter(|own| own.scheme == "https" && own.port == "443" && own.host == server.host)?;
        let url = format!("https://{}/{}", own.host, path.trim_start_matches('/'));
        Some(Located { address, location: SubmoduleLocation::Url { url, is_same_server: true } })
    }
}

/// A server, as an address names it.
#[derive(Debug, PartialEq, Eq)]
struct Server {
    scheme: String,
    user: String,
    host: String,
    port: String,
}

impl Server {
    fn of(address: &str) -> Option<Self> {
        let (scheme, authority, port) = match address.split_once("://") {
            Some((scheme, rest)) => {
                let authority = rest.split('/').next()?;
                // The colons of an IPv6 address are in brackets.
                let (host, port) = match authority.rsplit_once(':') {
                    Some((host, port)) if !port.contains(']') => (host, port),
                    _ => (authority, ""),
                };
                (scheme.to_ascii_lowercase(), host, port)
            }
            None => ("ssh".to_owned(), address.split_once(':')?.0, ""),
        };
        let usual = match scheme.as_str() {
            "https" => "443",
            "http" => "80",
            "ssh" => "22",
            _ => "",
        };
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let port = if port.is_empty() { usual } else { port };
        Some(Self { scheme, user: user.to_owned(), host: host.to_ascii_lowercase(), port: port.to_owned() })
    }
}

/// Returns the path of a URL, or of the short form of ssh.
fn path_of(address: &str) -> Option<&str> {
    match address.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map(|(_, path)| path),
        None => address.split_once(':').map(|(_, path)| path),
    }
}

/// Resolves a relative address as git does (`relative_url` in its remote.c); `None` if it leads above everything.
fn resolve(parent: &str, mut url: &str) -> Option<String> {
    let mut base = parent.trim_end_matches('/').to_owned();
    let mut separator = '/';
    loop {
        if let Some(rest) = url.strip_prefix("../") {
            url = rest;
            if let Some(at) = base.rfind('/') {
                base.truncate(at);
            } else {
                base.truncate(base.rfind(':')?);
                separator = ':';
            }
        } else if let Some(rest) = url.strip_prefix("./") {
            url = rest;
        } else {
            break;
        }
    }
    let url = url.strip_suffix('/').unwrap_or(url);
    Some(format!("{base}{separator}{url}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn main(repository: &str) -> Main {
        Main::new(&"shop".parse().unwrap(), repository, "https://agents.example").unwrap()
    }

    /// Returns where a submodule of the project's repository is, in one line.
    fn located(repository: &str, url: &str) -> String {
        let main = main(repository);
        match main.locate(main.url(), url).map(|located| located.location) {
            None => "refused".to_owned(),
            Some(SubmoduleLocation::Project(project)) => format!("project {project}"),
            Some(SubmoduleLocation::Path(path)) => format!("path {path}"),
            Some(SubmoduleLocation::Url { url, is_same_server: true }) => format!("same server {url}"),
            Some(SubmoduleLocation::Url { url, is_same_server: false }) => format!("other server {url}"),
        }
    }

    #[test]
    fn relative_addresses_are_resolved_as_git_does() {
        for (parent, url, expected) in [
            ("https://a.example/x/y.git", "../z.git", Some("https://a.example/x/z.git")),
            ("https://a.example/x/y.git/", "../../z/", Some("https://a.example/z")),
            ("https://a.example/x/y.git", "./z", Some("https://a.example/x/y.git/z")),
            ("git@a.example:x/y.git", "../z.git", Some("git@a.example:x/z.git")),
            ("git@a.example:y.git", "../z.git", Some("git@a.example:z.git")),
            ("/srv/git/y.git", ".././../z.git", Some("/srv/z.git")),
            ("y", "../z", None),
        ] {
            assert_eq!(resolve(parent, url).as_deref(), expected, "{parent} {url}");
        }
    }

    #[test]
    fn the_credential_is_for_the_server_of_the_project_only() {
        for (repository, url, expected) in [
            ("https://a.example/x/y.git", "../z.git", "same server https://a.example/x/z.git"),
            ("https://a.example/x/y.git", "https://A.example:443/q", "same server https://A.example:443/q"),
            ("https://a.example/x/y.git", "http://a.example/q", "other server http://a.example/q"),
            ("https://a.example/x/y.git", "https://a.example:8443/q", "other server https://a.example:8443/q"),
            ("https://a.example/x/y.git", "../../../b.example/q", "other server https://b.example/q"),
            ("https://a.example/x/y.git", "git@a.example:x/z.git", "same server https://a.example/x/z.git"),
            ("https://a.example/x/y.git", "ssh://git@a.example:2222/x", "same server https://a.example/x"),
            ("https://a.example/x/y.git", "git@b.example:x/z.git", "refused"),
            ("https://a.example:8443/x/y.git", "git@a.example:x/z.git", "refused"),
            ("git@a.example:x/y.git", "../z.git", "same server git@a.example:x/z.git"),
            ("git@a.example:x/y.git", "other@a.example:x/z.git", "refused"),
            ("git@a.example:x/y.git", "https://a.example/x/z.git", "other server https://a.example/x/z.git"),
            ("local:shop", "https://a.example/x", "other server https://a.example/x"),
        ] {
            assert_eq!(located(repository, url), expected, "{repository} {url}");
        }
    }

    #[test]
    fn paths_and_transports_that_run_commands_are_refused() {
        for repository in ["https://a.example/x/y.git", "local:shop", "/srv/git/y.git", "file:///srv/git/y.git"] {
            for url in [
                "",
                "z",
                "/srv/git/z.git",
                "file:///srv/git/z.git",
                "ext::sh -c id",
                "-u@a:b",
                "--upload-pack=id",
                "https://user:pw@a.example/x",
                "https://a.example/x\nb",
                "../../../../../../etc",
                "fd::17",
            ] {
                assert_eq!(located(repository, url), "refused", "{repository} {url}");
            }
        }
    }

    #[test]
    fn repositories_on_this_server_are_found_by_relative_addresses() {
        for (repository, url, expected) in [
            ("local:x", "../lib.git", "project lib"),
            ("local:x", "../lib", "project lib"),
            ("local:x", "https://agents.example/git/lib.git/", "project lib"),
            ("local:x", "../../lib", "other server https://agents.example/lib"),
            ("local:x", "../a/b", "refused"),
            (
                "https://a.example/x",
                "https://agents.example/git/lib.git",
                "other server https://agents.example/git/lib.git",
            ),
            ("/srv/git/y.git", "../lib.git", "path /srv/git/lib.git"),
            ("file:///srv/git/y.git", "../more/lib.git", "path /srv/git/more/lib.git"),
            ("/srv/git/y.git", "../../other/lib.git", "refused"),
            ("/srv/git/y.git", "../more/../../lib.git", "refused"),
            ("/srv/git/y.git", "./lib", "path /srv/git/y.git/lib"),
        ] {
            assert_eq!(located(repository, url), expected, "{repository} {url}");
        }
    }
}
