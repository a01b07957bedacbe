//! GitHub: github.com and GitHub Enterprise Server (REST API, version 2022-11-28).

mod app;
mod changes;
mod conversation;
pub(crate) mod created_app;
pub(crate) mod hooks;
mod merge;
mod position;
mod review;
mod threads;
mod wire;

use async_trait::async_trait;
use http::{Method, StatusCode};
use journeyman_core::checks::{Check, CommitStatus};
use journeyman_core::code_host::expiry::Expiry;
use journeyman_core::code_host::{HostRepository, RepositoryPath};
use journeyman_core::conversation::{
    CommentRef, CommentTarget, Conversation, HostThread, InThread, LineComment, NewReview, Permission, Reaction,
};
use journeyman_core::hook::{CommentKind, HostIssue, HostReview, HostUser};
use journeyman_core::ids::Sha;
use journeyman_core::inbox::files::HostPages;
use journeyman_core::poll::{PollQuery, Polled};
use journeyman_core::ports::{CommentFile, CreatedPull, Credential, ForgeError};
use journeyman_core::pull::{HostPull, NewPull, PullChange};
use journeyman_core::secret::SecretValue;
use journeyman_core::time::Timestamp;
use serde_json::{Value, json};

pub(crate) use self::app::App;
use self::wire::{
    Annotation, CheckRun, CheckRuns, CombinedStatus, Comment, Graph, Jobs, PullRequest, REPORT, Repository,
    ReviewComment, User, WorkflowRun, WorkflowRuns,
};
use crate::hosted::{Account, Api, STATUS, Written, status_body};
use crate::http::{Answer, Authorization, Http, PAGES, encoded};
use crate::report;

/// The headers of every request.
pub(crate) const HEADERS: [(&str, &str); 2] =
    [("accept", "application/vnd.github+json"), ("x-github-api-version", "2022-11-28")];

/// The user name for git with a token.
const GIT_USER: &str = "x-access-token";

/// The header with the end of a token, in all answers to a token that has one.
const EXPIRATION: &str = "github-authentication-token-expiration";

/// The maximum number of annotations in the report of a check: a page of GitHub's.
const ANNOTATIONS: u64 = 100;

/// The credential of a client.
pub(crate) enum Access {
    /// An app, with a token for each repository.
    App { app: App, slug: String },
    /// A token of a user.
    Token(SecretValue),
}

/// A client of GitHub.
pub(crate) struct Github {
    pub(crate) http: Http,
    pub(crate) access: Access,
}

impl Github {
    /// Describes the repository at an address of the interface. `path` is its path for the credential.
    async fn described(&self, path: &RepositoryPath, address: &str) -> Result<HostRepository, ForgeError> {
        let can_push = match &self.access {
            Access::App { app, .. } => app.token(&self.http, path).await?.can_push,
            Access::Token(_) => None,
        };
        let found = self.described_to(&self.authorization(path).await?, address).await?;
        Ok(HostRepository { can_push: found.can_push.or(can_push), ..found })
    }

    async fn described_to(&self, authorization: &Authorization, address: &str) -> Result<HostRepository, ForgeError> {
        let found: Repository = self.http.call(Some(authorization), Method::GET, address, None).await?.ok()?.json()?;
        Ok(HostRepository {
            id: found.id.0,
            path: found.full_name,
            default_branch: found.default_branch.filter(|branch| !branch.is_empty()),
            // GitHub does not tell an app here what its token may do. It did so when it made the token.
            can_push: found.permissions.filter(|_| matches!(self.access, Access::Token(_))).map(|granted| granted.push),
            is_archived: found.archived || found.disabled,
            ci_paths: Vec::new(),
        })
    }

    async fn authorization(&self, path: &RepositoryPath) -> Result<Authorization, ForgeError> {
        Ok(Authorization::Bearer(match &self.access {
            Access::App { app, .. } => app.token(&self.http, path).await?.token,
            Access::Token(token) => token.clone(),
        }))
    }

    /// Sends a request about a repository; `path` is below the repository.
    async fn send(
        &self,
        repository: &HostRepository,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, ForgeError> {
        let known = repository_path(repository)?;
        let authorization = self.authorization(&known).await?;
        self.http.call(Some(&authorization), method, &format!("/repos/{known}{path}"), body).await
    }

    async fn get<T: serde::de::DeserializeOwned>(
        &self,
        repository: &HostRepository,
        path: &str,
    ) -> Result<T, ForgeError> {
        self.send(repository, Method::GET, path, None).await?.ok()?.json()
    }

    /// Reads the pages of a list that is a field of an object.
    async fn pages<T: serde::de::DeserializeOwned, I>(
        &self,
        repository: &HostRepository,
        path: &str,
        items: impl Fn(T) -> Vec<I>,
    ) -> Result<Vec<I>, ForgeError> {
        let known = repository_path(repository)?;
        let authorization = self.authorization(&known).await?;
        let (mut all, mut path) = (Vec::new(), format!("/repos/{known}{path}"));
        for _ in 0..PAGES {
            let answer = self.http.call(Some(&authorization), Method::GET, &path, None).await?.ok()?;
            all.extend(items(answer.json()?));
            match answer.next() {
                Some(next) => path = next,
                None => break,
            }
        }
        Ok(all)
    }

    /// Returns the jobs of GitHub Actions for a commit.
    async fn jobs(&self, repository: &HostRepository, sha: &Sha) -> Result<Vec<Check>, ForgeError> {
        let mut jobs = Vec::new();
        for run in self.workflow_runs(repository, sha).await? {
            let path = format!("/actions/runs/{}/jobs?filter=latest&per_page=100", run.id.0);
            let of_run = self.pages(repository, &path, |page: Jobs| page.jobs).await?;
            if of_run.is_empty() {
                jobs.extend(run.waiting());
            }
            jobs.extend(of_run.into_iter().map(CheckRun::job_into_check));
        }
        Ok(jobs)
    }

    /// Returns the runs of workflows of GitHub Actions for a commit.
    async fn workflow_runs(&self, repository: &HostRepository, sha: &Sha) -> Result<Vec<WorkflowRun>, ForgeError> {
        let path = format!("/actions/runs?head_sha={sha}&per_page=100");
        self.pages(repository, &path, |page: WorkflowRuns| page.workflow_runs).await
    }

    /// Returns the runs of workflows that wait for a person. A token that may not read them sees none.
    async fn waiting_runs(&self, repository: &HostRepository, sha: &Sha) -> Result<Vec<Check>, ForgeError> {
        match self.workflow_runs(repository, sha).await {
            Ok(runs) => Ok(runs.iter().filter_map(WorkflowRun::waiting).collect()),
            Err(error) if error.may_pass() => Err(error),
            Err(_) => Ok(Vec::new()),
        }
    }

    /// Reads the report of a check run: its title, its annotations, its summary and its text, at most `limit` bytes.
    async fn report(&self, repository: &HostRepository, id: &str, limit: usize) -> Result<Option<Vec<u8>>, ForgeError> {
        let path = format!("/check-runs/{}", encoded(id));
        let run: CheckRun = match self.get(repository, &path).await {
            Err(ForgeError::NotFound(_)) => return Ok(None),
            run => run?,
        };
        let output = run.into_output();
        let mut parts: Vec<String> = output.title.into_iter().collect();
        if output.annotations_count > 0 {
            let annotations: Vec<Annotation> =
                self.get(repository, &format!("{path}/annotations?per_page={ANNOTATIONS}")).await?;
            parts.extend(annotations.iter().map(Annotation::text));
            if output.annotations_count > ANNOTATIONS {
                let count = output.annotations_count;
                parts.push(format!("[the check has {count} annotations; these are the first {ANNOTATIONS}]"));
            }
        }
        parts.extend(output.summary.into_iter().chain(output.text));
        Ok(report::file(parts.join("\n\n"), limit))
    }

    async fn list<T: serde::de::DeserializeOwned>(
        &self,
        repository: &HostRepository,
        path: &str,
    ) -> Result<Vec<T>, ForgeError> {
        let known = repository_path(repository)?;
        let authorization = self.authorization(&known).await?;
        self.http.list(Some(&authorization), &format!("/repos/{known}{path}"), |_| false).await
    }

    /// Makes a draft ready for review, or the reverse. Only the GraphQL interface can do this.
    async fn set_draft(&self, repository: &HostRepository, number: u64, draft: bool) -> Result<(), ForgeError> {
        let pull: PullRequest = self.get(repository, &format!("/pulls/{number}")).await?;
        if pull.draft == draft {
            return Ok(());
        }
        let mutation = if draft { "convertPullRequestToDraft" } else { "markPullRequestReadyForReview" };
        let query =
            format!("mutation($id: ID!) {{ {mutation}(input: {{pullRequestId: $id}}) {{ clientMutationId }} }}");
        self.graph(repository, &query, json!({"id": pull.node_id})).await?;
        Ok(())
    }

    /// Sends a query of the GraphQL interface, and returns the data of the answer.
    async fn graph(&self, repository: &HostRepository, query: &str, variables: Value) -> Result<Value, ForgeError> {
        let graph = self.graph_answer(repository, query, variables).await?;
        match graph.errors.into_iter().next() {
            Some(error) => Err(ForgeError::Refused(error.message)),
            None => Ok(graph.data),
        }
    }

    /// Sends a query of the GraphQL interface, and returns the answer, which may have data and errors.
    async fn graph_answer(
        &self,
        repository: &HostRepository,
        query: &str,
        variables: Value,
    ) -> Result<Graph, ForgeError> {
        let body = json!({"query": query, "variables": variables});
        let authorization = self.authorization(&repository_path(repository)?).await?;
        // GitHub Enterprise Server has it at /api/graphql, and the other interface at /api/v3.
        let url = format!("{}/graphql", self.http.base.strip_suffix("/v3").unwrap_or(&self.http.base));
        let answer = self.http.call(Some(&authorization), Method::POST, &url, Some(&body)).await?.ok()?;
        answer.json()
    }

    /// Asks for reviews one by one, because one user who cannot review makes GitHub refuse all of them.
    async fn request_reviews(
        &self,
        repository: &HostRepository,
        number: u64,
        reviewers: &[String],
    ) -> Result<(), ForgeError> {
        let mut refused = None;
        for reviewer in reviewers {
            let body = match reviewer.rsplit_once('/') {
                Some((_, team)) => json!({"team_reviewers": [team]}),
                None => json!({"reviewers": [reviewer]}),
            };
            let path = format!("/pulls/{number}/requested_reviewers");
            match self.send(repository, Method::POST, &path, Some(&body)).await?.ok() {
                Err(ForgeError::Refused(text)) => refused = Some(format!("{reviewer}: {text}")),
                answer => drop(answer?),
            }
        }
        refused.map_or(Ok(()), |text| Err(ForgeError::Refused(text)))
    }
}

fn repository_path(repository: &HostRepository) -> Result<RepositoryPath, ForgeError> {
    let path = RepositoryPath::parse(&repository.path);
    path.ok_or_else(|| ForgeError::Refused(format!("{:?} is not the path of a repository", repository.path)))
}

/// Returns the fault of a refused pull request.
fn refused(answer: &Answer) -> Result<CreatedPull, ForgeError> {
    let text = answer.message();
    if text.contains("A pull request already exists") {
        return Ok(CreatedPull::AlreadyExists);
    }
    if text.contains("No commits between") {
        return Ok(CreatedPull::NoChanges);
    }
    Err(answer.error())
}

#[async_trait]
impl Api for Github {
    async fn repository(&self, path: &RepositoryPath) -> Result<HostRepository, ForgeError> {
        self.described(path, &format!("/repos/{path}")).await
    }

    async fn repository_by_id(&self, path: &RepositoryPath, id: &str) -> Result<HostRepository, ForgeError> {
        let address = format!("/repositories/{}", encoded(id));
        match &self.access {
            // A token for the path would be one for the repository that has it now.
            Access::App { app, .. } => {
                let token = app.token_by_id(&self.http, id).await?;
                self.described_to(&Authorization::Bearer(token), &address).await
            }
            Access::Token(_) => self.described(path, &address).await,
        }
    }

    async fn git_credential(&self, repository: &RepositoryPath) -> Result<Credential, ForgeError> {
        let password = match &self.access {
            Access::App { app, .. } => app.token(&self.http, repository).await?.token.0,
            Access::Token(token) => token.0.clone(),
        };
        Ok(Credential { username: GIT_USER.to_owned(), password })
    }

    async fn account(&self) -> Result<Account, ForgeError> {
        match &self.access {
            Access::App { app, .. } => app.account(&self.http).await.map(Account::App),
            Access::Token(token) => {
                let authorization = Authorization::Bearer(token.clone());
                let user: User =
                    self.http.call(Some(&authorization), Method::GET, "/user", None).await?.ok()?.json()?;
                Ok(Account::User(user.into()))
            }
        }
    }

    async fn expiry(&self) -> Result<Expiry, ForgeError> {
        let Access::Token(token) = &self.access else { return Ok(Expiry::Never) };
        let authorization = Authorization::Bearer(token.clone());
        let answer = self.http.call(Some(&authorization), Method::GET, "/user", None).await?.ok()?;
        Ok(answer.header(EXPIRATION).map_or(Expiry::Never, wire::expiry))
    }

    async fn me(&self, repository: &HostRepository) -> Result<HostUser, ForgeError> {
        let path = match &self.access {
            Access::App { app, slug } => {
                let slug = if slug.is_empty() { app.slug(&self.http).await? } else { slug.clone() };
                format!("/users/{}", encoded(&format!("{slug}[bot]")))
            }
            Access::Token(_) => "/user".to_owned(),
        };
        let authorization = self.authorization(&repository_path(repository)?).await?;
        let user: User = self.http.call(Some(&authorization), Method::GET, &path, None).await?.ok()?.json()?;
        Ok(user.into())
    }

    async fn find_pulls(&self, repository: &HostRepository, head: &str) -> Result<Vec<HostPull>, ForgeError> {
        let path = repository_path(repository)?;
        // Without the owner, GitHub ignores the filter.
        let filter = encoded(&format!("{}:{head}", path.parts().0));
        let found: Vec<PullRequest> =
            self.list(repository, &format!("/pulls?state=all&per_page=100&head={filter}")).await?;
        Ok(found.into_iter().map(PullRequest::into_pull).collect())
    }

    async fn create_pull(
        &self,
        repository: &HostRepository,
        new: &NewPull,
        base: &str,
    ) -> Result<CreatedPull, ForgeError> {
        let body =
            |draft: bool| json!({"title": new.title, "body": new.body, "head": new.head, "base": base, "draft": draft});
        let mut answer = self.send(repository, Method::POST, "/pulls", Some(&body(new.draft))).await?;
        let is_refused = answer.status == StatusCode::UNPROCESSABLE_ENTITY;
        if is_refused && new.draft && answer.message().contains("Draft pull requests are not supported") {
            answer = self.send(repository, Method::POST, "/pulls", Some(&body(false))).await?;
        }
        if answer.status == StatusCode::UNPROCESSABLE_ENTITY {
            return refused(&answer);
        }
        Ok(CreatedPull::Created(answer.ok()?.json::<PullRequest>()?.into_pull()))
    }

    async fn pull(&self, repository: &HostRepository, number: u64) -> Result<Option<HostPull>, ForgeError> {
        match self.get::<PullRequest>(repository, &format!("/pulls/{number}")).await {
            Err(ForgeError::NotFound(_)) => Ok(None),
            found => Ok(Some(found?.into_pull())),
        }
    }

    async fn update_pull(
        &self,
        repository: &HostRepository,
        number: u64,
        change: &PullChange,
    ) -> Result<(), ForgeError> {
        let mut texts = serde_json::Map::new();
        for (name, text) in [("title", &change.title), ("body", &change.body)] {
            if let Some(text) = text {
                texts.insert(name.to_owned(), json!(text));
            }
        }
        if !texts.is_empty() {
            let path = format!("/pulls/{number}");
            self.send(repository, Method::PATCH, &path, Some(&texts.into())).await?.ok()?;
        }
        if !change.labels.is_empty() {
            let (path, body) = (format!("/issues/{number}/labels"), json!({"labels": change.labels}));
            self.send(repository, Method::POST, &path, Some(&body)).await?.ok()?;
        }
        if !change.assignees.is_empty() {
            let (path, body) = (format!("/issues/{number}/assignees"), json!({"assignees": change.assignees}));
            self.send(repository, Method::POST, &path, Some(&body)).await?.ok()?;
        }
        self.request_reviews(repository, number, &change.reviewers).await?;
        match change.draft {
            Some(draft) => self.set_draft(repository, number, draft).await,
            None => Ok(()),
        }
    }

    async fn auto_merge(&self, repository: &HostRepository, number: u64) -> Result<(), ForgeError> {
        merge::request(self, repository, number).await
    }

    async fn comments(&self, repository: &HostRepository, target: CommentTarget) -> Result<Vec<Written>, ForgeError> {
        let (CommentTarget::Pull(number) | CommentTarget::Issue(number)) = target;
        let found: Vec<Comment> = self.list(repository, &format!("/issues/{number}/comments?per_page=100")).await?;
        let written = |comment: Comment| Written {
            id: comment.id.0,
            author: comment.user.id.0,
            url: comment.html_url,
            body: comment.body,
        };
        Ok(found.into_iter().map(written).collect())
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

    fn is_busy(&self) -> bool {
        self.http.is_busy()
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
        // GitHub refuses replies to replies, so all are to the first comment.
        let path = format!("/pulls/{number}/comments/{}/replies", encoded(&thread.id));
        let answer = self.send(repository, Method::POST, &path, Some(&json!({"body": text}))).await?;
        Ok(answer.ok()?.json::<Comment>()?.html_url)
    }

    async fn resolve(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        threads: &[HostThread],
    ) -> Result<(), ForgeError> {
        match target {
            CommentTarget::Pull(pull) => threads::resolve(self, repository, pull, threads).await,
            CommentTarget::Issue(_) => Ok(()),
        }
    }

    async fn react(
        &self,
        repository: &HostRepository,
        comment: &CommentRef,
        reaction: Reaction,
    ) -> Result<(), ForgeError> {
        let kind = match comment.kind {
            CommentKind::Pull => "issues/comments",
            CommentKind::Line => "pulls/comments",
            CommentKind::Issue if comment.id.is_empty() => "issues",
            CommentKind::Issue => "issues/comments",
            CommentKind::Review => return threads::react_to_review(self, repository, comment, reaction).await,
        };
        let id = if comment.id.is_empty() { comment.number.to_string() } else { comment.id.clone() };
        let content = match reaction {
            Reaction::Seen => "eyes",
            Reaction::Done => "rocket",
            Reaction::Failed => "confused",
        };
        let body = json!({"content": content});
        self.send(repository, Method::POST, &format!("/{kind}/{id}/reactions"), Some(&body)).await?.ok()?;
        Ok(())
    }

    async fn review(
        &self,
        repository: &HostRepository,
        pull: u64,
        review: &str,
    ) -> Result<Vec<LineComment>, ForgeError> {
        // The list of a review's own comments lacks the lines.
        let found: Vec<ReviewComment> = self.list(repository, &format!("/pulls/{pull}/comments?per_page=100")).await?;
        let of_review = found.into_iter().filter(|comment| comment.pull_request_review_id.0 == review);
        Ok(of_review.filter_map(ReviewComment::into_line).collect())
    }

    async fn reviews(&self, repository: &HostRepository, pull: u64) -> Result<Vec<HostReview>, ForgeError> {
        let found: Vec<wire::Review> = self.list(repository, &format!("/pulls/{pull}/reviews?per_page=100")).await?;
        Ok(found.into_iter().filter_map(wire::Review::into_review).collect())
    }

    async fn add_review(
        &self,
        repository: &HostRepository,
        pull: u64,
        review: &NewReview,
    ) -> Result<Option<String>, ForgeError> {
        let (path, body) = (format!("/pulls/{pull}/reviews"), review::body(review));
        let written: wire::Review = self.send(repository, Method::POST, &path, Some(&body)).await?.ok()?.json()?;
        Ok(Some(written.into_url()))
    }

    async fn threads(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        of: &[InThread],
    ) -> Result<Vec<HostThread>, ForgeError> {
        match target {
            CommentTarget::Pull(pull) => threads::read(self, repository, pull, of).await,
            // There are no threads of comments on issues.
            CommentTarget::Issue(_) => Ok(Vec::new()),
        }
    }

    async fn issue(&self, repository: &HostRepository, number: u64) -> Result<Option<HostIssue>, ForgeError> {
        let found: changes::Entry = self.get(repository, &format!("/issues/{number}")).await?;
        Ok((!found.is_pull()).then(|| found.into_issue()))
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

    async fn linked_issues(&self, repository: &HostRepository, issue: u64) -> Result<Vec<u64>, ForgeError> {
        self.read_linked(repository, issue).await
    }

    async fn file(
        &self,
        repository: &HostRepository,
        pages: &HostPages,
        of: &CommentRef,
        url: &str,
        limit: usize,
    ) -> Result<CommentFile, ForgeError> {
        self.read_file(repository, pages, of, url, limit).await
    }

    async fn permission(&self, repository: &HostRepository, user: &HostUser) -> Result<Permission, ForgeError> {
        let path = format!("/collaborators/{}/permission", encoded(&user.name));
        let found: wire::Granted = self.get(repository, &path).await?;
        // Another account may have taken the name since.
        if found.user.is_some_and(|known| known.id.0 != user.id) {
            return Ok(Permission::None);
        }
        Ok(match found.permission.as_str() {
            "admin" => Permission::Admin,
            "write" | "maintain" => Permission::Write,
            "read" | "triage" => Permission::Read,
            _ => Permission::None,
        })
    }

    async fn checks(&self, repository: &HostRepository, sha: &Sha) -> Result<Vec<Check>, ForgeError> {
        let path = format!("/commits/{sha}/check-runs?filter=latest&per_page=100");
        let mut checks = match self.pages(repository, &path, |page: CheckRuns| page.check_runs).await {
            Ok(runs) if runs.is_empty() => self.waiting_runs(repository, sha).await?,
            Ok(runs) => runs.into_iter().map(CheckRun::into_check).collect(),
            // A fine-grained token cannot have the permission. It can read the jobs of GitHub Actions.
            Err(ForgeError::Denied(text)) => {
                let jobs = self.jobs(repository, sha).await;
                jobs.map_err(|error| if error.may_pass() { error } else { ForgeError::Denied(text) })?
            }
            Err(error) => return Err(error),
        };
        let path = format!("/commits/{sha}/status?per_page=100");
        let statuses = self.pages(repository, &path, |page: CombinedStatus| page.statuses).await?;
        let others = statuses.into_iter().filter(|status| status.context != STATUS);
        checks.extend(others.map(wire::Status::into_check));
        checks.extend(merge::notes(self, repository, sha).await);
        Ok(checks)
    }

    async fn check_log(
        &self,
        repository: &HostRepository,
        log: &str,
        limit: usize,
    ) -> Result<Option<Vec<u8>>, ForgeError> {
        if let Some(id) = log.strip_prefix(REPORT) {
            return self.report(repository, id, limit).await;
        }
        let known = repository_path(repository)?;
        let authorization = self.authorization(&known).await?;
        self.http.log(&authorization, &format!("/repos/{known}/actions/jobs/{log}/logs"), limit).await
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
