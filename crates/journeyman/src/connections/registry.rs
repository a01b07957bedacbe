//! The open connections of the process: decides which are admitted and which must close, counts them, and logs reached
//! limits.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ipnet::IpNet;
use journeyman_core::ports::{ClientConnection, ConnectionMeter, ConnectionTotals};
use journeyman_core::time::{Clock, IdGen};
use journeyman_http::{ErrorCode, error_body};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;

use super::activity::{Activity, Expired, Timeouts};
use super::admission::{Admission, Evicted, Id, Limit, Source, Verdict};
use super::limits::Limits;
use super::strict_transport;
use crate::system::Machine;

/// The minimum time between two log lines about the same event.
const QUIET: Duration = Duration::from_secs(10);

/// The maximum number of slots beyond the limit, for connections that are being closed or refused.
const CLOSING: usize = 256;

/// The open connections. The lock is taken when a connection begins, ends, and is authenticated for the first time, not
/// for each request.
pub(crate) struct Registry {
    begun: Instant,
    limits: Limits,
    timeouts: Timeouts,
    trusted: Vec<IpNet>,
    /// Whether clients reach the service over https, so that answers tell browsers to use nothing else.
    is_https: bool,
    slots: Arc<Semaphore>,
    table: Mutex<Table>,
}

struct Table {
    admission: Admission,
    /// The channels that signal connections to close.
    closers: HashMap<Id, oneshot::Sender<()>>,
    accepted: u64,
    refused: BTreeMap<&'static str, u64>,
    closed: BTreeMap<&'static str, u64>,
    at_limit: LogGate,
    accept_failed: LogGate,
}

/// A decision on a new connection.
pub(super) enum Admitted {
    /// The connection may be served.
    Yes(Ticket),
    /// The connection must be refused.
    No,
}

/// The permission of a connection to be open, until the ticket is dropped.
pub(super) struct Ticket {
    pub(super) connection: Arc<Connection>,
    /// Becomes ready when the connection has to be closed.
    pub(super) evicted: oneshot::Receiver<()>,
    /// The timeout for which the connection was closed, if any.
    pub(super) expired: Option<Expired>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut table = self.connection.registry.table();
        table.admission.close(self.connection.id);
        table.closers.remove(&self.connection.id);
        if let Some(expired) = self.expired {
            *table.closed.entry(expired.name()).or_default() += 1;
        }
    }
}

/// An open connection, as its requests see it.
pub(super) struct Connection {
    id: Id,
    pub(super) activity: Activity,
    registry: Arc<Registry>,
}

impl Connection {
    /// Returns the time since the server started.
    pub(super) fn now(&self) -> Duration {
        self.registry.begun.elapsed()
    }

    /// Returns the time at which to close the connection unless its phase changes, and the timeout that has then
    /// passed.
    pub(super) fn deadline(&self) -> Option<(Instant, Expired)> {
        let (at, expired) = self.activity.deadline(&self.registry.timeouts)?;
        Some((self.registry.begun + at, expired))
    }

    /// Returns whether clients reach the service over https.
    pub(super) fn is_https(&self) -> bool {
        self.registry.is_https
    }

    /// Returns the time after which a connection without a deadline is checked again.
    pub(super) fn recheck_interval(&self) -> Duration {
        self.registry.timeouts.idle
    }
}

impl ClientConnection for Connection {
    fn set_authenticated(&self, authenticated: bool) {
        self.activity.set_request_authenticated(authenticated);
        if self.activity.is_authenticated() != authenticated {
            let counts = self.registry.table().admission.mark(self.id, authenticated);
            self.activity.set_authenticated(counts);
        }
    }
}

impl Registry {
    pub(crate) fn new(limits: Limits, timeouts: Timeouts, trusted: Vec<IpNet>, is_https: bool) -> Arc<Self> {
        let table = Table {
            admission: Admission::new(limits),
            closers: HashMap::new(),
            accepted: 0,
            // All causes are present from the start, so that a rise from 0 is visible.
            refused: BTreeMap::from([("address_limit", 0), ("accept_error", 0)]),
            closed: [Expired::Header, Expired::Idle, Expired::Request, Expired::Write]
                .map(Expired::name)
                .into_iter()
                .chain(["limit", "address_limit", "no_descriptors"])
                .map(|cause| (cause, 0))
                .collect(),
            at_limit: LogGate::default(),
            accept_failed: LogGate::default(),
        };
        let slots = Arc::new(Semaphore::new(limits.total + (limits.total / 4).clamp(1, CLOSING)));
        Arc::new(Self { begun: Instant::now(), limits, timeouts, trusted, is_https, slots, table: Mutex::new(table) })
    }

    /// Waits for a slot for a descriptor. A slot becomes free soon: connections that must close do not wait for
    /// anything.
    pub(super) async fn slot(&self) -> OwnedSemaphorePermit {
        loop {
            match Arc::clone(&self.slots).acquire_owned().await {
                Ok(slot) => return slot,
                // The semaphore is never closed.
                Err(_) => std::future::pending::<()>().await,
            }
        }
    }

    /// Decides on a connection that was accepted from an address.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr) -> Admitted {
        let canonical = address.to_canonical();
        let source = (!self.trusted.iter().any(|net| net.contains(&canonical))).then(|| Source::of(address));
        let now = self.begun.elapsed();
        let mut table = self.table();
        let table = &mut *table;
        match table.admission.admit(source) {
            Verdict::Admitted(id, evicted) => {
                if let Some(Evicted { id, limit }) = evicted {
                    let cause = match limit {
                        Limit::All => "limit",
                        Limit::Address => "address_limit",
                    };
                    table.evict(id, cause);
                    self.log_limit(table, limit, canonical, now);
                }
                table.accepted += 1;
                let (closer, evicted) = oneshot::channel();
                table.closers.insert(id, closer);
                let connection = Connection { id, activity: Activity::new(now), registry: Arc::clone(self) };
                Admitted::Yes(Ticket { connection: Arc::new(connection), evicted, expired: None })
            }
            Verdict::Refused => {
                *table.refused.entry("address_limit").or_default() += 1;
                self.log_limit(table, Limit::Address, canonical, now);
                Admitted::No
            }
        }
    }

    fn log_limit(&self, table: &mut Table, limit: Limit, address: IpAddr, now: Duration) {
        let Some(times) = table.at_limit.pass(now) else { return };
        let (open, authenticated) = (table.admission.open(), table.admission.authenticated());
        let Limits { total, per_address } = self.limits;
        match limit {
            Limit::All => tracing::warn!(
                times, open, authenticated, total, %address,
                "the connection limit is reached: the oldest connections without an authenticated request are closed \
                 for new ones; raise max-connections, or block the addresses that hold them"
            ),
            Limit::Address => tracing::warn!(
                times, open, authenticated, per_address, %address,
                "an address has reached its connection limit: its oldest connections without an authenticated request \
                 are closed for new ones, or new ones are refused; raise max-connections-per-address, or, if it is a \
                 proxy, add it to trusted-proxies"
            ),
        }
    }

    /// Notes that accept has failed, and closes the `close` oldest connections without an authenticated request.
    pub(super) fn accept_failed(&self, error: &std::io::Error, close: usize) {
        let now = self.begun.elapsed();
        let mut table = self.table();
        *table.refused.entry("accept_error").or_default() += 1;
        for _ in 0..close {
            let Some(id) = table.admission.oldest() else { break };
            table.admission.close(id);
            table.evict(id, "no_descriptors");
        }
        if let Some(times) = table.accept_failed.pass(now) {
            let open = table.admission.open();
            tracing::error!(%error, times, open, "connections could not be accepted; the service tries again. If too \
                 many files are open, raise the service's limit of open files, or lower max-connections");
        }
    }

    /// Returns the response to a refused connection.
    pub(super) fn refusal(&self) -> String {
        let id = format!("req_{}", Machine.uuid(Machine.now()).simple());
        let text = format!(
            "your address has {} open connections, which is the maximum; close some, or reuse them",
            self.limits.per_address
        );
        let body = error_body(ErrorCode::TooManyConnections, &text, &id);
        format!(
            "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             retry-after: 1\r\nx-request-id: {id}\r\n{}connection: close\r\n\r\n{body}",
            body.len(),
            strict_transport::line(self.is_https)
        )
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Signals a connection to close, and counts the cause.
    fn evict(&mut self, id: Id, cause: &'static str) {
        if let Some(closer) = self.closers.remove(&id) {
            // A connection that is already closing no longer listens.
            if closer.send(()).is_ok() {
                *self.closed.entry(cause).or_default() += 1;
            }
        }
    }
}

impl ConnectionMeter for Registry {
    fn connection_totals(&self) -> ConnectionTotals {
        let table = self.table();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let authenticated = table.admission.authenticated();
        ConnectionTotals {
            limit: count(self.limits.total),
            authenticated: count(authenticated),
            unauthenticated: count(table.admission.open() - authenticated),
            accepted: table.accepted,
            refused: table.refused.clone(),
            closed: table.closed.clone(),
        }
    }
}

/// A gate that lets one log line through per [`QUIET`].
#[derive(Debug, Default)]
struct LogGate {
    last: Option<Duration>,
    times: u64,
}

impl LogGate {
    /// Counts an occurrence; returns the number of occurrences since the last line if it is time for another line.
    fn pass(&mut self, now: Duration) -> Option<u64> {
        self.times += 1;
        if self.last.is_some_and(|last| now.saturating_sub(last) < QUIET) {
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    const TIMEOUTS: Timeouts = Timeouts { header: SECOND, idle: SECOND, request: SECOND, write: SECOND };

    fn ticket(registry: &Arc<Registry>, address: &str) -> Ticket {
        match registry.admit(address.parse().expect("an address")) {
            Admitted::Yes(ticket) => ticket,
            Admitted::No => panic!("{address} is refused"),
        }
    }

    #[test]
    fn a_log_gate_passes_one_line_per_interval_with_the_number_of_occurrences() {
        let mut gate = LogGate::default();
        let at = Duration::from_secs;
        assert_eq!([gate.pass(at(5)), gate.pass(at(6)), gate.pass(at(14))], [Some(1), None, None]);
        assert_eq!([gate.pass(at(15)), gate.pass(at(16))], [Some(3), None]);
    }

    #[tokio::test]
    async fn the_oldest_unauthenticated_connection_is_evicted_and_counted() {
        let registry = Registry::new(Limits { total: 3, per_address: 3 }, TIMEOUTS, Vec::new(), false);
        let mut known = ticket(&registry, "192.0.2.1");
        known.connection.set_authenticated(true);
        let mut oldest = ticket(&registry, "192.0.2.2");
        let mut younger = ticket(&registry, "192.0.2.3");
        let _new = ticket(&registry, "192.0.2.4");
        oldest.evicted.try_recv().expect("it is evicted");
        assert!(known.evicted.try_recv().is_err() && younger.evicted.try_recv().is_err());
        let totals = registry.connection_totals();
        assert_eq!((totals.limit, totals.authenticated, totals.unauthenticated, totals.accepted), (3, 1, 2, 4));
        assert_eq!(totals.closed["limit"], 1);
    }

    #[tokio::test]
    async fn trusted_proxies_have_no_limit_per_address() {
        let trusted = vec!["192.0.2.0/24".parse().expect("a network")];
        let registry = Registry::new(Limits { total: 9, per_address: 1 }, TIMEOUTS, trusted, false);
        let tickets: Vec<Ticket> = (0..5).map(|_| ticket(&registry, "::ffff:192.0.2.9")).collect();
        assert_eq!(registry.connection_totals().unauthenticated, 5);
        let client = ticket(&registry, "198.51.100.1");
        client.connection.set_authenticated(true);
        assert!(matches!(registry.admit("198.51.100.1".parse().expect("an address")), Admitted::No));
        assert_eq!(registry.connection_totals().refused["address_limit"], 1);
        assert!(registry.refusal().contains("too_many_connections"));
        drop((tickets, client));
        assert_eq!(registry.connection_totals().unauthenticated + registry.connection_totals().authenticated, 0);
    }

    #[tokio::test]
    async fn the_oldest_connections_are_closed_when_descriptors_run_out() {
        let registry = Registry::new(Limits { total: 9, per_address: 9 }, TIMEOUTS, Vec::new(), false);
        let known = ticket(&registry, "192.0.2.1");
        known.connection.set_authenticated(true);
        let others: Vec<Ticket> = (0..3).map(|_| ticket(&registry, "192.0.2.2")).collect();
        registry.accept_failed(&std::io::Error::other("too many open files"), 2);
        let totals = registry.connection_totals();
        assert_eq!((totals.authenticated, totals.unauthenticated, totals.closed["no_descriptors"]), (1, 1, 2));
        registry.accept_failed(&std::io::Error::other("too many open files"), 2);
        assert_eq!(registry.connection_totals().closed["no_descriptors"], 3);
        drop(others);
    }
}
