//! Outbound connections of the service.
//!
//! Invariants:
//!
//! - A name is resolved once, and a connection goes only to an address that was checked. A server gains nothing if its
//!   name resolves to another address a moment later (DNS rebinding).
//! - Redirects are not followed: they would send credentials to another server.
//! - Every request whose answer is read as a whole has limits of time and size. Callers that read the answer themselves
//!   ([`Client::start`]) limit both.
//!
//! A URL that the operator chose may lead to any address ([`Policy::Any`]); one that a client or a repository chose may
//! lead only to public addresses ([`Policy::Public`]). [`Outbound`] has the rules for the servers of repositories, for git
//! as for HTTP requests.

mod client;
mod connect;
mod error;
mod outbound;
mod policy;
mod proxies;
mod resolver;

pub use client::{Client, Limits, Settings};
pub use connect::connect;
pub use error::{Error, root_cause};
pub use outbound::{Outbound, reach_of_entered};
pub use policy::{Policy, is_loopback};
pub use proxies::{Proxies, Target};
pub use reqwest::Response;
pub use resolver::{Resolver, SystemResolver};
