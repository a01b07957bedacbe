//! The limits of a key that another key creates: it is never able to do more than that one, and ends with it.

use ipnet::IpNet;

use super::{ApiKey, NewKey, Scope};
use crate::ids::{KeyId, ProjectId};
use crate::time::Timestamp;

/// What a key allows.
#[derive(Debug, Clone, Copy)]
struct Limits<'a> {
    scopes: &'a [Scope],
    projects: Option<&'a [ProjectId]>,
    expires_at: Option<Timestamp>,
    allowed_ips: Option<&'a [IpNet]>,
}

impl<'a> Limits<'a> {
    /// Returns what a key with these limits allows more than one with those of `parent`, as a sentence about the field.
    fn beyond(self, parent: Limits<'a>) -> Option<&'static str> {
        let is_later = match (self.expires_at, parent.expires_at) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(own), Some(end)) => own > end,
        };
        let has_more = |own: Option<&[ProjectId]>, allowed: &[ProjectId]| {
            own.is_none_or(|own| own.iter().any(|project| !allowed.contains(project)))
        };
        let has_wider = |own: Option<&[IpNet]>, allowed: &[IpNet]| {
            own.is_none_or(|own| own.iter().any(|net| !allowed.iter().any(|wide| wide.contains(net))))
        };
        if self.scopes.iter().max() > parent.scopes.iter().max() {
            Some("scopes: a key cannot give another one a scope that it does not have")
        } else if parent.projects.is_some_and(|allowed| has_more(self.projects, allowed)) {
            Some("projects: a key cannot give another one projects that it is not for")
        } else if is_later {
            Some("expiresAt: a key cannot outlive the key that creates or rotates it; name an earlier time, or omit it")
        } else if parent.allowed_ips.is_some_and(|allowed| has_wider(self.allowed_ips, allowed)) {
            Some(
                "allowedIps: a key cannot be used from more addresses than the key that creates or rotates it; name some \
                 of those, or omit it",
            )
        } else {
            None
        }
    }
}

impl NewKey {
    /// Returns what this key would allow more than the key `parent`, which creates it, as a sentence about the field;
    /// `None` if nothing.
    #[must_use]
    pub fn beyond(&self, parent: &ApiKey) -> Option<&'static str> {
        let own = Limits {
            scopes: &self.scopes,
            projects: self.projects.as_deref(),
            expires_at: self.expires_at,
            allowed_ips: self.allowed_ips.as_deref(),
        };
        own.beyond(parent.limits())
    }
}

impl ApiKey {
    fn limits(&self) -> Limits<'_> {
        Limits {
            scopes: &self.scopes,
            projects: self.projects.as_deref(),
            expires_at: self.expires_at,
            allowed_ips: self.allowed_ips.as_deref(),
        }
    }

    /// Returns what this key allows more than the key `other`, as a sentence about the field; `None` if nothing.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> Option<&'static str> {
        self.limits().beyond(other.limits())
    }

    /// Returns the key that has created this one, with which it ends; `None` if a user, the command line or a trust has.
    #[must_use]
    pub fn parent(&self) -> Option<KeyId> {
        self.creator.as_deref()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;
    use crate::key::{KeyHash, parse_network};

    fn new(scope: Scope, projects: Option<&[&str]>, seconds: Option<u64>, ips: Option<&[&str]>) -> NewKey {
        NewKey {
            name: "k".to_owned(),
            scopes: vec![scope],
            projects: projects.map(|ids| ids.iter().map(|id| id.parse().unwrap()).collect()),
            expires_at: seconds.map(|seconds| Timestamp::default() + Duration::from_secs(seconds)),
            allowed_ips: ips.map(|nets| nets.iter().map(|net| parse_network(net).unwrap()).collect()),
        }
    }

    fn key(new: NewKey) -> ApiKey {
        ApiKey {
            id: KeyId::from_uuid(Uuid::nil()),
            name: new.name,
            prefix: String::new(),
            hash: KeyHash([0; 32]),
            scopes: new.scopes,
            projects: new.projects,
            expires_at: new.expires_at,
            allowed_ips: new.allowed_ips,
            created_at: Timestamp::default(),
            last_used_at: None,
            revoked_at: None,
            creator: None,
            owner: None,
            old_secret: None,
            version: 1,
        }
    }

    #[test]
    fn a_key_gives_no_more_than_it_has() {
        let parent = new(Scope::Jobs, Some(&["shop", "blog"]), Some(10), Some(&["10.0.0.0/8", "::1"]));
        let (projects, ips) = (Some(&["shop"][..]), Some(&["10.1.2.3", "10.2.0.0/16"][..]));
        for (child, field) in [
            (new(Scope::Read, projects, Some(10), ips), None),
            (new(Scope::Jobs, Some(&["shop", "blog"]), Some(9), Some(&["::1"])), None),
            (new(Scope::Write, projects, Some(10), ips), Some("scopes")),
            (new(Scope::Read, None, Some(10), ips), Some("projects")),
            (new(Scope::Read, Some(&["shop", "other"]), Some(10), ips), Some("projects")),
            (new(Scope::Read, projects, Some(11), ips), Some("expiresAt")),
            (new(Scope::Read, projects, None, ips), Some("expiresAt")),
            (new(Scope::Read, projects, Some(10), None), Some("allowedIps")),
            (new(Scope::Read, projects, Some(10), Some(&["10.0.0.0/7"])), Some("allowedIps")),
            (new(Scope::Read, projects, Some(10), Some(&["10.0.0.1", "11.0.0.1"])), Some("allowedIps")),
        ] {
            let parent = key(parent.clone());
            let found = child.beyond(&parent).and_then(|text| text.split(':').next());
            assert_eq!(found, field, "{child:?}");
            assert_eq!(key(child).beyond(&parent).is_some(), field.is_some());
        }
        let free = new(Scope::Write, None, None, None);
        assert_eq!(free.beyond(&key(free.clone())), None);
    }

    #[test]
    fn only_a_key_is_a_parent() {
        let id = "key_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7";
        for (creator, parent) in [
            (Some(id), Some(id)),
            (Some("user_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7"), None),
            (Some("cli"), None),
            (None, None),
        ] {
            let creator = creator.map(str::to_owned);
            let key = ApiKey { creator, ..key(new(Scope::Read, None, None, None)) };
            assert_eq!(key.parent().map(|id| id.to_string()).as_deref(), parent);
        }
    }
}
