//! Decides which connections may be open at a time. The module uses no clock, only the order of acceptance.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};

use super::limits::Limits;

/// The fraction of the slots that connections without an authenticated request can always have: one eighth.
const RESERVED: usize = 8;

/// The ID of a connection; later connections have higher IDs.
pub(super) type Id = u64;

/// A host that opens connections: an IPv4 address, or the 64-bit prefix of an IPv6 network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Source(IpAddr);

impl Source {
    pub(super) fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
            address @ IpAddr::V4(_) => address,
        })
    }
}

/// A decision on a new connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The connection is admitted; another one, if named, must be closed for it.
    Admitted(Id, Option<Evicted>),
    /// The connection is refused: its address has reached its limit, and all of its connections are authenticated.
    Refused,
}

/// A connection that has to be closed for a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Evicted {
    pub(super) id: Id,
    pub(super) limit: Limit,
}

/// A limit that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Limit {
    /// The limit of all connections.
    All,
    /// The limit of one address.
    Address,
}

/// The open connections.
#[derive(Debug)]
pub(super) struct Admission {
    limits: Limits,
    next: Id,
    unauthenticated: BTreeMap<Id, Option<Source>>,
    authenticated: HashMap<Id, Option<Source>>,
    sources: HashMap<Source, FromSource>,
}

/// The connections from one source.
#[derive(Debug, Default)]
struct FromSource {
    open: usize,
    unauthenticated: BTreeSet<Id>,
}

impl Admission {
    pub(super) fn new(limits: Limits) -> Self {
        let (unauthenticated, authenticated) = (BTreeMap::new(), HashMap::new());
        Self { limits, next: 0, unauthenticated, authenticated, sources: HashMap::new() }
    }

    /// Decides on a new connection. `source` is `None` for a trusted proxy, which has no limit per address.
    ///
    /// At a limit, the oldest connection without an authenticated request is closed: a new client, which is about to
    /// send its request, has priority over one that has had time to send its own.
    pub(super) fn admit(&mut self, source: Option<Source>) -> Verdict {
        let evicted = match self.evicted_for(source) {
            Ok(evicted) => evicted,
            Err(()) => return Verdict::Refused,
        };
        if let Some(evicted) = evicted {
            self.close(evicted.id);
        }
        let id = self.next;
        self.next += 1;
        self.unauthenticated.insert(id, source);
        if let Some(source) = source {
            let from = self.sources.entry(source).or_default();
            from.open += 1;
            from.unauthenticated.insert(id);
        }
        Verdict::Admitted(id, evicted)
    }

    /// Returns the connection that must be closed for a new one, if any; an error if the new one must be refused.
    fn evicted_for(&self, source: Option<Source>) -> Result<Option<Evicted>, ()> {
        let from = source.and_then(|source| self.sources.get(&source));
        if let Some(from) = from.filter(|from| from.open >= self.limits.per_address) {
            let id = from.unauthenticated.first().copied().ok_or(())?;
            return Ok(Some(Evicted { id, limit: Limit::Address }));
        }
        if self.open() < self.limits.total {
            return Ok(None);
        }
        // Such a connection exists: authenticated connections leave some slots to others.
        let id = self.oldest().ok_or(())?;
        Ok(Some(Evicted { id, limit: Limit::All }))
    }

    /// Returns the oldest connection without an authenticated request.
    pub(super) fn oldest(&self) -> Option<Id> {
        self.unauthenticated.first_key_value().map(|(id, _)| *id)
    }

    /// Notes whether a connection is authenticated; returns whether it counts as authenticated. Once authenticated
    /// connections have all the slots that they may have, any more count as unauthenticated.
    pub(super) fn mark(&mut self, id: Id, authenticated: bool) -> bool {
        if !authenticated {
            if let Some(source) = self.authenticated.remove(&id) {
                self.unauthenticated.insert(id, source);
                source.map(|source| self.sources.entry(source).or_default().unauthenticated.insert(id));
            }
            return false;
        }
        if self.authenticated.contains_key(&id) {
            return true;
        }
        let reserved = (self.limits.total / RESERVED).max(1);
        if self.authenticated.len() + reserved >= self.limits.total {
            return false;
        }
        let Some(source) = self.unauthenticated.remove(&id) else { return false };
        if let Some(from) = source.and_then(|source| self.sources.get_mut(&source)) {
            from.unauthenticated.remove(&id);
        }
        self.authenticated.insert(id, source);
        true
    }

    /// Forgets a connection; does nothing for an unknown one.
    pub(super) fn close(&mut self, id: Id) {
        let Some(source) = self.unauthenticated.remove(&id).or_else(|| self.authenticated.remove(&id)) else { return };
        let Some(source) = source else { return };
        if let Some(from) = self.sources.get_mut(&source) {
            from.open -= 1;
            from.unauthenticated.remove(&id);
            if from.open == 0 {
                self.sources.remove(&source);
            }
        }
    }

    pub(super) fn open(&self) -> usize {
        self.unauthenticated.len() + self.authenticated.len()
    }

    pub(super) fn authenticated(&self) -> usize {
        self.authenticated.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(total: usize, per_address: usize) -> Admission {
        Admission::new(Limits { total, per_address })
    }

    fn source(address: &str) -> Option<Source> {
        Some(Source::of(address.parse().expect("an address")))
    }

    fn open(admission: &mut Admission, from: Option<Source>) -> (Id, Option<Evicted>) {
        match admission.admit(from) {
            Verdict::Admitted(id, evicted) => (id, evicted),
            Verdict::Refused => panic!("refused"),
        }
    }

    #[test]
    fn at_the_limit_of_all_connections_the_oldest_unauthenticated_one_is_evicted() {
        let mut admission = admission(4, 4);
        let ids: Vec<Id> = (1..=4).map(|host| open(&mut admission, source(&format!("192.0.2.{host}"))).0).collect();
        assert!(admission.mark(ids[0], true));
        let evicted = open(&mut admission, source("198.51.100.1")).1;
        assert_eq!(evicted, Some(Evicted { id: ids[1], limit: Limit::All }));
        assert_eq!((admission.open(), admission.authenticated()), (4, 1));
        admission.close(ids[1]);
        assert_eq!(admission.open(), 4, "an evicted connection was forgotten at once");
        admission.close(ids[2]);
        assert_eq!(open(&mut admission, None).1, None, "a slot is free again");
    }

    #[test]
    fn at_the_limit_of_an_address_only_its_own_connections_are_evicted() {
        let mut admission = admission(100, 2);
        let other = open(&mut admission, source("198.51.100.1")).0;
        let first = open(&mut admission, source("192.0.2.1")).0;
        let second = open(&mut admission, source("192.0.2.1")).0;
        assert!(other < first);
        let (third, evicted) = open(&mut admission, source("192.0.2.1"));
        assert_eq!(evicted, Some(Evicted { id: first, limit: Limit::Address }));
        assert!(admission.mark(second, true) && admission.mark(third, true));
        assert_eq!(admission.admit(source("192.0.2.1")), Verdict::Refused, "all of its connections are authenticated");
        assert_eq!(open(&mut admission, source("192.0.2.2")).1, None);
        assert!(!admission.mark(third, false));
        assert_eq!(open(&mut admission, source("192.0.2.1")).1, Some(Evicted { id: third, limit: Limit::Address }));
    }

    #[test]
    fn a_trusted_proxy_has_no_limit_per_address() {
        let mut admission = admission(50, 2);
        for _ in 0..50 {
            assert_eq!(open(&mut admission, None).1, None);
        }
        assert_eq!(open(&mut admission, None).1, Some(Evicted { id: 0, limit: Limit::All }));
    }

    #[test]
    fn authenticated_connections_leave_slots_to_health_checks() {
        let mut admission = admission(16, 16);
        let mut counted = 0;
        for _ in 0..40 {
            let id = open(&mut admission, None).0;
            counted += usize::from(admission.mark(id, true));
        }
        assert_eq!((counted, admission.authenticated(), admission.open()), (14, 14, 16));
        let (id, evicted) = open(&mut admission, source("192.0.2.1"));
        assert!(evicted.is_some(), "one that does not count as authenticated");
        assert!(!admission.mark(id, true) && !admission.mark(id, true));
    }

    #[test]
    fn a_closed_connection_cannot_be_marked() {
        let mut admission = admission(4, 4);
        let id = open(&mut admission, source("192.0.2.1")).0;
        admission.close(id);
        assert!(!admission.mark(id, true) && !admission.mark(id, false));
        assert_eq!((admission.open(), admission.authenticated(), admission.sources.len()), (0, 0, 0));
    }

    #[test]
    fn a_source_is_an_ipv4_address_or_an_ipv6_network() {
        assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:0:0:1"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
    }
}
