//! The spans of transactions.

use tracing::Span;

/// Returns the span of a transaction. A transaction that is part of no request and no run has none: workers ask for work
/// all the time, and each question would be a trace.
pub(crate) fn transaction(system: &'static str) -> Span {
    if Span::current().is_none() {
        return Span::none();
    }
    tracing::debug_span!("transaction", db.system.name = system)
}
