//! The addresses with which code hosts recognize a user in a commit, without showing the user's own address.

use super::HostKind;

impl HostKind {
    /// Returns the no-reply address of a user of the host with this name; `None` if the product has none, as Bitbucket.
    ///
    /// Sources: GitHub Docs, "Setting your commit email address" (the same form on GitHub Enterprise Server); GitLab Docs,
    /// "Private commit email"; `NO_REPLY_ADDRESS` in the configuration cheat sheets of Gitea and Forgejo, whose default is
    /// `noreply.` and the domain. Newer versions of Gitea write the user's ID into the address, and still recognize it
    /// without.
    #[must_use]
    pub fn no_reply_address(self, host: &str, id: &str, name: &str) -> Option<String> {
        // The port is no part of a domain.
        let domain = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let domain = domain.map_or(host, |(domain, _)| domain);
        match self {
            Self::Github => Some(format!("{id}+{name}@users.noreply.{domain}")),
            Self::Gitlab => Some(format!("{id}-{name}@users.noreply.{domain}")),
            Self::Gitea | Self::Forgejo => Some(format!("{}@noreply.{domain}", name.to_lowercase())),
            Self::Bitbucket | Self::BitbucketDataCenter => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_form_of_the_host() {
        for (kind, host, expected) in [
            (HostKind::Github, "github.com", Some("7+Ada@users.noreply.github.com")),
            (HostKind::Github, "git.example.com", Some("7+Ada@users.noreply.git.example.com")),
            (HostKind::Gitlab, "gitlab.com", Some("7-Ada@users.noreply.gitlab.com")),
            (HostKind::Gitlab, "git.example.com:8443", Some("7-Ada@users.noreply.git.example.com")),
            (HostKind::Gitea, "git.example.com", Some("ada@noreply.git.example.com")),
            (HostKind::Forgejo, "codeberg.org", Some("ada@noreply.codeberg.org")),
            (HostKind::Bitbucket, "bitbucket.org", None),
            (HostKind::BitbucketDataCenter, "git.example.com", None),
        ] {
            assert_eq!(kind.no_reply_address(host, "7", "Ada").as_deref(), expected, "{kind:?} {host}");
        }
    }
}
