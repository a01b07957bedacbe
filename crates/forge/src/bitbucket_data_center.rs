//! Bitbucket Data Center (REST API).
//!
//! The product has no issues, no labels and assignees of pull requests, no reviews with several comments, and no logs of
//! CI jobs. It answers 401 both for a bad token and for a missing permission.

mod builds;
mod changes;
mod conversation;
pub(crate) mod hooks;
mod merge;
mod position;
mod requests;
mod review;
mod threads;
mod wire;

use std::collections::HashSet;

use async_trait::async_trait;
use http::{Method, StatusCode};
use journeyman_core::checks::{Check, CommitStatus, StatusState};
use journeyman_core::code_host::{HostRepository, RepositoryPath};
use journeyman_core::conversation::{
    CommentRef, CommentTarget, Conversation, HostThread, InThread, LineComment, Permission, Reaction, ReviewComment,
    ThreadComment,
};
use journeyman_core::hook::{CommentKind, HostComment, HostUser};
use journeyman_core::ids::Sha;
use journeyman_core::inbox::files::HostPages;
use journeyman_core::poll::{PollQuery, Polled};
use journeyman_core::ports::{CommentFile, CreatedPull, Credential, ForgeError};
use journeyman_core::position::Thread;
use journeyman_core::pull::{HostPull, NewPull, PullChange};
use journeyman_core::secret::SecretValue;
use journeyman_core::time::Timestamp;
use serde_json::{Value, json};

use self::wire::{
    Activity, Comment, PullRequest, Repository, exception, fitting, with_hidden_comments, with_visible_comments,
};
use crate::hosted::{Account, Api, STATUS, Written};
use crate::http::{Http, encoded};
use crate::json::number_of_comment;

/// The address of the main part of the interface.
const API: &str = "/api/latest";

/// The header of each answer to a valid token: the name of its user.
const USER_NAME: &str = "x-ausername";

/// The header with the ID of that user.
const USER_ID: &str = "x-auserid";

/// The maximum number of pages of a list.
const PAGES: usize = 50;

/// The maximum number of attempts to change a pull request that others change at the same time.
const ATTEMPTS: usize = 3;

/// A client.
pub(crate) struct BitbucketDataCenter {
    pub(crate) http: Http,
    pub(crate) token: SecretValue,
    /// The user of the token; `None` for a token of a project or repository.
    pub(crate) username: Option<String>,
}

/// The path of a repository.
struct Location {
    project: String,
    slug: String,
}

impl Location {
    fn of(path: &RepositoryPath) -> Self {
        let (project, slug) = path.parts();
        Self { project: project.to_owned(), slug: slug.to_owned() }
    }

    fn current(repository: &HostRepository) -> Result<Self, ForgeError> {
        let path = RepositoryPath::parse(&repository.path);
        let invalid = || ForgeError::Refused(format!("{:?} is not the path of a repository", repository.path));
        path.map(|path| Self::of(&path)).ok_or_else(invalid)
    }

    /// Returns the address below a part of the interface.
    fn below(&self, part: &str) -> String {
        format!("{part}/projects/{}/repos/{}", encoded(&self.project), encoded(&self.slug))
    }

    /// Returns the address of the pull requests.
    fn pulls(&self) -> String {
        format!("{}/pull-requests", self.below(API))
    }

    /// Returns the source or the target of a new pull request.
    fn end(&self, branch: &str) -> Value {
        json!({
            "id": format!("refs/heads/{branch}"),
            "repository": {"slug": self.slug, "project": {"key": self.project}},
        })
    }
}

/// A change of the fields of a pull request; `None` changes nothing.
#[derive(Default)]
struct Edit<'a> {
    title: Option<&'a str>,
    body: Option<&'a str>,
    draft: Option<bool>,
    reviewer: Option<&'a str>,
}

impl Edit<'_> {
    /// Returns the request, with all fields, because the host clears those that are missing; `None` if the pull request
    /// already is as it should be.
    fn request(&self, pull: &PullRequest) -> Option<Value> {
        let title = self.title.unwrap_or(&pull.title);
        let description = self.body.map_or_else(|| pull.description.clone(), with_hidden_comments);
        let mut reviewers: Vec<&str> = pull.reviewers.iter().map(|reviewer| reviewer.user.name.as_str()).collect();
        let new = self.reviewer.filter(|new| !reviewers.iter().any(|known| known.eq_ignore_ascii_case(new)));
        let is_same = title == pull.title && description == pull.description && new.is_none();
        let draft = pull.draft.map(|now| self.draft.unwrap_or(now));
        if is_same && draft == pull.draft {
            return None;
        }
        reviewers.extend(new);
        let reviewers: Vec<Value> = reviewers.iter().map(|name| json!({"user": {"name": name}})).collect();
        let mut body =
            json!({"version": pull.version, "title": title, "description": description, "reviewers": reviewers});
        if let Some(draft) = draft {
            body["draft"] = draft.into();
        }
        Some(body)
    }
}

/// Returns the path of the pages of a project. The key of a personal project is `~` and the user in uppercase, and the
/// user is in lowercase in the address.
fn owner_page(key: &str) -> String {
    match key.strip_prefix('~') {
        Some(user) => format!("users/{}", encoded(&user.to_lowercase())),
        None => format!("projects/{}", encoded(key)),
    }
}

/// Returns the number of the pull request of a conversation.
fn number_of(target: CommentTarget) -> Result<u64, ForgeError> {
    match target {
        CommentTarget::Pull(number) => Ok(number),
        CommentTarget::Issue(_) => Err(ForgeError::Refused("Bitbucket Data Center has no issues".to_owned())),
    }
}

#[async_trait]
impl Api for BitbucketDataCenter {
    async fn repository(&self, path: &RepositoryPath) -> Result<HostRepository, ForgeError> {
        let found: Repository = self.get(&Location::of(path).below(API)).await?;
        // The repository may have another path since it was renamed.
        let current = Location { project: found.project.key.clone(), slug: found.slug.clone() };
        Ok(HostRepository {
            path: format!("{}/{}", current.project, current.slug),
            default_branch: self.default_branch(&current).await?,
            can_push: self.can_push(&found).await?,
            is_archived: found.archived,
            ci_paths: Vec::new(),
            id: found.id.0,
        })
    }

    async fn git_credential(&self, _: &RepositoryPath) -> Result<Credential, ForgeError> {
        let username = self.username.as_deref().map(str::trim).unwrap_or_default().to_owned();
        Ok(Credential { username, password: self.token.0.clone() })
    }

    async fn account(&self) -> Result<Account, ForgeError> {
        self.owner().await.map(Account::User)
    }

    async fn me(&self, _: &HostRepository) -> Result<HostUser, ForgeError> {
        self.owner().await
    }

    async fn find_pulls(&self, repository: &HostRepository, head: &str) -> Result<Vec<HostPull>, ForgeError> {
        let location = Location::current(repository)?;
        // Pull requests to the repository of which this one is a fork are among them; they count as from a fork.
        let query = "state=ALL&direction=OUTGOING&order=NEWEST&limit=100";
        let path = format!("{}?{query}&at={}", location.pulls(), encoded(&format!("refs/heads/{head}")));
        let found: Vec<PullRequest> = self.list(&path, |_| false).await?;
        let described = |pull: PullRequest| {
            let page = self.page(&location, pull.id);
            pull.into_pull(page)
        };
        Ok(found.into_iter().map(described).collect())
    }

    async fn create_pull(
        &self,
        repository: &HostRepository,
        new: &NewPull,
        base: &str,
    ) -> Result<CreatedPull, ForgeError> {
        let location = Location::current(repository)?;
        let mut body = json!({
            "title": new.title,
            "description": with_hidden_comments(&fitting(&new.body)),
            "fromRef": location.end(&new.head),
            "toRef": location.end(base),
        });
        if new.draft {
            body["draft"] = true.into();
        }
        let mut answer = self.call(Method::POST, &location.pulls(), Some(&body)).await?;
        if new.draft && answer.status == StatusCode::BAD_REQUEST {
            // Versions before 8.18 have no drafts.
            if let Some(fields) = body.as_object_mut() {
                fields.remove("draft");
            }
            answer = self.call(Method::POST, &location.pulls(), Some(&body)).await?;
        }
        match (answer.status, exception(&answer).as_str()) {
            (StatusCode::CONFLICT, "DuplicatePullRequestException") => return Ok(CreatedPull::AlreadyExists),
            (StatusCode::CONFLICT, "EmptyPullRequestException") => return Ok(CreatedPull::NoChanges),
            (StatusCode::NOT_FOUND, "NoSuchProjectException" | "NoSuchRepositoryException") => {}
            (StatusCode::NOT_FOUND, _) => {
                let text =
                    format!("{}; push the branch {}, and check that {base} exists", answer.described(), new.head);
                return Err(ForgeError::Refused(text));
            }
            _ => {}
        }
        let created: PullRequest = self.changed(&location, answer).await?.json()?;
        let page = self.page(&location, created.id);
        Ok(CreatedPull::Created(created.into_pull(page)))
    }

    async fn pull(&self, repository: &HostRepository, number: u64) -> Result<Option<HostPull>, ForgeError> {
        let location = Location::current(repository)?;
        match self.get::<PullRequest>(&format!("{}/{number}", location.pulls())).await {
            Err(ForgeError::NotFound(_)) => Ok(None),
            found => Ok(Some(found?.into_pull(self.page(&location, number)))),
        }
    }

    async fn update_pull(
        &self,
        repository: &HostRepository,
        number: u64,
        change: &PullChange,
    ) -> Result<(), ForgeError> {
        let location = Location::current(repository)?;
        let has_texts = change.title.is_some() || change.body.is_some() || change.draft.is_some();
        let texts =
            Edit { title: change.title.as_deref(), body: change.body.as_deref(), draft: change.draft, reviewer: None };
        let mut refused = Vec::new();
        // One by one, because one user who cannot review makes Bitbucket refuse all of them.
        let reviewers = change.reviewers.iter().map(|name| Edit { reviewer: Some(name), ..Edit::default() });
        for edit in std::iter::once(texts).filter(|_| has_texts).chain(reviewers) {
            match self.edit(&location, number, &edit).await {
                Err(ForgeError::Refused(text)) => {
                    refused.push(edit.reviewer.map(|name| format!("{name}: ")).unwrap_or_default() + &text);
                }
                edited => edited?,
            }
        }
        if !change.labels.is_empty() {
            refused.push("pull requests have no labels on Bitbucket Data Center".to_owned());
        }
        if !change.assignees.is_empty() {
            refused.push("pull requests have no assignees on Bitbucket Data Center; use reviewers".to_owned());
        }
        if refused.is_empty() { Ok(()) } else { Err(ForgeError::Refused(refused.join("; "))) }
    }

    async fn auto_merge(&self, repository: &HostRepository, number: u64) -> Result<(), ForgeError> {
        merge::request(self, repository, number).await
    }

    async fn comments(&self, repository: &HostRepository, target: CommentTarget) -> Result<Vec<Written>, ForgeError> {
        let (location, number) = (Location::current(repository)?, number_of(target)?);
        // The list of comments is that of one file.
        let path = format!("{}/{number}/activities?limit=100", location.pulls());
        let activities: Vec<Activity> = self.list(&path, |_| false).await?;
        let mut known = HashSet::new();
        let comments = activities.into_iter().filter_map(|activity| activity.comment).flat_map(Comment::into_thread);
        let written = comments.filter(|comment| known.insert(comment.id.0.clone())).map(|comment| Written {
            url: self.comment_page(&location, number, &comment),
            body: with_visible_comments(&comment.text),
            id: comment.id.0,
            author: comment.author.id.0,
        });
        Ok(written.collect())
    }

    async fn add_comment(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        text: &str,
    ) -> Result<String, ForgeError> {
        let (location, number) = (Location::current(repository)?, number_of(target)?);
        let (path, body) =
            (format!("{}/{number}/comments", location.pulls()), json!({"text": with_hidden_comments(&fitting(text))}));
        let answer = self.call(Method::POST, &path, Some(&body)).await?;
        let written: Comment = self.changed(&location, answer).await?.json()?;
        Ok(self.comment_page(&location, number, &written))
    }

    async fn update_comment(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        comment: &str,
        text: &str,
    ) -> Result<(), ForgeError> {
        let change = ("text", json!(with_hidden_comments(&fitting(text))));
        threads::change(self, &Location::current(repository)?, number_of(target)?, comment, change).await
    }

    async fn add_reply(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        (_, to): (&HostThread, &InThread),
        text: &str,
    ) -> Result<String, ForgeError> {
        let (location, number) = (Location::current(repository)?, number_of(target)?);
        let parent = number_of_comment(&to.id)?;
        let body = json!({"text": with_hidden_comments(&fitting(text)), "parent": {"id": parent}});
        let answer = self.call(Method::POST, &format!("{}/{number}/comments", location.pulls()), Some(&body)).await?;
        let written: Comment = self.changed(&location, answer).await?.json()?;
        Ok(self.comment_page(&location, number, &written))
    }

    async fn resolve(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        threads: &[HostThread],
    ) -> Result<(), ForgeError> {
        let (location, number) = (Location::current(repository)?, number_of(target)?);
        for thread in threads {
            threads::change(self, &location, number, &thread.id, ("threadResolved", json!(true))).await?;
        }
        Ok(())
    }

    async fn react(
        &self,
        repository: &HostRepository,
        comment: &CommentRef,
        reaction: Reaction,
    ) -> Result<(), ForgeError> {
        let is_comment = matches!(comment.kind, CommentKind::Pull | CommentKind::Line);
        if !is_comment || comment.id.is_empty() {
            return Ok(());
        }
        let location = Location::current(repository)?;
        let below = format!("pull-requests/{}/comments/{}/reactions", comment.number, encoded(&comment.id));
        let path = format!("{}/{below}", location.below("/comment-likes/latest"));
        // The host may not have the first one; its pages offer the second one.
        let [best, instead] = match reaction {
            Reaction::Seen => ["eyes", "thumbsup"],
            Reaction::Done => ["rocket", "heart"],
            Reaction::Failed => ["confused", "thinking_face"],
        };
        // Without a body, the request would have no content type, and would be refused as a possible forgery.
        let mut answer = self.call(Method::PUT, &format!("{path}/{best}"), Some(&json!({}))).await?;
        if matches!(answer.status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND) {
            answer = self.call(Method::PUT, &format!("{path}/{instead}"), Some(&json!({}))).await?;
        }
        // Old versions have no reactions.
        if answer.status == StatusCode::NOT_FOUND && exception(&answer).is_empty() {
            return Ok(());
        }
        self.changed(&location, answer).await.map(|_| ())
    }

    async fn review(&self, _: &HostRepository, _: u64, _: &str) -> Result<Vec<LineComment>, ForgeError> {
        // Each comment of a review is published, and reported, on its own.
        Ok(Vec::new())
    }

    async fn complete_comment(
        &self,
        repository: &HostRepository,
        pull: u64,
        mut comment: HostComment,
    ) -> Result<HostComment, ForgeError> {
        if comment.position.is_some() {
            return Ok(comment);
        }
        // The webhook and the comment itself do not say on which line the thread of a reply is.
        let thread = comment.thread.clone().unwrap_or_else(|| Thread::begun_by(&comment.id));
        let of = InThread { kind: comment.kind, id: comment.id.clone(), thread, review: None };
        let found = self.activities_of(&Location::current(repository)?, pull, &[of]).await?;
        if let Some(Activity { comment: Some(root), comment_anchor, .. }) = found.into_iter().next() {
            comment.position = comment_anchor.and_then(|anchor| anchor.position());
            let thread = comment.thread.get_or_insert_default();
            thread.id = Some(root.id.0);
            thread.is_resolved = root.thread_resolved.or(thread.is_resolved);
        }
        Ok(comment)
    }

    async fn add_line_comment(
        &self,
        repository: &HostRepository,
        pull: u64,
        of: (&Sha, &ReviewComment),
        text: &str,
    ) -> Result<(), ForgeError> {
        review::add(self, repository, pull, of, text).await
    }

    async fn threads(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        of: &[InThread],
    ) -> Result<Vec<HostThread>, ForgeError> {
        let (location, number) = (Location::current(repository)?, number_of(target)?);
        let found = self.activities_of(&location, number, of).await?;
        let roots = found.into_iter().filter_map(|activity| activity.comment);
        Ok(roots
            .map(|root| {
                let (id, is_resolved) = (root.id.0.clone(), root.thread_resolved);
                let mut comments = root.into_thread();
                comments.retain(|comment| comment.state != "PENDING");
                comments.sort_by_key(|comment| comment.id.0.parse::<u64>().unwrap_or_default());
                let comments = comments.into_iter().map(|comment| ThreadComment {
                    url: self.comment_page(&location, number, &comment),
                    id: comment.id.0,
                    author: comment.author.into(),
                    body: with_visible_comments(&comment.text),
                    is_edited: false,
                });
                HostThread { id, is_resolved, comments: comments.collect() }
            })
            .collect())
    }

    async fn poll(&self, repository: &HostRepository, query: &PollQuery) -> Result<Polled, ForgeError> {
        changes::poll(self, repository, query).await
    }

    async fn conversation(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        since: Option<Timestamp>,
    ) -> Result<Conversation, ForgeError> {
        self.read_conversation(repository, target, since).await
    }

    async fn file(
        &self,
        repository: &HostRepository,
        _: &HostPages,
        _: &CommentRef,
        url: &str,
        limit: usize,
    ) -> Result<CommentFile, ForgeError> {
        self.read_file(repository, url, limit).await
    }

    async fn permission(&self, repository: &HostRepository, user: &HostUser) -> Result<Permission, ForgeError> {
        let location = Location::current(repository)?;
        Ok(if self.has(&location, user, "REPO_WRITE").await? {
            self.check_filter(&location, user).await?;
            let is_admin = self.has(&location, user, "REPO_ADMIN").await?;
            if is_admin { Permission::Admin } else { Permission::Write }
        } else {
            let can_read = self.has(&location, user, "REPO_READ").await?;
            if can_read { Permission::Read } else { Permission::None }
        })
    }

    async fn checks(&self, repository: &HostRepository, sha: &Sha) -> Result<Vec<Check>, ForgeError> {
        let mut checks = self.builds(&Location::current(repository)?, sha).await?;
        checks.extend(merge::notes(self, repository, sha).await);
        Ok(checks)
    }

    async fn check_log(&self, _: &HostRepository, _: &str, _: usize) -> Result<Option<Vec<u8>>, ForgeError> {
        Ok(None)
    }

    async fn set_status(
        &self,
        repository: &HostRepository,
        sha: &Sha,
        status: &CommitStatus,
    ) -> Result<(), ForgeError> {
        let location = Location::current(repository)?;
        let state = match status.state {
            StatusState::Pending => "INPROGRESS",
            StatusState::Success => "SUCCESSFUL",
            StatusState::Failure => "FAILED",
        };
        let body = json!({
            "key": STATUS,
            "name": STATUS,
            "state": state,
            "url": status.url,
            "description": status.description,
            // Without it, lists of pull requests do not show the status.
            "ref": format!("refs/heads/{}", status.branch),
        });
        let path = format!("{}/commits/{sha}/builds", location.below(API));
        let mut answer = self.call(Method::POST, &path, Some(&body)).await?;
        if answer.status == StatusCode::NOT_FOUND && exception(&answer).is_empty() {
            // Versions before 7.4 have only this one.
            let path = format!("/build-status/latest/commits/{sha}");
            answer = self.call(Method::POST, &path, Some(&body)).await?;
        }
        self.changed(&location, answer).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests;
