//! What the service writes in conversations and threads: each text once, found again by its marker.

use std::time::Duration;

use journeyman_core::code_host::HostRepository;
use journeyman_core::conversation::{CommentTarget, HostThread, InThread, NewReply, Replied};
use journeyman_core::ports::{Discussion as _, ForgeError};

use super::HostedRepository;
use super::api::Written;

/// The time for which a change that may wait does so when half of the limits on written content is used.
const BUSY: Duration = Duration::from_secs(15);

impl HostedRepository {
    /// Writes a comment, unless there is one with the marker. Returns its URL, and the comment that was found.
    pub(super) async fn write(
        &self,
        target: CommentTarget,
        marker: &str,
        text: &str,
    ) -> Result<(String, Option<Written>), ForgeError> {
        let repository = self.confirmed().await?;
        if let Some(known) = self.find(&repository, target, marker).await? {
            return Ok((known.url.clone(), Some(known)));
        }
        match self.api.add_comment(&repository, target, &format!("{text}\n\n{marker}")).await {
            // The answer may have been lost.
            Err(error @ ForgeError::Unclear(_)) => {
                let found = self.find(&repository, target, marker).await?;
                found.map(|found| (found.url.clone(), Some(found))).ok_or(error)
            }
            Err(error) => Err(self.explained(error).await),
            Ok(url) => Ok((url, None)),
        }
    }

    /// Finds the comment of the service with a marker.
    async fn find(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        marker: &str,
    ) -> Result<Option<Written>, ForgeError> {
        let me = self.me().await?;
        let written = self.api.comments(repository, target).await?;
        Ok(written.into_iter().find(|comment| comment.author == me.id && comment.body.contains(marker)))
    }
}

/// Shows a text in the comment with a marker. An update is not repeated if it is not clear whether it was made: the next
/// attempt sees the text.
pub(super) async fn show(
    hosted: &HostedRepository,
    target: CommentTarget,
    marker: &str,
    text: &str,
    creates: bool,
) -> Result<Option<String>, ForgeError> {
    let known = if creates {
        match hosted.write(target, marker, text).await? {
            (_, Some(known)) => Some(known),
            (url, None) => return Ok(Some(url)),
        }
    } else {
        hosted.find(&hosted.confirmed().await?, target, marker).await?
    };
    let Some(known) = known else { return Ok(None) };
    let text = format!("{text}\n\n{marker}");
    // Some hosts write line breaks as Windows does.
    if known.body.replace("\r\n", "\n").trim_end() == text {
        return Ok(Some(known.url));
    }
    if !creates && hosted.api.is_busy() {
        return Err(ForgeError::RateLimited(BUSY));
    }
    match hosted.api.update_comment(&hosted.confirmed().await?, target, &known.id, &text).await {
        Err(error) => Err(hosted.explained(error).await),
        Ok(()) => Ok(Some(known.url)),
    }
}

/// Writes replies, each unless its thread has one with its marker.
pub(super) async fn reply(
    hosted: &HostedRepository,
    target: CommentTarget,
    replies: &[NewReply],
) -> Result<Vec<Replied>, ForgeError> {
    let me = hosted.me().await?;
    let repository = hosted.confirmed().await?;
    let of: Vec<InThread> = replies.iter().map(|reply| reply.to.clone()).collect();
    let threads = match hosted.api.threads(&repository, target, &of).await {
        Err(error) if is_final(&error) => {
            return Ok(replies.iter().map(|_| Replied::Refused(error.to_string())).collect());
        }
        threads => threads?,
    };
    let find = |threads: &[HostThread], marker: &str| {
        let mut comments = threads.iter().flat_map(|thread| &thread.comments);
        let found = comments.find(|comment| comment.author.id == me.id && comment.body.contains(marker));
        found.map(|comment| Replied::Written(comment.url.clone()))
    };
    let mut results = Vec::new();
    for reply in replies {
        if let Some(known) = find(&threads, &reply.marker) {
            results.push(known);
            continue;
        }
        let is_it = |thread: &&HostThread| thread.comments.iter().any(|comment| comment.id == reply.to.id);
        let Some(thread) = threads.iter().find(is_it) else {
            results.push(Replied::Refused("the comment was deleted".to_owned()));
            continue;
        };
        let text = format!("{}\n\n{}", reply.text, reply.marker);
        let repository = hosted.confirmed().await?;
        results.push(match hosted.api.add_reply(&repository, target, (thread, &reply.to), &text).await {
            Ok(url) => Replied::Written(url),
            // The answer may have been lost.
            Err(error @ ForgeError::Unclear(_)) => {
                let now = hosted.api.threads(&repository, target, std::slice::from_ref(&reply.to)).await?;
                find(&now, &reply.marker).ok_or(error)?
            }
            Err(error) if is_final(&error) => Replied::Refused(error.to_string()),
            Err(error) => return Err(error),
        });
    }
    Ok(results)
}

/// Marks threads as resolved that are not.
pub(super) async fn resolve(
    hosted: &HostedRepository,
    target: CommentTarget,
    of: &[InThread],
) -> Result<(), ForgeError> {
    let repository = hosted.confirmed().await?;
    let mut threads = hosted.api.threads(&repository, target, of).await?;
    threads.retain(|thread| thread.is_resolved == Some(false));
    if threads.is_empty() { Ok(()) } else { hosted.api.resolve(&repository, target, &threads).await }
}

/// Returns whether another attempt would fail too.
const fn is_final(error: &ForgeError) -> bool {
    match error {
        ForgeError::NotFound(_) | ForgeError::Denied(_) | ForgeError::Refused(_) | ForgeError::NoPulls(_) => true,
        ForgeError::Credential(_) | ForgeError::RateLimited(_) | ForgeError::Unclear(_) => false,
    }
}
