//! Connections of clients, as the server that accepted them manages them.

use std::collections::BTreeMap;

/// A connection of a client. The server puts an `Arc<dyn ClientConnection>` into the extensions of each request.
pub trait ClientConnection: Send + Sync {
    /// Records whether the latest request that had to be authenticated was. The server closes connections that are not
    /// authenticated to make room for new ones, and bounds the time of their requests.
    fn set_authenticated(&self, authenticated: bool);
}

/// Counts of connections, for the metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectionTotals {
    /// The most that may be open.
    pub limit: u64,
    /// Open ones with an authenticated request.
    pub authenticated: u64,
    /// Open ones without.
    pub unauthenticated: u64,
    /// Accepted since the start.
    pub accepted: u64,
    /// Refused since the start, by cause.
    pub refused: BTreeMap<&'static str, u64>,
    /// Closed by the server since the start, by cause.
    pub closed: BTreeMap<&'static str, u64>,
}

/// A source of [`ConnectionTotals`].
pub trait ConnectionMeter: Send + Sync {
    /// Returns the counts of this moment.
    fn connection_totals(&self) -> ConnectionTotals;
}
