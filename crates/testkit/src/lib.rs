//! Fakes and initial data that the tests of several crates share. This crate is only a dev-dependency, and panics like
//! a test.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod base_comparisons;
mod blobs;
mod bucket;
pub mod code_host;
mod collector;
mod endpoints;
mod failing_disk;
mod faulty_blobs;
mod forges;
mod http_server;
mod lfs;
mod memory_host;
mod models;
pub mod oidc;
mod patience;
mod postgres;
mod sandbox;
mod seeds;
mod slack;
pub mod slack_server;
mod still_time;
mod stored;
mod tapped;
mod template;
mod tokens;
mod world;

pub use base_comparisons::FakeComparisons;
pub use blobs::MemoryBlobs;
pub use bucket::{BucketFault, BucketServer};
pub use collector::{Collector, ExportedSpan};
pub use endpoints::FakeEndpoints;
pub use failing_disk::FailingDisk;
pub use faulty_blobs::{BlobFault, FaultyBlobs};
pub use forges::{FakeForges, FakeHosts, OneDiff, OnePull};
pub use http_server::{HttpCall, HttpServer};
pub use lfs::{FakeHostedObjects, FakeLfs};
pub use memory_host::{HostCall, MemoryHost, Moment, Written, WrittenReply};
pub use models::{Asked, Fault, ModelServer, Recorded, Reply, TOKENS};
pub use patience::{PATIENCE, until, until_async, within};
pub use postgres::Postgres;
pub use sandbox::FakeSandbox;
pub use seeds::{Refused, Seeds, decide_on};
pub use slack::{FakePost, FakeSlack, SlackFault};
pub use still_time::StillTime;
pub use stored::{all_stored, stored};
pub use tapped::{StoreCall, Tap, Tapped};
pub use template::Template;
pub use tokens::FakeTokens;
pub use world::World;
