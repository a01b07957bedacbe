//! Reads the threads of comments, so that the message that a reply makes has what was said before.

use journeyman_core::conversation::{CommentTarget, InThread};
use journeyman_core::inbox::part::Part;
use journeyman_core::inbox::{InboxEvent, threads};

use super::Problem;
use super::context::Context;
use super::decide::{comment_target, is_temporary};
use crate::UseCases;

impl UseCases {
    /// Gives the comments of a message the earlier comments of their threads. If the code host refuses to show a thread, the
    /// message says so.
    pub(super) async fn add_threads(
        &self,
        parts: &mut [Part],
        events: &[InboxEvent],
        number: u64,
        context: &Context,
    ) -> Result<(), Problem> {
        for part in parts.iter_mut() {
            part.replaces = context.replaces;
        }
        let of: Vec<InThread> = parts.iter().filter_map(Part::in_thread).collect();
        let (Some(discussion), false) = (context.discussion(), of.is_empty()) else { return Ok(()) };
        let target =
            events.first().and_then(InboxEvent::read).and_then(comment_target).unwrap_or(CommentTarget::Pull(number));
        let threads = match discussion.threads(target, &of).await {
            Ok(threads) => threads,
            Err(error) if is_temporary(&error) => return Err(error.into()),
            Err(error) => {
                tracing::warn!(project = %context.project.id, number, %error, "the threads of comments could not be read");
                for part in parts.iter_mut().filter(|part| part.in_thread().is_some()) {
                    part.earlier.problem = Some(error.to_string());
                }
                return Ok(());
            }
        };
        let said = || threads.iter().flat_map(|thread| thread.comments.iter().rev());
        let is_edited = said().any(|comment| comment.is_edited);
        let doubts = self.doubts(said().map(|comment| &comment.author), is_edited, context).await?;
        threads::add_threads(parts, &threads, |comment| doubts.of(&comment.author, comment.is_edited));
        Ok(())
    }
}
