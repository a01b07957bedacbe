//! The proxy for models, against a server of models on the loopback.

#![expect(clippy::unwrap_used, reason = "tests")]

mod gateway {
    mod given;
    mod models;
    mod money;
}
