//! The comments of a repository on a code host.

use async_trait::async_trait;
use journeyman_core::conversation::{
    CommentRef, CommentTarget, Conversation, HostThread, InThread, LineComment, NewReply, NewReview, Permission,
    Reaction, Replied,
};
use journeyman_core::hook::{HostComment, HostIssue, HostReview, HostUser};
use journeyman_core::inbox::files::HostPages;
use journeyman_core::ports::{CommentFile, Discussion, ForgeError};
use journeyman_core::time::Timestamp;

use super::{HostedRepository, replies, review};

#[async_trait]
impl Discussion for HostedRepository {
    async fn me(&self) -> Result<HostUser, ForgeError> {
        let repository = self.current().await?;
        self.known.me.get((), || self.api.me(&repository)).await
    }

    async fn aliases(&self) -> Result<Vec<String>, ForgeError> {
        let me = self.me().await?;
        self.known.aliases.get((), || self.api.aliases(&me)).await
    }

    async fn comment(&self, target: CommentTarget, marker: &str, text: &str) -> Result<String, ForgeError> {
        self.write(target, marker, text).await.map(|(url, _)| url)
    }

    fn can_update(&self) -> bool {
        true
    }

    async fn show(
        &self,
        target: CommentTarget,
        marker: &str,
        text: &str,
        creates: bool,
    ) -> Result<Option<String>, ForgeError> {
        replies::show(self, target, marker, text, creates).await
    }

    async fn reply(&self, target: CommentTarget, replies: &[NewReply]) -> Result<Vec<Replied>, ForgeError> {
        replies::reply(self, target, replies).await
    }

    async fn resolve(&self, target: CommentTarget, of: &[InThread]) -> Result<(), ForgeError> {
        replies::resolve(self, target, of).await
    }

    async fn react(&self, comment: &CommentRef, reaction: Reaction) -> Result<(), ForgeError> {
        self.api.react(&self.confirmed().await?, comment, reaction).await
    }

    async fn review(&self, pull: u64, review: &str) -> Result<Vec<LineComment>, ForgeError> {
        self.api.review(&self.current().await?, pull, review).await
    }

    async fn reviews(&self, pull: u64) -> Result<Vec<HostReview>, ForgeError> {
        self.api.reviews(&self.current().await?, pull).await
    }

    async fn find_reviews(&self, pull: u64, review: &HostReview) -> Result<Vec<HostReview>, ForgeError> {
        self.api.find_reviews(&self.current().await?, pull, review).await
    }

    async fn complete_comment(&self, pull: u64, comment: HostComment) -> Result<HostComment, ForgeError> {
        self.api.complete_comment(&self.current().await?, pull, comment).await
    }

    async fn write_review(&self, pull: u64, new: &NewReview) -> Result<String, ForgeError> {
        review::write(self, &self.confirmed().await?, pull, new).await
    }

    async fn threads(&self, target: CommentTarget, of: &[InThread]) -> Result<Vec<HostThread>, ForgeError> {
        self.api.threads(&self.current().await?, target, of).await
    }

    async fn issue(&self, number: u64) -> Result<Option<HostIssue>, ForgeError> {
        match self.api.issue(&self.current().await?, number).await {
            Err(ForgeError::NotFound(_)) => Ok(None),
            found => found,
        }
    }

    async fn issue_requester(&self, issue: u64, label: Option<&str>) -> Result<Option<HostUser>, ForgeError> {
        let me = self.me().await?;
        self.api.issue_requester(&self.current().await?, issue, label, &me).await
    }

    async fn issue_editors(&self, issue: u64) -> Result<Option<Vec<HostUser>>, ForgeError> {
        self.api.issue_editors(&self.current().await?, issue).await
    }

    async fn lets_others_edit(&self) -> Result<bool, ForgeError> {
        self.api.lets_others_edit(&self.current().await?).await
    }

    async fn permission(&self, user: &HostUser) -> Result<Permission, ForgeError> {
        let repository = self.confirmed().await?;
        let read = || async {
            match self.api.permission(&repository, user).await {
                Err(ForgeError::NotFound(_)) => Ok(Permission::None),
                read => read,
            }
        };
        self.known.permissions.get((repository.id.clone(), user.id.clone()), read).await
    }

    async fn conversation(&self, target: CommentTarget, since: Option<Timestamp>) -> Result<Conversation, ForgeError> {
        self.api.conversation(&self.current().await?, target, since).await
    }

    async fn linked_issues(&self, issue: u64) -> Result<Vec<u64>, ForgeError> {
        self.api.linked_issues(&self.current().await?, issue).await
    }

    async fn file(&self, of: &CommentRef, url: &str, limit: usize) -> Result<CommentFile, ForgeError> {
        let repository = self.current().await?;
        // Only uploads are read, whatever a message says: the credential may read more than its author.
        let pages = HostPages::new(&self.host, &repository.path);
        let known = pages.and_then(|pages| pages.own(url).map(|url| (pages, url)));
        let Some((pages, url)) = known else {
            return Err(ForgeError::Refused("the address is not that of an upload to the code host".to_owned()));
        };
        self.api.file(&repository, &pages, of, &url, limit).await
    }
}
