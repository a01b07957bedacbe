#![doc = include_str!("../README.md")]

mod call;
mod client;
mod error;
mod feed;
mod job;
mod job_events;
pub mod models;
mod pager;
mod request;
pub mod resources;
mod retry;
mod sse;
mod stream;
mod transport;
mod wait;
pub mod webhook;

/// Compiles the examples of the guide, which is not part of the published package.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/sdks.md")]
struct Guide;

pub use bytes::Bytes;
pub use reqwest::Method;

pub use crate::call::{Call, Response, Versioned};
pub use crate::client::{Builder, Client};
pub use crate::error::{ApiError, Error};
pub use crate::feed::FeedEvents;
pub use crate::job::{JobHandle, SentMessage};
pub use crate::job_events::JobEvents;
pub use crate::pager::{Page, Pager};
