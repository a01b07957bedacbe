//! Authentication: passwords, sign-in through an OpenID provider, and the verification of tokens of OpenID issuers.
//!
//! This crate verifies passwords, the identities that a provider asserts, and the tokens of continuous integration. It
//! knows nothing about users, sessions or cookies.

mod jwt;
pub mod oidc;
pub mod password;
mod ports;
pub mod token;
