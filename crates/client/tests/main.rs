//! Tests of the client library: against the OpenAPI document, and with a server that gives prepared answers.

#![expect(clippy::expect_used, clippy::panic, reason = "test helpers")]

mod client {
    mod openapi;
    mod server;
}
