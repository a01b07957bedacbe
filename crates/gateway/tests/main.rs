//! Tests of the model proxy, against a model server on the loopback interface.

#![expect(clippy::unwrap_used, reason = "tests")]

mod gateway {
    mod fixtures;
    mod models;
    mod money;
}
