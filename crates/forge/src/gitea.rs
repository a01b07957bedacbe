//! Gitea and Forgejo (REST API, version 1).

mod changes;
mod conversation;
pub(crate) mod hooks;
mod merge;
mod requests;
mod review;
mod wire;

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use http::{Method, StatusCode};
use journeyman_core::checks::{Check, CommitStatus};
use journeyman_core::code_host::{HostKind, HostRepository, PullState, RepositoryPath};
use journeyman_core::conversation::{
    CommentRef, CommentTarget, Conversation, HostThread, InThread, LineComment, NewReview, Permission, Reaction,
    ThreadComment,
};
use journeyman_core::hook::{CommentKind, HostComment, HostIssue, HostReview, HostUser};
use journeyman_core::ids::Sha;
use journeyman_core::inbox::files::HostPages;
use journeyman_core::poll::{PollQuery, Polled};
use journeyman_core::ports::{CommentFile, CreatedPull, Credential, ForgeError};
use journeyman_core::position::Thread;
use journeyman_core::pull::{HostPull, NewPull, PullChange};
use journeyman_core::secret::SecretValue;
use journeyman_core::time::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use self::wire::{
    Change, CombinedStatus, Comment, Granted, JobPage, PullRequest, Repository, Review, ReviewComment, Status, Team,
    User, titled,
};
use crate::hosted::{Account, Api, STATUS, Written, status_body};
use crate::http::{Answer, Authorization, Http, encoded};

/// The number of items of a page. Servers send at most 50, unless their settings permit more.
const PAGE: usize = 50;

/// The maximum number of pages of a list. Lists of pull requests are slow: about a second for a page.
const PAGES: usize = 20;

/// The maximum number of ended pull requests of a branch whose newest commits are read.
const ENDED: usize = 10;

/// The maximum number of reviews, newest first, in which a comment on a line is searched.
const REVIEWS: usize = 20;

/// The time that a review can be older than the webhook about it says, because the host writes one after the other.
const REVIEW_SLACK: Duration = Duration::from_secs(10);

/// The color of labels that the service creates.
const LABEL_COLOR: &str = "#ededed";

/// A client of Gitea or Forgejo.
pub(crate) struct Gitea {
    pub(crate) http: Http,
    pub(crate) token: SecretValue,
    /// `true` for Forgejo.
    pub(crate) is_forgejo: bool,
}

/// Requests.
impl Gitea {
    /// Describes the repository at an address of the interface.
    async fn described(&self, address: &str) -> Result<HostRepository, ForgeError> {
        let found: Repository = self.call(Method::GET, address, None).await?.ok()?.json()?;
        Ok(HostRepository {
            id: found.id.0,
            path: found.full_name,
            default_branch: found.default_branch.filter(|branch| !branch.is_empty()),
            can_push: found.permissions.map(|granted| granted.push),
            is_archived: found.archived,
            ci_paths: Vec::new(),
        })
    }

    async fn user(&self) -> Result<HostUser, ForgeError> {
        let user: User = self.call(Method::GET, "/user", None).await?.ok()?.json()?;
        Ok(user.into())
    }

    fn authorization(&self) -> Authorization {
        Authorization::Token(self.token.clone())
    }

    /// Sends a request; `path` is relative to the address of the interface.
    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer, ForgeError> {
        self.http.call(Some(&self.authorization()), method, path, body).await
    }

    /// Sends a request about a repository; `path` is below the repository.
    async fn send(
        &self,
        repository: &HostRepository,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, ForgeError> {
        let creates = method == Method::POST;
        let answer = self.call(method, &below(repository, path)?, body).await?;
        let is_denied = match answer.status {
            StatusCode::LOCKED => true,
            // Before version 1.22, Gitea hides that an archived repository has pull requests and comments.
            StatusCode::NOT_FOUND if creates => self.repository(&repository_path(repository)?).await?.is_archived,
            _ => false,
        };
        if is_denied { Err(ForgeError::Denied(answer.described())) } else { Ok(answer) }
    }

    async fn get<T: DeserializeOwned>(&self, repository: &HostRepository, path: &str) -> Result<T, ForgeError> {
        self.send(repository, Method::GET, path, None).await?.ok()?.json()
    }

    /// Reads a list that has no pages. Empty ones may be `null`.
    async fn get_all<T: DeserializeOwned>(
        &self,
        repository: &HostRepository,
        path: &str,
    ) -> Result<Vec<T>, ForgeError> {
        Ok(self.get::<Option<Vec<T>>>(repository, path).await?.unwrap_or_default())
    }

    /// Reads a list page by page, until `enough` returns true for the items of a page. `path` has a query, and `items`
    /// returns the items of a page.
    ///
    /// Counts the pages: the addresses in the header `Link` begin with the public address in the server's settings,
    /// which may differ from the one that the service uses.
    async fn pages<P: DeserializeOwned, T: Send>(
        &self,
        path: &str,
        items: impl Fn(P) -> Vec<T> + Send,
        enough: impl Fn(&[T]) -> bool + Send,
    ) -> Result<Vec<T>, ForgeError> {
        let mut all = Vec::new();
        for page in 1..=PAGES {
            let answer = self.call(Method::GET, &format!("{path}&limit={PAGE}&page={page}"), None).await?.ok()?;
            let found = items(answer.json()?);
            let is_last = found.is_empty() || enough(&found);
            all.extend(found);
            if is_last || total(&answer).is_some_and(|total| all.len() >= total) {
                break;
            }
        }
        Ok(all)
    }

    /// Reads all pages of a list. `path` has a query.
    async fn list<T: DeserializeOwned + Send>(&self, path: &str) -> Result<Vec<T>, ForgeError> {
        self.pages(path, Option::<Vec<T>>::unwrap_or_default, |_| false).await
    }
}

/// Returns the number of items of a whole list, if the host says.
fn total(answer: &Answer) -> Option<usize> {
    answer.headers.get("x-total-count")?.to_str().ok()?.parse().ok()
}

fn repository_path(repository: &HostRepository) -> Result<RepositoryPath, ForgeError> {
    let path = RepositoryPath::parse(&repository.path);
    path.ok_or_else(|| ForgeError::Refused(format!("{:?} is not the path of a repository", repository.path)))
}

fn below(repository: &HostRepository, path: &str) -> Result<String, ForgeError> {
    Ok(format!("/repos/{}{path}", repository_path(repository)?))
}

#[async_trait]
impl Api for Gitea {
    async fn repository(&self, path: &RepositoryPath) -> Result<HostRepository, ForgeError> {
        self.described(&format!("/repos/{path}")).await
    }

    async fn repository_by_id(&self, _: &RepositoryPath, id: &str) -> Result<HostRepository, ForgeError> {
        self.described(&format!("/repositories/{}", encoded(id))).await
    }

    async fn git_credential(&self, _repository: &RepositoryPath) -> Result<Credential, ForgeError> {
        Ok(Credential { username: HostKind::Gitea.git_user().to_owned(), password: self.token.0.clone() })
    }

    async fn account(&self) -> Result<Account, ForgeError> {
        self.user().await.map(Account::User)
    }

    async fn me(&self, _repository: &HostRepository) -> Result<HostUser, ForgeError> {
        self.user().await
    }

    async fn find_pulls(&self, repository: &HostRepository, head: &str) -> Result<Vec<HostPull>, ForgeError> {
        // Forgejo has the filter since version 16. Gitea has none.
        let filter = if self.is_forgejo { format!("&head={}", encoded(head)) } else { String::new() };
        let path = below(repository, &format!("/pulls?state=all{filter}"))?;
        // A pull request that the host fails to describe is null.
        let items = |page: Vec<Option<PullRequest>>| {
            let ours = |pull: Option<PullRequest>| pull.filter(|pull| pull.is_of(head)).map(PullRequest::into_pull);
            page.into_iter().map(ours).collect()
        };
        // Older ones are not needed if the branch has an open one.
        let enough =
            |page: &[Option<HostPull>]| page.iter().flatten().any(|pull: &HostPull| pull.state == PullState::Open);
        let found: Vec<Option<HostPull>> = self.pages(&path, items, enough).await?;
        let mut found: Vec<HostPull> = found.into_iter().flatten().collect();
        if found.iter().all(|pull| pull.state != PullState::Open) {
            for pull in found.iter_mut().take(ENDED) {
                pull.head_sha = self.ended_at(repository, pull.number).await?;
            }
        }
        Ok(found)
    }

    async fn create_pull(
        &self,
        repository: &HostRepository,
        new: &NewPull,
        base: &str,
    ) -> Result<CreatedPull, ForgeError> {
        if !self.has_commits(repository, &new.head, base).await? {
            return Ok(CreatedPull::NoChanges);
        }
        let title = titled(&new.title, new.draft);
        let body = json!({"title": title, "body": new.body, "head": new.head, "base": base});
        let answer = self.send(repository, Method::POST, "/pulls", Some(&body)).await?;
        match answer.status {
            StatusCode::CONFLICT => Ok(CreatedPull::AlreadyExists),
            StatusCode::UNPROCESSABLE_ENTITY if answer.message().contains("There are no changes between") => {
                Ok(CreatedPull::NoChanges)
            }
            _ => Ok(CreatedPull::Created(answer.ok()?.json::<PullRequest>()?.into_pull())),
        }
    }

    async fn pull(&self, repository: &HostRepository, number: u64) -> Result<Option<HostPull>, ForgeError> {
        let mut pull = match self.get::<PullRequest>(repository, &format!("/pulls/{number}")).await {
            Err(ForgeError::NotFound(_)) => return Ok(None),
            found => found?.into_pull(),
        };
        if pull.state != PullState::Open {
            pull.head_sha = self.ended_at(repository, number).await?;
        }
        Ok(Some(pull))
    }

    async fn update_pull(
        &self,
        repository: &HostRepository,
        number: u64,
        change: &PullChange,
    ) -> Result<(), ForgeError> {
        self.set_texts(repository, number, change).await?;
        self.add_labels(repository, number, &change.labels).await?;
        self.assign(repository, number, &change.assignees).await?;
        self.request_reviews(repository, number, &change.reviewers).await
    }

    async fn auto_merge(&self, repository: &HostRepository, number: u64) -> Result<(), ForgeError> {
        merge::request(self, repository, number).await
    }

    async fn comments(&self, repository: &HostRepository, target: CommentTarget) -> Result<Vec<Written>, ForgeError> {
        let (CommentTarget::Pull(number) | CommentTarget::Issue(number)) = target;
        let read = self.get_all::<Comment>(repository, &format!("/issues/{number}/comments")).await;
        if matches!(read, Err(ForgeError::Unclear(_))) {
            // Gitea fails (status 500) if the issue does not exist.
            self.get::<Value>(repository, &format!("/issues/{number}")).await?;
        }
        let written = |comment: Comment| Written {
            id: comment.id.0,
            author: comment.user.id.0,
            url: comment.html_url,
            body: comment.body,
        };
        Ok(read?.into_iter().map(written).collect())
    }

    async fn add_comment(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        text: &str,
    ) -> Result<String, ForgeError> {
        let (CommentTarget::Pull(number) | CommentTarget::Issue(number)) = target;
        let (path, body) = (format!("/issues/{number}/comments"), json!({"body": text}));
        let written: Comment = self.send(repository, Method::POST, &path, Some(&body)).await?.ok()?.json()?;
        Ok(written.html_url)
    }

    async fn update_comment(
        &self,
        repository: &HostRepository,
        _: CommentTarget,
        comment: &str,
        text: &str,
    ) -> Result<(), ForgeError> {
        let (path, body) = (format!("/issues/comments/{}", encoded(comment)), json!({"body": text}));
        self.send(repository, Method::PATCH, &path, Some(&body)).await?.ok().map(drop)
    }

    async fn add_reply(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        (thread, _): (&HostThread, &InThread),
        text: &str,
    ) -> Result<String, ForgeError> {
        let (CommentTarget::Pull(number) | CommentTarget::Issue(number)) = target;
        // Gitea has it since version 1.27. Forgejo and older versions answer with status 404 or 405.
        let path = format!("/pulls/{number}/comments/{}/replies", encoded(&thread.id));
        let answer = self.send(repository, Method::POST, &path, Some(&json!({"body": text}))).await?;
        Ok(answer.ok()?.json::<Comment>()?.html_url)
    }

    async fn resolve(
        &self,
        repository: &HostRepository,
        _: CommentTarget,
        threads: &[HostThread],
    ) -> Result<(), ForgeError> {
        for thread in threads {
            let path = format!("/pulls/comments/{}/resolve", encoded(&thread.id));
            self.send(repository, Method::POST, &path, Some(&json!({}))).await?.ok()?;
        }
        Ok(())
    }

    async fn react(
        &self,
        repository: &HostRepository,
        comment: &CommentRef,
        reaction: Reaction,
    ) -> Result<(), ForgeError> {
        let Some(path) = self.reactions(repository, comment).await? else { return Ok(()) };
        let content = match reaction {
            Reaction::Seen => "eyes",
            Reaction::Done => "rocket",
            Reaction::Failed => "confused",
        };
        let answer = self.send(repository, Method::POST, &path, Some(&json!({"content": content}))).await?;
        // The settings of a server may permit other reactions only.
        if answer.status == StatusCode::FORBIDDEN && answer.message().contains("not an allowed reaction") {
            return Ok(());
        }
        answer.ok()?;
        Ok(())
    }

    async fn review(
        &self,
        repository: &HostRepository,
        pull: u64,
        review: &str,
    ) -> Result<Vec<LineComment>, ForgeError> {
        let path = format!("/pulls/{pull}/reviews/{}", encoded(review));
        let author = match self.get::<Review>(repository, &path).await {
            Err(ForgeError::NotFound(_)) => return Ok(Vec::new()),
            found => found?.user.id,
        };
        let comments: Vec<ReviewComment> = self.get_all(repository, &format!("{path}/comments")).await?;
        let threads: Vec<Thread> = comments.iter().map(|comment| comment.thread(&comments)).collect();
        let mut comments: Vec<(ReviewComment, Thread)> = comments.into_iter().zip(threads).collect();
        // Replies of other people belong to the review too.
        comments.retain(|(comment, _)| comment.user.id == author);
        // Hosts list them in no order.
        comments.sort_by_cached_key(|(comment, _)| comment.sort_key());
        Ok(comments.into_iter().map(|(comment, thread)| comment.into_line(thread)).collect())
    }

    async fn reviews(&self, repository: &HostRepository, pull: u64) -> Result<Vec<HostReview>, ForgeError> {
        let found = self.all_reviews(repository, pull).await?;
        Ok(found.into_iter().filter_map(Review::into_review).collect())
    }

    async fn find_reviews(
        &self,
        repository: &HostRepository,
        pull: u64,
        review: &HostReview,
    ) -> Result<Vec<HostReview>, ForgeError> {
        let since = review.version.split_once('/').and_then(|(time, _)| time.parse::<Timestamp>().ok());
        let mut found = self.all_reviews(repository, pull).await?;
        found.retain(|one| one.user.id.0 == review.author.id);
        if let Some(since) = since {
            found.retain(|one| one.age().0.is_none_or(|at| at + REVIEW_SLACK >= since));
        }
        let mut found: Vec<HostReview> = found.into_iter().filter_map(Review::into_review).collect();
        // Without a time, only the newest one can be new.
        let first = if since.is_some() { 0 } else { found.len().saturating_sub(1) };
        Ok(found.split_off(first))
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
        // A reply on a line, and the edit of a part of a review, have the webhook of a comment in the conversation, but
        // the host does not show them as one.
        let path = format!("/issues/comments/{}", encoded(&comment.id));
        if self.send(repository, Method::GET, &path, None).await?.status != StatusCode::NO_CONTENT {
            return Ok(comment);
        }
        let reviews = self.all_reviews(repository, pull).await?;
        if let Some(review) = reviews.iter().find(|review| review.comment() == Some(comment.id.as_str())) {
            comment.review = Some(review.id().to_owned());
            return Ok(comment);
        }
        for review in reviews.iter().rev().take(REVIEWS) {
            let path = format!("/pulls/{pull}/reviews/{}/comments", encoded(review.id()));
            let lines: Vec<ReviewComment> = self.get_all(repository, &path).await?;
            let thread = lines.iter().find(|line| line.id() == comment.id).map(|line| line.thread(&lines));
            let found = lines.into_iter().find(|line| line.id() == comment.id).zip(thread);
            if let Some((found, thread)) = found {
                let found = found.into_line(thread);
                (comment.kind, comment.review) = (CommentKind::Line, Some(review.id().to_owned()));
                (comment.position, comment.hunk, comment.thread) = (Some(found.position), found.hunk, found.thread);
                break;
            }
        }
        Ok(comment)
    }

    async fn add_review(
        &self,
        repository: &HostRepository,
        pull: u64,
        review: &NewReview,
    ) -> Result<Option<String>, ForgeError> {
        let (path, body) = (format!("/pulls/{pull}/reviews"), review::body(review));
        let written: Review = self.send(repository, Method::POST, &path, Some(&body)).await?.ok()?.json()?;
        Ok(Some(written.html_url))
    }

    async fn threads(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        of: &[InThread],
    ) -> Result<Vec<HostThread>, ForgeError> {
        // Only the comments of reviews are in threads.
        let CommentTarget::Pull(pull) = target else { return Ok(Vec::new()) };
        let reviews: BTreeSet<&str> = of.iter().filter_map(|one| one.review.as_deref()).collect();
        let mut threads = Vec::new();
        for review in reviews {
            let path = format!("/pulls/{pull}/reviews/{}/comments", encoded(review));
            match self.get_all::<ReviewComment>(repository, &path).await {
                // The review was deleted.
                Err(ForgeError::NotFound(_)) => {}
                comments => threads.extend(ReviewComment::into_threads(comments?)),
            }
        }
        let is_asked = |comment: &ThreadComment| of.iter().any(|one| one.id == comment.id);
        threads.retain(|thread| thread.comments.iter().any(is_asked));
        Ok(threads)
    }

    async fn issue(&self, repository: &HostRepository, number: u64) -> Result<Option<HostIssue>, ForgeError> {
        let found: changes::Entry = self.get(repository, &format!("/issues/{number}")).await?;
        Ok((!found.is_pull()).then(|| found.into_issue()))
    }

    async fn issue_requester(
        &self,
        repository: &HostRepository,
        issue: u64,
        label: Option<&str>,
        me: &HostUser,
    ) -> Result<Option<HostUser>, ForgeError> {
        let timeline = self.timeline(repository, issue).await?;
        let asks = |change: &Change| change.assigns(me) || label.is_some_and(|label| change.adds(label));
        Ok(timeline.into_iter().rev().find(asks).map(|change| change.user.into()))
    }

    async fn issue_editors(&self, repository: &HostRepository, _: u64) -> Result<Option<Vec<HostUser>>, ForgeError> {
        // The timeline has the changes of the title, and not those of the text.
        Ok((!self.lets_others_edit(repository).await?).then(Vec::new))
    }

    async fn lets_others_edit(&self, repository: &HostRepository) -> Result<bool, ForgeError> {
        let teams = self.teams(repository).await?.unwrap_or_default();
        Ok(teams.iter().any(Team::writes_without_code))
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
        _: &HostRepository,
        pages: &HostPages,
        _: &CommentRef,
        url: &str,
        limit: usize,
    ) -> Result<CommentFile, ForgeError> {
        self.read_file(pages, url, limit).await
    }

    async fn permission(&self, repository: &HostRepository, user: &HostUser) -> Result<Permission, ForgeError> {
        let path = format!("/collaborators/{}/permission", encoded(&user.name));
        let found: Granted = match self.get(repository, &path).await {
            // Only administrators of the repository may ask.
            Err(ForgeError::Denied(_)) => return self.permission_by_lists(repository, user).await,
            found => found?,
        };
        // Another account may have taken the name since.
        if found.user.id.0 != user.id {
            return Ok(Permission::None);
        }
        Ok(match found.permission.as_str() {
            "owner" | "admin" => Permission::Admin,
            "write" => {
                self.confirm_write(repository, user).await?;
                Permission::Write
            }
            "read" => Permission::Read,
            _ => Permission::None,
        })
    }

    async fn checks(&self, repository: &HostRepository, sha: &Sha) -> Result<Vec<Check>, ForgeError> {
        let path = below(repository, &format!("/commits/{sha}/status?"))?;
        let found: Vec<Status> = self.pages(&path, |page: CombinedStatus| page.statuses, |_| false).await?;
        let others = found.into_iter().filter(|status| status.context != STATUS);
        let mut checks: Vec<Check> = others.map(|status| status.into_check(&self.http.base, sha)).collect();
        checks.extend(merge::notes(self, repository, sha).await);
        Ok(checks)
    }

    async fn check_log(
        &self,
        repository: &HostRepository,
        log: &str,
        limit: usize,
    ) -> Result<Option<Vec<u8>>, ForgeError> {
        let Some(page) = JobPage::parse(log) else { return Ok(None) };
        let job = match self.job_of(repository, &page).await {
            // Older versions do not list runs and jobs, or only for the owner.
            Err(ForgeError::NotFound(_) | ForgeError::Denied(_)) | Ok(None) => return Ok(None),
            Err(error) => return Err(error),
            Ok(Some(job)) => job,
        };
        let path = below(repository, &format!("/actions/jobs/{job}/logs"))?;
        self.http.log(&self.authorization(), &path, limit).await
    }

    async fn set_status(
        &self,
        repository: &HostRepository,
        sha: &Sha,
        status: &CommitStatus,
    ) -> Result<(), ForgeError> {
        let body = status_body(status);
        self.send(repository, Method::POST, &format!("/statuses/{sha}"), Some(&body)).await?.ok()?;
        Ok(())
    }
}
