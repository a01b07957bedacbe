//! Reads the threads of comments, so that the message that a reply makes has what was said before.

use std::collections::BTreeMap;

use journeyman_core::inbox::InboxEvent;
use journeyman_core::inbox::batch::Part;
use journeyman_core::inbox::earlier::{self, Doubt};
use journeyman_core::ports::{CommentPlace, HostThread, HostUser, InThread, Permission};

use super::Problem;
use super::context::Context;
use super::decide::{is_temporary, place};
use crate::UseCases;

/// The maximum number of authors of earlier comments whose permissions are read for a message, newest first. The text of
/// others is data.
const AUTHORS: usize = 20;

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
        let place = events.first().and_then(InboxEvent::read).and_then(place).unwrap_or(CommentPlace::Pull(number));
        let threads = match discussion.threads(place, &of).await {
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
        let permitted = self.permitted(&threads, context).await?;
        let others_edit = threads.iter().flat_map(|thread| &thread.comments).any(|comment| comment.is_edited)
            && self.editor_unknown(context).await?.is_some();
        let is_service = |user: &HostUser| context.identity.me.as_ref().is_some_and(|me| me.id == user.id);
        earlier::add_threads(parts, &threads, |comment| match permitted.get(comment.author.id.as_str()) {
            _ if is_service(&comment.author) => Some(Doubt::Service),
            Some(true) if comment.is_edited && others_edit => Some(Doubt::Edited),
            Some(true) => None,
            _ => Some(Doubt::NotPermitted),
        });
        Ok(())
    }

    /// Returns of the newest authors of threads whether they may push.
    async fn permitted<'a>(
        &self,
        threads: &'a [HostThread],
        context: &Context,
    ) -> Result<BTreeMap<&'a str, bool>, Problem> {
        let mut permitted = BTreeMap::new();
        for author in threads.iter().flat_map(|thread| thread.comments.iter().rev()).map(|comment| &comment.author) {
            if permitted.len() >= AUTHORS || permitted.contains_key(author.id.as_str()) || author.id.is_empty() {
                continue;
            }
            let is_trusted_bot = context.identity.trusted_bots.contains(&author.id);
            let may_push = is_trusted_bot || self.permission(context, author).await? >= Permission::Write;
            permitted.insert(author.id.as_str(), may_push);
        }
        Ok(permitted)
    }
}
