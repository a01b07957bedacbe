//! Conversations of GitLab, and the files in them.

use journeyman_core::code_host::HostRepository;
use journeyman_core::conversation::{CommentTarget, Conversation, Said, Subject};
use journeyman_core::inbox::files::HostPages;
use journeyman_core::ports::{CommentFile, ForgeError};
use journeyman_core::time::Timestamp;
use serde::Deserialize;

use super::changes::{About, Note};
use super::hooks::host_user;
use super::wire::User;
use super::{Gitlab, path_of};
use crate::http::{CONVERSATION_PAGES, FileAddress, encoded};
use crate::json::{Id, or_default, sha};

/// The number of notes of a page.
const PAGE: usize = 100;

/// A merge request or an issue.
#[derive(Debug, Deserialize)]
struct Described {
    #[serde(default, deserialize_with = "or_default")]
    title: String,
    #[serde(default, deserialize_with = "or_default")]
    description: String,
    #[serde(default, deserialize_with = "or_default")]
    web_url: String,
    #[serde(default, deserialize_with = "or_default")]
    author: User,
    /// The newest commit of a merge request.
    #[serde(default)]
    sha: Option<String>,
}

/// An issue that is linked to another one.
#[derive(Debug, Deserialize)]
struct Linked {
    iid: u64,
    #[serde(default)]
    project_id: Id,
}

impl Gitlab {
    /// Reads a conversation, the newest notes first.
    pub(super) async fn read_conversation(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        since: Option<Timestamp>,
    ) -> Result<Conversation, ForgeError> {
        let (path, is_issue) = (path_of(target), matches!(target, CommentTarget::Issue(_)));
        let (CommentTarget::Pull(number) | CommentTarget::Issue(number)) = target;
        let found: Described = self.get(repository, &path).await?;
        let head = found.sha.as_deref().and_then(sha);
        let about = About { number, url: found.web_url.clone(), is_issue, head };
        let list =
            format!("/projects/{}{path}/notes?order_by=updated_at&sort=desc&per_page={PAGE}", encoded(&repository.id));
        let (mut pages, mut is_incomplete) = (0, false);
        let enough = |page: &[Note]| {
            pages += 1;
            let has_all = page.len() < PAGE || page.iter().any(|note| !note.is_since(since));
            is_incomplete = !has_all;
            has_all || pages == CONVERSATION_PAGES
        };
        let mut notes: Vec<Note> = self.http.list(Some(&self.authorization()), &list, enough).await?;
        notes.reverse();
        let said: Vec<Said> = notes.into_iter().filter(Note::is_public).map(|note| note.into_said(&about)).collect();
        let subject = Subject {
            title: found.title,
            body: found.description,
            url: found.web_url,
            author: host_user(found.author),
        };
        Ok(Conversation::new(Some(subject).filter(|_| !is_issue), said, is_incomplete, since))
    }

    /// Returns the issues of the same project that people have linked to an issue.
    pub(super) async fn read_linked(&self, repository: &HostRepository, issue: u64) -> Result<Vec<u64>, ForgeError> {
        match self.list::<Linked>(repository, &format!("/issues/{issue}/links")).await {
            Err(ForgeError::NotFound(_) | ForgeError::Denied(_)) => Ok(Vec::new()),
            found => {
                Ok(found?.into_iter().filter(|one| one.project_id.0 == repository.id).map(|one| one.iid).collect())
            }
        }
    }

    /// Reads an upload of the project. The pages accept no token, and the interface has uploads since version 17.4.
    pub(super) async fn read_file(
        &self,
        repository: &HostRepository,
        pages: &HostPages,
        url: &str,
        limit: usize,
    ) -> Result<CommentFile, ForgeError> {
        let Some((secret, name)) = pages.gitlab_upload(url) else {
            return Err(ForgeError::Refused("the address is not that of an upload".to_owned()));
        };
        let path = format!("/projects/{}/uploads/{secret}/{}", encoded(&repository.id), encoded(&name));
        self.http.file(Some(&self.authorization()), FileAddress::OfInterface(&path), limit).await
    }
}
