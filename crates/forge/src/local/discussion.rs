//! Comments on pull requests of the built-in host.

use async_trait::async_trait;
use journeyman_core::conversation::{
    CommentRef, CommentTarget, Conversation, LineComment, Permission, Reaction, Said, Subject,
};
use journeyman_core::decision::pull::{author as comment_author, comment_url, review_of};
use journeyman_core::hook::{CommentKind, HostComment, HostReview, HostUser};
use journeyman_core::inbox::route::MARKER;
use journeyman_core::key::Scope;
use journeyman_core::ports::{Discussion, ForgeError};
use journeyman_core::pull::comment::{self, SERVICE};
use journeyman_core::pull::{Comment, NewComment};
use journeyman_core::time::Timestamp;
use journeyman_core::user::Role;

use super::{LocalRepository, store};

/// The ID of the command line as the author of comments. Who can use it has access to the database.
const COMMAND_LINE: &str = "cli";

impl LocalRepository {
    /// Returns the comments that were submitted.
    async fn comments(&self, pull: u64) -> Result<Vec<Comment>, ForgeError> {
        let found = self.host.pulls.comments(self.name.clone(), pull).await.map_err(|error| store(&error))?;
        Ok(found.into_iter().filter(|comment| !comment.comment.is_draft).collect())
    }

    fn line_comment(&self, pull: u64, comment: Comment) -> Option<LineComment> {
        let line = comment.comment.line?;
        Some(LineComment {
            id: comment::id(&self.name, pull, comment.number),
            version: comment.comment.at.as_micros().to_string(),
            body: comment.comment.body,
            url: comment_url(&self.host.url(&self.project, pull), comment.number),
            position: line.position(),
            hunk: Some(line.hunk),
            // The pages show threads, but do not let people answer in them.
            thread: None,
            is_edited: false,
        })
    }
}

#[async_trait]
impl Discussion for LocalRepository {
    async fn me(&self) -> Result<HostUser, ForgeError> {
        Ok(comment::service())
    }

    async fn comment(&self, target: CommentTarget, marker: &str, text: &str) -> Result<String, ForgeError> {
        let CommentTarget::Pull(number) = target else {
            return Err(ForgeError::Refused("the built-in code host has no issues".to_owned()));
        };
        let answer = NewComment {
            author: SERVICE.to_owned(),
            author_id: Some(SERVICE.to_owned()),
            body: text.to_owned(),
            at: self.host.clock.now(),
            ..NewComment::default()
        };
        let written = self.host.pulls.comment_once(self.name.clone(), number, marker.to_owned(), answer).await;
        let comment = written.map_err(|error| store(&error))?;
        let comment = comment.ok_or_else(|| ForgeError::NotFound(format!("there is no pull request #{number}")))?;
        Ok(comment_url(&self.host.url(&self.project, number), comment))
    }

    /// Does nothing: the page of the pull request shows what became of each comment.
    async fn react(&self, _: &CommentRef, _: Reaction) -> Result<(), ForgeError> {
        Ok(())
    }

    async fn review(&self, pull: u64, review: &str) -> Result<Vec<LineComment>, ForgeError> {
        let Some(review) = comment::number(review) else { return Ok(Vec::new()) };
        let comments = self.comments(pull).await?.into_iter().filter(|one| one.comment.review == Some(review));
        Ok(comments.filter_map(|one| self.line_comment(pull, one)).collect())
    }

    async fn reviews(&self, pull: u64) -> Result<Vec<HostReview>, ForgeError> {
        let page = self.host.url(&self.project, pull);
        let comments = self.comments(pull).await?;
        let reviews = comments.iter().filter(|one| one.comment.review == Some(one.number));
        Ok(reviews.map(|one| review_of(one, comment::id(&self.name, pull, one.number), &page)).collect())
    }

    /// Returns the comments and reviews. The pages do not tell who has opened a pull request.
    async fn conversation(&self, target: CommentTarget, since: Option<Timestamp>) -> Result<Conversation, ForgeError> {
        let CommentTarget::Pull(pull) = target else { return Ok(Conversation::default()) };
        let page = self.host.url(&self.project, pull);
        let found = self.host.pulls.pull(self.name.clone(), pull).await.map_err(|error| store(&error))?;
        let by_people = found.filter(|found| !found.body.contains(MARKER));
        let author = HostUser { id: String::new(), name: "a user of this service".to_owned(), is_bot: false };
        let subject =
            by_people.map(|found| Subject { title: found.title, body: found.body, url: page.clone(), author });
        let mut said = Vec::new();
        for one in self.comments(pull).await? {
            let (at, author) = (Some(one.comment.at), comment_author(&one.comment));
            let id = comment::id(&self.name, pull, one.number);
            let review = one.comment.review.map(|review| comment::id(&self.name, pull, review));
            if one.comment.review == Some(one.number) {
                said.push(Said::of_review(review_of(&one, id, &page), at));
            } else if one.comment.line.is_some() {
                said.extend(self.line_comment(pull, one).map(|line| Said::of_line(line, author, review, at)));
            } else {
                let comment = HostComment {
                    kind: CommentKind::Pull,
                    id,
                    version: one.comment.at.as_micros().to_string(),
                    url: comment_url(&page, one.number),
                    author,
                    body: one.comment.body,
                    position: None,
                    hunk: None,
                    thread: None,
                    review: None,
                };
                said.push(Said { comment, at, is_edited: false });
            }
        }
        Ok(Conversation::new(subject, said, false, since))
    }

    /// Returns the permission that the role of a user of the dashboard gives now.
    async fn permission(&self, user: &HostUser) -> Result<Permission, ForgeError> {
        if user.id == COMMAND_LINE {
            return Ok(Permission::Admin);
        }
        let Ok(id) = user.id.parse() else { return Ok(Permission::None) };
        let found = self.host.users.user(id).await.map_err(|error| store(&error))?;
        let enabled = found.filter(|user| user.disabled_at.is_none());
        Ok(enabled.map_or(Permission::None, |user| match (user.role, user.role.scope()) {
            (Role::Administrator, _) => Permission::Admin,
            (_, Scope::Write) => Permission::Write,
            (_, Scope::Read | Scope::Jobs) => Permission::Read,
        }))
    }
}
