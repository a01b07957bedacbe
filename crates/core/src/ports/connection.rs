//! Client connections, as managed by the server that accepted them.

use std::collections::BTreeMap;

/// A client connection. The server puts an `Arc<dyn ClientConnection>` into the extensions of each request.
pub trait ClientConnection: Send + Sync {
    /// Records whether the latest request that required authentication was authenticated. The server limits the request
    /// time of connections that are not authenticated, and closes them to make room for new ones.
    fn set_authenticated(&self, authenticated: bool);
}

/// Counts of connections for the metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectionTotals {
    /// The maximum number of open connections.
    pub limit: u64,
    /// Open connections with an authenticated request.
    pub authenticated: u64,
    /// Open connections without an authenticated request.
    pub unauthenticated: u64,
    /// Connections accepted since the start.
    pub accepted: u64,
    /// Connections refused since the start, by cause.
    pub refused: BTreeMap<&'static str, u64>,
    /// Connections that the server closed since the start, by cause.
    pub closed: BTreeMap<&'static str, u64>,
}

/// A source of [`ConnectionTotals`].
pub trait ConnectionMeter: Send + Sync {
    /// Returns the current counts.
    fn connection_totals(&self) -> ConnectionTotals;
}
