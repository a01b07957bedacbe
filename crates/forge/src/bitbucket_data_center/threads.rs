//! Changes of comments and their threads.

use http::{Method, StatusCode};
use journeyman_core::ports::ForgeError;
use serde_json::{Value, json};

use super::wire::{Versioned, exception};
use super::{ATTEMPTS, BitbucketDataCenter, Location};
use crate::http::encoded;

/// Changes a field of a comment: `text`, or `threadResolved` of the first comment of a thread. A change must name the version
/// of the comment. If others change it at the same time, it is read again.
pub(super) async fn change(
    host: &BitbucketDataCenter,
    location: &Location,
    pull: u64,
    comment: &str,
    (field, value): (&str, Value),
) -> Result<(), ForgeError> {
    let path = format!("{}/{pull}/comments/{}", location.pulls(), encoded(comment));
    let mut attempt = 1;
    loop {
        let Versioned { version } = host.get(&path).await?;
        let answer = host.call(Method::PUT, &path, Some(&json!({"version": version, field: value}))).await?;
        let is_outdated = answer.status == StatusCode::CONFLICT && exception(&answer) == "CommentOutOfDateException";
        if !is_outdated || attempt == ATTEMPTS {
            return host.changed(location, answer).await.map(drop);
        }
        attempt += 1;
    }
}
