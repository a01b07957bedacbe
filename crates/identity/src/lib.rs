//! Who somebody is: passwords, and sign-in by an OpenID provider.
//!
//! Nothing here knows of users, sessions or cookies: it says whether a password is right, and whom a provider
//! vouches for.

pub mod oidc;
pub mod password;
mod ports;
