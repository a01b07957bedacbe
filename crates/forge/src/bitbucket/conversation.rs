//! Conversations of Bitbucket Cloud, and the files in them.

use journeyman_core::code_host::HostRepository;
use journeyman_core::conversation::{CommentTarget, Conversation, Said, Subject};
use journeyman_core::inbox::files::HostPages;
use journeyman_core::ports::{CommentFile, ForgeError};
use journeyman_core::time::Timestamp;
use url::Url;

use super::changes::Comment;
use super::wire::{Page, PullRequest};
use super::{Bitbucket, at, pull_of};
use crate::http::{CONVERSATION_PAGES, FileAddress, encoded};

impl Bitbucket {
    /// Reads a conversation, the newest comments first.
    pub(super) async fn read_conversation(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        since: Option<Timestamp>,
    ) -> Result<Conversation, ForgeError> {
        let number = pull_of(target)?;
        let found: PullRequest = self.get(&at(repository, &format!("/pullrequests/{number}"))).await?;
        let author = found.author.clone().into();
        let found = found.into_pull(None);
        let subject = Subject { title: found.title, body: found.body, url: found.url, author };
        let filter = since.map(|since| format!("updated_on >= {}", crate::feed::seconds(since)));
        let filter = filter.map(|filter| format!("q={}&", encoded(&filter))).unwrap_or_default();
        let path = format!("/pullrequests/{number}/comments?{filter}sort=-updated_on&pagelen=100");
        let (mut said, mut next) = (Vec::<Said>::new(), Some(at(repository, &path)));
        for _ in 0..CONVERSATION_PAGES {
            let Some(path) = next else { break };
            let page: Page<Comment> = self.get(&path).await?;
            said.extend(page.values.into_iter().filter_map(Comment::into_said));
            next = page.next;
        }
        said.sort_by_key(|one| one.comment.id.parse::<u64>().unwrap_or_default());
        Ok(Conversation::new(Some(subject), said, next.is_some(), since))
    }

    /// Reads a file that was uploaded to the pages of the host.
    pub(super) async fn read_file(
        &self,
        pages: &HostPages,
        url: &str,
        limit: usize,
    ) -> Result<CommentFile, ForgeError> {
        match Url::parse(url).ok().filter(|url| pages.has_credential(url)) {
            Some(url) => self.http.file(Some(&self.authorization()), FileAddress::Page(&url), limit).await,
            None => Err(ForgeError::Refused("the address is not that of an upload".to_owned())),
        }
    }
}

impl Comment {
    /// Converts the comment as part of a conversation; `None` for a draft, and if it was deleted.
    fn into_said(self) -> Option<Said> {
        let is_public = !self.deleted && !self.pending;
        let at = self.updated_on.parse().ok();
        is_public.then(|| Said { comment: self.into_comment(), at, is_edited: false })
    }
}
