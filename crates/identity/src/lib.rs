//! Authentication: passwords, and sign-in through an OpenID provider.
//!
//! This crate verifies passwords and the identities that a provider asserts. It knows nothing about users, sessions or
//! cookies.

pub mod oidc;
pub mod password;
mod ports;
