//! Tests of the sign-in through an OpenID provider, and of the tokens of issuers, against a test provider on the loopback.

#![expect(clippy::unwrap_used, reason = "tests")]

mod identity {
    mod discovery;
    mod faults;
    mod fixtures;
    mod sign_in;
    mod tokens;
}
