//! Conversations of Bitbucket Data Center, and the files in them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use journeyman_core::code_host::HostRepository;
use journeyman_core::conversation::{CommentTarget, Conversation, Said, Subject};
use journeyman_core::inbox::files::attachment_id;
use journeyman_core::ports::{CommentFile, ForgeError};
use journeyman_core::time::Timestamp;
use serde::Deserialize;

use super::changes::{Activity, Comment};
use super::wire::{User, with_visible_comments};
use super::{API, BitbucketDataCenter, Location, number_of};
use crate::http::{Authorization, CONVERSATION_PAGES, FileAddress, encoded};
use crate::json::or_default;

/// The number of activities of a page.
const PAGE: usize = 100;

/// A pull request.
#[derive(Debug, Deserialize)]
struct Described {
    #[serde(default, deserialize_with = "or_default")]
    title: String,
    #[serde(default, deserialize_with = "or_default")]
    description: String,
    #[serde(default, deserialize_with = "or_default")]
    author: Author,
}

#[derive(Debug, Default, Deserialize)]
struct Author {
    #[serde(default, deserialize_with = "or_default")]
    user: User,
}

impl BitbucketDataCenter {
    /// Reads a conversation from the activities of a pull request, the newest first. They cannot be listed from a time on.
    pub(super) async fn read_conversation(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        since: Option<Timestamp>,
    ) -> Result<Conversation, ForgeError> {
        let (location, number) = (Location::current(repository)?, number_of(target)?);
        let found: Described = self.get(&format!("{}/{number}", location.pulls())).await?;
        let page = self.page(&location, number);
        let subject = Subject {
            title: found.title,
            body: with_visible_comments(&found.description),
            url: page.clone(),
            author: found.author.user.into(),
        };
        let path = format!("{}/{number}/activities?limit={PAGE}", location.pulls());
        let (pages, is_full) = (AtomicUsize::new(0), AtomicBool::new(false));
        let enough = |activities: &[Activity]| {
            is_full.store(activities.len() >= PAGE, Ordering::Relaxed);
            pages.fetch_add(1, Ordering::Relaxed) + 1 == CONVERSATION_PAGES
        };
        let activities: Vec<Activity> = self.list(&path, enough).await?;
        let is_incomplete = is_full.into_inner() && pages.into_inner() == CONVERSATION_PAGES;
        // A reply has an activity of its own, and is part of that of its thread, which has the position.
        let mut said: BTreeMap<String, Said> = BTreeMap::new();
        for Activity { comment, comment_anchor, .. } in activities {
            let anchor = comment_anchor.unwrap_or_default();
            for threaded in comment.map(Comment::into_thread).unwrap_or_default() {
                let Some(one) = threaded.into_said(&page, &anchor) else { continue };
                match said.get(&one.comment.id) {
                    Some(known) if known.comment.position.is_some() => {}
                    _ => drop(said.insert(one.comment.id.clone(), one)),
                }
            }
        }
        let mut said: Vec<Said> = said.into_values().collect();
        said.sort_by_key(|one| one.comment.id.parse::<u64>().unwrap_or_default());
        Ok(Conversation::new(Some(subject), said, is_incomplete, since))
    }

    /// Reads an attachment of the repository.
    pub(super) async fn read_file(
        &self,
        repository: &HostRepository,
        url: &str,
        limit: usize,
    ) -> Result<CommentFile, ForgeError> {
        let of_page = || url.rsplit_once("/attachments/").map(|(_, id)| id.to_owned());
        let id = attachment_id(url).or_else(of_page);
        let id = id.ok_or_else(|| ForgeError::Refused("the address is not that of an attachment".to_owned()))?;
        let segments: Vec<String> = id.split('/').map(encoded).collect();
        let location = Location::current(repository)?;
        let path = format!("{}/attachments/{}", location.below(API), segments.join("/"));
        let authorization = Authorization::Bearer(self.token.clone());
        self.http.file(Some(&authorization), FileAddress::OfInterface(&path), limit).await
    }
}
