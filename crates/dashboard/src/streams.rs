//! The shared parts of event streams: the position where a browser continues, and a limit on the open streams of a
//! user, because each takes memory and one of the server's connections.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use journeyman_core::ids::UserId;
use serde::Deserialize;

/// The ID of the last event of a stream that a browser has received; `None` if it has received none.
///
/// A browser sends it in a header when it connects again after an interruption. It does not connect again after a request
/// was refused, as by a server that is stopping. Then the script of the page does, which can only send it in the query.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct LastEventId(pub(crate) Option<String>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InQuery {
    last_event_id: Option<String>,
}

impl<S: Sync> FromRequestParts<S> for LastEventId {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let header = parts.headers.get("last-event-id").and_then(|value| value.to_str().ok()).map(str::to_owned);
        let in_query = || Query::<InQuery>::try_from_uri(&parts.uri).ok()?.0.last_event_id;
        Ok(Self(header.or_else(in_query)))
    }
}

/// The maximum number of streams of one user in one process. A browser opens six connections to a server, and people
/// have few profiles.
const MAX_STREAMS: usize = 40;

/// The number of open streams of each user.
#[derive(Debug, Clone, Default)]
pub(crate) struct Streams(Arc<Mutex<HashMap<UserId, usize>>>);

/// An open stream. Dropping it frees its slot.
pub(crate) struct Stream {
    all: Streams,
    user: UserId,
}

impl Streams {
    /// Opens a stream; returns `None` if the user already has the maximum number.
    pub(crate) fn open(&self, user: UserId) -> Option<Stream> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(user).or_default();
        if *count >= MAX_STREAMS {
            return None;
        }
        *count += 1;
        Some(Stream { all: self.clone(), user })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut open = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;
    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn the_last_event_is_in_the_header_or_in_the_query() {
        for (header, uri, expected) in [
            (None, "/live?after=7", None),
            (Some("9"), "/live", Some("9")),
            (None, "/live?after=7&lastEventId=8%209", Some("8 9")),
            (Some("9"), "/live?lastEventId=8", Some("9")),
        ] {
            let request = Request::get(uri);
            let request = header.into_iter().fold(request, |request, id| request.header("last-event-id", id));
            let (mut parts, ()) = request.body(()).unwrap().into_parts();
            let found = LastEventId::from_request_parts(&mut parts, &()).await.unwrap();
            assert_eq!(found.0.as_deref(), expected, "{header:?} {uri}");
        }
    }

    #[test]
    fn streams_are_limited_by_user_and_closing_one_frees_a_slot() {
        let streams = Streams::default();
        let (ada, bob) = (UserId::from_uuid(Uuid::from_u128(1)), UserId::from_uuid(Uuid::from_u128(2)));
        let mut open: Vec<_> = (0..MAX_STREAMS).filter_map(|_| streams.open(ada)).collect();
        assert_eq!(open.len(), MAX_STREAMS);
        assert!(streams.open(ada).is_none() && streams.open(bob).is_some());
        open.pop();
        assert!(streams.open(ada).is_some());
        drop(open);
        assert!(streams.0.lock().expect("the map").is_empty());
    }
}
