//! The requests of a test to a stand-in, and their comparison with the host's description.

use std::collections::BTreeSet;
use std::sync::mpsc::Receiver;

use journeyman_testkit::code_host::{ApiRequest, CodeHostServer, Exchange, Product};
use serde_json::Value;

use super::description::{are_installed, descriptions};
use super::exceptions::is_excepted;

/// The requests to a stand-in. When a test ends, they are compared with the descriptions of the host, if these are
/// installed.
pub(crate) struct Recorded {
    product: Product,
    exchanges: Receiver<Exchange>,
}

impl Recorded {
    /// Records the requests to a stand-in from now on.
    pub(crate) fn new(product: Product, server: &CodeHostServer) -> Self {
        Self { product, exchanges: server.record() }
    }

    /// Removes and returns the requests so far.
    pub(crate) fn take(&self) -> Vec<Exchange> {
        self.exchanges.try_iter().collect()
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        if !std::thread::panicking() && are_installed(self.product) {
            compare(self.product, &self.take());
        }
    }
}

/// Returns whether a request is one to GitHub's GraphQL interface, which has another description.
pub(crate) fn is_graphql(call: &ApiRequest) -> bool {
    call.segments.iter().any(|segment| segment == "graphql")
}

/// Returns the errors of a GraphQL query that asks for what the stand-in does not know. Other errors have a type.
fn unknown_fields(exchange: &Exchange) -> Option<String> {
    let body: Value = serde_json::from_slice(&exchange.reply.as_ref()?.body).ok()?;
    let has_unknown = body["errors"].as_array()?.iter().any(|error| error["type"].is_null());
    has_unknown.then(|| format!("{}: {}", exchange.call.body["query"], body["errors"]))
}

/// Fails if a request or an answer is not as the host describes it.
pub(crate) fn compare(product: Product, exchanges: &[Exchange]) {
    let mut problems = BTreeSet::new();
    for described in descriptions(product) {
        for exchange in exchanges.iter().filter(|exchange| !is_graphql(&exchange.call)) {
            let found = described.problems(exchange).into_iter();
            problems.extend(found.filter(|problem| !is_excepted(product, &exchange.call, problem)));
        }
    }
    problems.extend(exchanges.iter().filter(|exchange| is_graphql(&exchange.call)).filter_map(unknown_fields));
    let problems: Vec<String> = problems.into_iter().collect();
    assert!(problems.is_empty(), "not as {product:?} describes it:\n{}", problems.join("\n"));
}
