//! Conversations of GitHub, and the files in them.

use http::Method;
use journeyman_core::code_host::HostRepository;
use journeyman_core::conversation::{CommentRef, CommentTarget, Conversation, Said, Subject};
use journeyman_core::hook::CommentKind;
use journeyman_core::inbox::files::{HostPages, image_addresses};
use journeyman_core::ports::{CommentFile, ForgeError};
use journeyman_core::time::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::changes::Comment;
use super::wire::{Review, ReviewComment, User};
use super::{Github, repository_path};
use crate::http::{CONVERSATION_PAGES, FileAddress, Http, encoded};
use crate::json::{Id, or_default};

/// The form of a comment with its HTML, in which the addresses of images in private repositories are signed.
const WITH_HTML: &str = "application/vnd.github.full+json";

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

/// A text with its HTML.
#[derive(Debug, Deserialize)]
struct Shown {
    #[serde(default, deserialize_with = "or_default")]
    body_html: String,
}

/// An issue that is linked to another one.
#[derive(Debug, Deserialize)]
struct Linked {
    #[serde(default)]
    number: Id,
    /// Ends with the path of the repository.
    #[serde(default, deserialize_with = "or_default")]
    repository_url: String,
}

impl Github {
    /// Reads the newest items of a list below the repository, and returns whether there are older ones.
    async fn newest<T: DeserializeOwned>(
        &self,
        repository: &HostRepository,
        path: &str,
    ) -> Result<(Vec<T>, bool), ForgeError> {
        let known = repository_path(repository)?;
        let authorization = self.authorization(&known).await?;
        self.http.newest(Some(&authorization), &format!("/repos/{known}{path}"), CONVERSATION_PAGES).await
    }

    /// Reads a conversation. Reviews cannot be listed from a time on.
    pub(super) async fn read_conversation(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        since: Option<Timestamp>,
    ) -> Result<Conversation, ForgeError> {
        let (CommentTarget::Pull(number) | CommentTarget::Issue(number)) = target;
        let from = since.map(|since| format!("&since={}", encoded(&crate::feed::seconds(since)))).unwrap_or_default();
        let path = format!("/issues/{number}/comments?per_page=100{from}");
        let (comments, mut is_incomplete) = self.newest::<Comment>(repository, &path).await?;
        let is_pull = matches!(target, CommentTarget::Pull(_));
        let mut said: Vec<Said> = comments.into_iter().map(|comment| comment.into_said(is_pull)).collect();
        if !is_pull {
            return Ok(Conversation::new(None, said, is_incomplete, since));
        }
        let found: Described = self.get(repository, &format!("/pulls/{number}")).await?;
        let subject = Subject { title: found.title, body: found.body, url: found.html_url, author: found.user.into() };
        let (reviews, has_older) =
            self.newest::<Review>(repository, &format!("/pulls/{number}/reviews?per_page=100")).await?;
        is_incomplete |= has_older;
        said.extend(reviews.into_iter().filter_map(Review::into_review).map(|review| {
            let at = review.version.parse().ok();
            Said::of_review(review, at)
        }));
        let path = format!("/pulls/{number}/comments?per_page=100{from}");
        let (lines, has_older) = self.newest::<ReviewComment>(repository, &path).await?;
        is_incomplete |= has_older;
        said.extend(lines.into_iter().filter_map(ReviewComment::into_said));
        Ok(Conversation::new(Some(subject), said, is_incomplete, since))
    }

    /// Returns the parent of an issue and its sub-issues, as far as they are in the same repository. Old versions of GitHub
    /// Enterprise Server have neither.
    pub(super) async fn read_linked(&self, repository: &HostRepository, issue: u64) -> Result<Vec<u64>, ForgeError> {
        let missing = |error: &ForgeError| matches!(error, ForgeError::NotFound(_) | ForgeError::Denied(_));
        let parent = match self.get::<Linked>(repository, &format!("/issues/{issue}/parent")).await {
            Err(error) if missing(&error) => None,
            found => Some(found?),
        };
        let below = match self.list::<Linked>(repository, &format!("/issues/{issue}/sub_issues?per_page=100")).await {
            Err(error) if missing(&error) => Vec::new(),
            found => found?,
        };
        let end = format!("/repos/{}", repository.path).to_lowercase();
        let is_here = |linked: &Linked| linked.repository_url.to_lowercase().ends_with(&end);
        Ok(parent.into_iter().chain(below).filter(is_here).filter_map(|linked| linked.number.0.parse().ok()).collect())
    }

    /// Reads a file of a comment.
    pub(super) async fn read_file(
        &self,
        repository: &HostRepository,
        pages: &HostPages,
        of: &CommentRef,
        url: &str,
        limit: usize,
    ) -> Result<CommentFile, ForgeError> {
        let Ok(url) = Url::parse(url) else {
            return Err(ForgeError::Refused("the address of the file cannot be read".to_owned()));
        };
        if let Some(signed) = self.signed(repository, pages, of, &url).await? {
            return self.http.file(None, FileAddress::Other(&signed), limit).await;
        }
        if !pages.has_credential(&url) {
            return self.http.file(None, FileAddress::Other(&url), limit).await;
        }
        let authorization = self.authorization(&repository_path(repository)?).await?;
        self.http.file(Some(&authorization), FileAddress::Page(&url), limit).await
    }

    /// Finds the signed address of an image in the HTML of its comment. The pages of github.com do not accept every
    /// credential.
    async fn signed(
        &self,
        repository: &HostRepository,
        pages: &HostPages,
        of: &CommentRef,
        url: &Url,
    ) -> Result<Option<Url>, ForgeError> {
        if asset(url).is_none() {
            return Ok(None);
        }
        let CommentRef { kind, number, id } = of;
        let path = match kind {
            CommentKind::Pull | CommentKind::Issue if id.is_empty() => format!("/issues/{number}"),
            CommentKind::Pull | CommentKind::Issue => format!("/issues/comments/{}", encoded(id)),
            CommentKind::Line => format!("/pulls/comments/{}", encoded(id)),
            CommentKind::Review => format!("/pulls/{number}/reviews/{}", encoded(id)),
        };
        let known = repository_path(repository)?;
        let authorization = self.authorization(&known).await?;
        let headers = self.http.headers.iter().map(|(name, value)| match *name {
            "accept" => (*name, WITH_HTML),
            name => (name, *value),
        });
        let http = Http { headers: headers.collect(), ..self.http.clone() };
        let shown: Shown =
            match http.call(Some(&authorization), Method::GET, &format!("/repos/{known}{path}"), None).await?.ok() {
                Err(error) if error.may_pass() => return Err(error),
                // The comment was deleted. The file may still be there.
                Err(_) => return Ok(None),
                Ok(answer) => answer.json()?,
            };
        Ok(find_signed(&shown.body_html, pages, url))
    }
}

/// Returns the ID of an image, which its signed address has too.
fn asset(url: &Url) -> Option<&str> {
    let id = url.path().rsplit('/').next().filter(|id| id.len() >= 16)?;
    url.path().contains("/assets/").then_some(id)
}

/// Returns the address of an image on a server for files of the host, from the HTML of its comment.
fn find_signed(html: &str, pages: &HostPages, url: &Url) -> Option<Url> {
    let id = asset(url)?;
    let is_it = |address: &Url| {
        let is_there = !pages.has_credential(address) && pages.own(address.as_str()).is_some();
        is_there && address.path().contains(id)
    };
    image_addresses(html).iter().filter_map(|one| Url::parse(one).ok()).find(is_it)
}

#[cfg(test)]
mod tests {
    use journeyman_core::code_host::{CodeHost, HostKind};

    use super::*;

    #[test]
    fn the_signed_address_is_that_of_the_same_image_on_a_server_of_the_host() {
        let host = CodeHost::of_address("x".parse().unwrap(), HostKind::Github, "https://github.com".to_owned());
        let pages = HostPages::new(&host, "acme/shop").unwrap();
        let id = "0f8fad5b-d9cb-469f-a165-70867728950e";
        let url = Url::parse(&format!("https://github.com/user-attachments/assets/{id}")).unwrap();
        let signed = format!("https://private-user-images.githubusercontent.com/1/2-{id}.png?jwt=a.b-c&amp;x=1");
        let html = |address: &str| format!("<p><a href=\"{address}\"><img src=\"{address}\" alt=\"x\"></a></p>");
        for (html, expected) in [
            (html(&signed), Some(signed.replace("&amp;", "&"))),
            (html(&signed.replace("0f8f", "1f8f")), None),
            (html(&format!("https://evil.example/{id}.png")), None),
            (html(url.as_str()), None),
            (String::new(), None),
        ] {
            assert_eq!(find_signed(&html, &pages, &url).map(String::from), expected, "{html}");
        }
        let file = Url::parse("https://github.com/user-attachments/files/1/a-long-name-of-a-file.zip").unwrap();
        assert_eq!(asset(&file), None);
    }
}
