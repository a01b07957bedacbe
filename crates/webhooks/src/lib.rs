//! Webhooks: the bodies of requests in each format, their signatures, and the sender.
//!
//! A request follows Standard Webhooks (<https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>).
//! The URL of an endpoint is a choice of people who may not reach the networks of this machine. The client therefore
//! connects only to public addresses, and to those that the operator has allowed. It resolves a name once, connects to the
//! address that it has checked, and follows no redirects.

mod body;
mod sender;
mod sign;

pub use sender::Sender;
