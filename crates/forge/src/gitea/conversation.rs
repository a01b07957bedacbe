//! Conversations of Gitea and Forgejo, and the files in them.

use journeyman_core::code_host::HostRepository;
use journeyman_core::conversation::{CommentTarget, Conversation, Said, Subject};
use journeyman_core::hook::CommentKind;
use journeyman_core::inbox::files::HostPages;
use journeyman_core::ports::{CommentFile, ForgeError};
use journeyman_core::position::Thread;
use journeyman_core::time::Timestamp;
use serde::Deserialize;
use url::Url;

use super::changes::Comment;
use super::wire::{ReviewComment, User};
use super::{Gitea, REVIEWS};
use crate::http::{FileAddress, encoded};
use crate::json::or_default;

/// A pull request.
#[derive(Debug, Deserialize)]
struct Described {
    #[serde(default, deserialize_with = "or_default")]
    title: String,
    #[serde(default, deserialize_with = "or_default")]
    body: String,
    #[serde(default, deserialize_with = "or_default")]
    html_url: String,
    #[serde(default, deserialize_with = "or_default")]
    user: User,
}

impl Gitea {
    /// Reads a conversation. The comments on lines are those of the newest reviews: the host lists them only by review.
    pub(super) async fn read_conversation(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        since: Option<Timestamp>,
    ) -> Result<Conversation, ForgeError> {
        let (CommentTarget::Pull(number) | CommentTarget::Issue(number)) = target;
        // Gitea fails (status 500) to list the comments of a pull request that does not exist.
        let subject = match target {
            CommentTarget::Pull(_) => Some(self.subject(repository, number).await?),
            CommentTarget::Issue(_) => None,
        };
        let from = since.map(|since| format!("?since={}", encoded(&crate::feed::seconds(since)))).unwrap_or_default();
        let comments: Vec<Comment> = self.get_all(repository, &format!("/issues/{number}/comments{from}")).await?;
        let kind = match target {
            CommentTarget::Pull(_) => CommentKind::Pull,
            CommentTarget::Issue(_) => CommentKind::Issue,
        };
        let mut said: Vec<Said> = comments.into_iter().map(|comment| comment.into_said(kind)).collect();
        if kind == CommentKind::Issue {
            return Ok(Conversation::new(None, said, false, since));
        }
        let mut reviews = self.all_reviews(repository, number).await?;
        let is_incomplete = reviews.len() > REVIEWS;
        for review in reviews.split_off(reviews.len().saturating_sub(REVIEWS)) {
            let (at, has_comments) = (review.age().0, review.has_comments());
            let Some(review) = review.into_review() else { continue };
            if has_comments {
                said.extend(self.lines_of(repository, number, &review.id).await?);
            }
            said.push(Said::of_review(review, at));
        }
        Ok(Conversation::new(subject, said, is_incomplete, since))
    }

    async fn subject(&self, repository: &HostRepository, pull: u64) -> Result<Subject, ForgeError> {
        let found: Described = self.get(repository, &format!("/pulls/{pull}")).await?;
        Ok(Subject { title: found.title, body: found.body, url: found.html_url, author: found.user.into() })
    }

    /// Returns the comments on lines of a review, also those that others have added to it.
    async fn lines_of(&self, repository: &HostRepository, pull: u64, review: &str) -> Result<Vec<Said>, ForgeError> {
        let path = format!("/pulls/{pull}/reviews/{}/comments", encoded(review));
        let comments: Vec<ReviewComment> = match self.get_all(repository, &path).await {
            // The review was deleted.
            Err(ForgeError::NotFound(_)) => Vec::new(),
            found => found?,
        };
        let threads: Vec<Thread> = comments.iter().map(|comment| comment.thread(&comments)).collect();
        Ok(comments.into_iter().zip(threads).map(|(comment, thread)| comment.into_said(thread, review)).collect())
    }

    /// Reads an attachment. The host accepts tokens at the addresses of attachments.
    pub(super) async fn read_file(
        &self,
        pages: &HostPages,
        url: &str,
        limit: usize,
    ) -> Result<CommentFile, ForgeError> {
        match Url::parse(url).ok().filter(|url| pages.has_credential(url)) {
            Some(url) => self.http.file(Some(&self.authorization()), FileAddress::Page(&url), limit).await,
            None => Err(ForgeError::Refused("the address is not that of an attachment".to_owned())),
        }
    }
}
