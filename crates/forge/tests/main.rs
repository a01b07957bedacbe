//! Tests of the code hosts against stand-ins with real git.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod hosts {
    mod app;
    mod check;
    mod conformance;
    mod faults;
    mod given;
    mod polls;
}
