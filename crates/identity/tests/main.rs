//! Sign-in by an OpenID provider, against one on the loopback.

#![expect(clippy::unwrap_used, reason = "tests")]

mod identity {
    mod discovery;
    mod faults;
    mod given;
    mod sign_in;
}
