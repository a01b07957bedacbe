//! GitLab: gitlab.com and self-managed (REST API, version 4).

mod changes;
mod checks;
mod conversation;
pub(crate) mod hooks;
mod merge;
mod position;
mod reports;
mod review;
mod threads;
mod wire;

use std::time::Duration;

use async_trait::async_trait;
use http::{Method, StatusCode};
use journeyman_core::checks::{Check, CommitStatus, StatusState};
use journeyman_core::code_host::expiry::Expiry;
use journeyman_core::code_host::{HostRepository, RepositoryPath};
use journeyman_core::conversation::{
    CommentRef, CommentTarget, Conversation, HostThread, InThread, LineComment, Permission, Reaction, ReviewComment,
};
use journeyman_core::hook::{CommentKind, HostIssue, HostUser};
use journeyman_core::ids::Sha;
use journeyman_core::inbox::files::HostPages;
use journeyman_core::poll::{PollQuery, Polled};
use journeyman_core::ports::{CommentFile, CreatedPull, Credential, ForgeError};
use journeyman_core::pull::{HostPull, NewPull, PullChange};
use journeyman_core::secret::SecretValue;
use journeyman_core::time::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use self::wire::{Member, MergeRequest, Note, Noteable, OpenedRepository, Pipeline, Project, User, titled};
use crate::hosted::{Account, Api, STATUS, Written};
use crate::http::{Answer, Authorization, Http, encoded};

/// The user name for git. OAuth tokens require it, and other tokens accept every name.
const GIT_USER: &str = "oauth2";

/// The delays before the service looks again for a branch that was just pushed, because GitLab sees it late.
const BRANCH_DELAYS: [Duration; 4] =
    [Duration::from_millis(200), Duration::from_millis(400), Duration::from_millis(800), Duration::from_secs(1)];

/// The maximum length of the description and of the URL of a commit status, in characters.
const STATUS_CHARS: usize = 255;

/// A client of GitLab.
pub(crate) struct Gitlab {
    pub(crate) http: Http,
    pub(crate) token: SecretValue,
}

impl Gitlab {
    /// Describes the repository with this path or ID.
    async fn described(&self, name: &str) -> Result<HostRepository, ForgeError> {
        let path = format!("/projects/{}", encoded(name));
        let found: Project =
            self.http.call(Some(&self.authorization()), Method::GET, &path, None).await?.ok()?.json()?;
        Ok(HostRepository {
            can_push: found.can_push(),
            ci_paths: found.ci_paths(),
            id: found.id.0,
            path: found.path_with_namespace,
            default_branch: found.default_branch.filter(|branch| !branch.is_empty()),
            is_archived: found.archived,
        })
    }

    async fn user(&self) -> Result<HostUser, ForgeError> {
        let answer = self.http.call(Some(&self.authorization()), Method::GET, "/user", None).await?;
        Ok(answer.ok()?.json::<User>()?.into())
    }

    /// Returns whether a user is a bot or a service account. Lists of members and webhooks do not say so, but `GET
    /// /users/:id` does (field `bot`, for the user types in `BOT_USER_TYPES` of GitLab's source).
    async fn is_bot(&self, id: &str) -> Result<bool, ForgeError> {
        let path = format!("/users/{}", encoded(id));
        let answer = self.http.call(Some(&self.authorization()), Method::GET, &path, None).await?;
        Ok(hooks::host_user(answer.ok()?.json()?).is_bot)
    }

    fn authorization(&self) -> Authorization {
        Authorization::PrivateToken(self.token.clone())
    }

    /// Sends a request about a repository; `path` is below the repository. The ID stays valid after a rename, when
    /// GitLab refuses changes at the earlier path.
    async fn send(
        &self,
        repository: &HostRepository,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, ForgeError> {
        let path = format!("/projects/{}{path}", encoded(&repository.id));
        self.http.call(Some(&self.authorization()), method, &path, body).await
    }

    async fn get<T: DeserializeOwned>(&self, repository: &HostRepository, path: &str) -> Result<T, ForgeError> {
        self.send(repository, Method::GET, path, None).await?.ok()?.json()
    }

    async fn list<T: DeserializeOwned>(&self, repository: &HostRepository, path: &str) -> Result<Vec<T>, ForgeError> {
        let path = format!("/projects/{}{path}", encoded(&repository.id));
        self.http.list(Some(&self.authorization()), &path, |_| false).await
    }

    /// Returns the notes on a merge request or an issue. The newest is the first, so that one that is deleted meanwhile
    /// hides no other one.
    async fn notes(&self, repository: &HostRepository, path: &str) -> Result<Vec<Note>, ForgeError> {
        self.list(repository, &format!("{path}/notes?order_by=created_at&sort=desc&per_page=100")).await
    }

    /// Waits until GitLab sees a branch that was just pushed.
    async fn await_branch(&self, repository: &HostRepository, branch: &str) -> Result<(), ForgeError> {
        let path = format!("/repository/branches/{}", encoded(branch));
        let mut delays = BRANCH_DELAYS.into_iter();
        loop {
            let answer = self.send(repository, Method::GET, &path, None).await?;
            let is_missing = answer.status == StatusCode::NOT_FOUND && answer.message().contains("Branch");
            if !is_missing {
                return answer.ok().map(drop);
            }
            match delays.next() {
                Some(delay) => tokio::time::sleep(delay).await,
                None => {
                    let text = format!("the branch {branch} does not exist in {}; push it again", repository.path);
                    return Err(ForgeError::Refused(text));
                }
            }
        }
    }

    /// Returns whether a branch has commits that its base does not have. GitLab opens merge requests without commits.
    async fn has_commits(&self, repository: &HostRepository, base: &str, head: &str) -> Result<bool, ForgeError> {
        let path = format!("/repository/compare?from={}&to={}", encoded(base), encoded(head));
        match self.get::<OpenedRepository>(repository, &path).await {
            Err(ForgeError::NotFound(text)) => Err(ForgeError::Refused(format!(
                "the branch {base} does not exist in {}; set pullRequest.base to an existing branch: {text}",
                repository.path
            ))),
            compared => Ok(!compared?.commits.is_empty()),
        }
    }

    /// Finds the ID of a user; `None` if there is no such user.
    async fn user_id(&self, name: &str) -> Result<Option<u64>, ForgeError> {
        let path = format!("/users?username={}", encoded(name));
        let answer = self.http.call(Some(&self.authorization()), Method::GET, &path, None).await?;
        let found: Vec<User> = answer.ok()?.json()?;
        let user = found.into_iter().find(|user| user.name().eq_ignore_ascii_case(name));
        Ok(user.and_then(|user| id_of(&user)))
    }

    /// Finds the reviewers and assignees of a change. Adds those that do not exist to `problems`.
    async fn people(&self, change: &PullChange, problems: &mut Vec<String>) -> Result<Vec<RequestedUser>, ForgeError> {
        let mut people = Vec::new();
        for (role, names) in [(Role::Reviewer, &change.reviewers), (Role::Assignee, &change.assignees)] {
            for name in names {
                if name.contains('/') {
                    problems.push(format!("{name}: GitLab has no groups as reviewers and assignees; name users"));
                    continue;
                }
                match self.user_id(name).await? {
                    Some(id) => people.push(RequestedUser { role, name: name.clone(), id }),
                    None => problems.push(format!("{name}: there is no user with this name")),
                }
            }
        }
        Ok(people)
    }

    /// Returns the pipeline for the status of the service, and waits a little for it if the project has pipelines: GitLab
    /// makes that of a commit some time after the push.
    async fn awaited_pipeline(&self, repository: &HostRepository, sha: &Sha) -> Result<Option<Pipeline>, ForgeError> {
        let mut delays = BRANCH_DELAYS.into_iter();
        loop {
            if let Some(found) = self.pipeline_for_status(repository, sha).await? {
                return Ok(Some(found));
            }
            match delays.next() {
                Some(delay) if self.has_pipelines(repository).await? => tokio::time::sleep(delay).await,
                _ => return Ok(None),
            }
        }
    }

    /// Returns the address below which the CI jobs of a repository have their pages.
    fn jobs_page(&self, repository: &HostRepository) -> String {
        let pages = self.http.base.strip_suffix("/api/v4").unwrap_or(&self.http.base);
        format!("{pages}/{}/-/jobs", repository.path)
    }
}

/// The task that a user is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Reviewer,
    Assignee,
}

impl Role {
    /// Returns the field of a request, which replaces all users with the role.
    const fn field(self) -> &'static str {
        match self {
            Self::Reviewer => "reviewer_ids",
            Self::Assignee => "assignee_ids",
        }
    }

    /// Returns the IDs of the users with the role; `None` if the answer does not say.
    fn ids(self, pull: &MergeRequest) -> Option<Vec<u64>> {
        let users = match self {
            Self::Reviewer => &pull.reviewers,
            Self::Assignee => &pull.assignees,
        };
        users.as_ref().map(|users| users.iter().filter_map(id_of).collect())
    }
}

/// A user whom a merge request asks for something.
struct RequestedUser {
    role: Role,
    name: String,
    id: u64,
}

fn id_of(user: &User) -> Option<u64> {
    user.id.0.parse().ok()
}

/// Returns the fields of a merge request to change. Keeps the reviewers and assignees that it has.
fn changed_fields(current: &MergeRequest, change: &PullChange, people: &[RequestedUser]) -> Map<String, Value> {
    let mut fields = Map::new();
    let draft = change.draft.unwrap_or(current.draft);
    let title = titled(change.title.as_deref().unwrap_or(&current.title), draft);
    if (change.title.is_some() || draft != current.draft) && title != current.title {
        fields.insert("title".to_owned(), json!(title));
    }
    if let Some(body) = &change.body {
        fields.insert("description".to_owned(), json!(body));
    }
    if !change.labels.is_empty() {
        fields.insert("add_labels".to_owned(), json!(change.labels.join(",")));
    }
    for role in [Role::Reviewer, Role::Assignee] {
        let mut ids = role.ids(current).unwrap_or_default();
        let before = ids.len();
        for person in people.iter().filter(|person| person.role == role) {
            if !ids.contains(&person.id) {
                ids.push(person.id);
            }
        }
        if ids.len() > before {
            fields.insert(role.field().to_owned(), json!(ids));
        }
    }
    fields
}

/// Finds the people whom GitLab left out without an error.
fn left_out(people: &[RequestedUser], now: &MergeRequest, problems: &mut Vec<String>) {
    for person in people {
        if person.role.ids(now).is_some_and(|ids| !ids.contains(&person.id)) {
            problems.push(format!(
                "{}: GitLab left out this user; check that the user may see the project, and that the plan of GitLab \
                 permits several reviewers and assignees",
                person.name
            ));
        }
    }
}

/// Returns the path of a pull request or an issue, below the repository.
fn path_of(target: CommentTarget) -> String {
    match target {
        CommentTarget::Pull(number) => format!("/merge_requests/{number}"),
        CommentTarget::Issue(number) => format!("/issues/{number}"),
    }
}

/// Returns whether GitLab refused a merge request because it does not see its branch yet. The texts differ between
/// versions.
fn lacks_branch(answer: &Answer) -> bool {
    let text = answer.message().to_lowercase().replace('_', " ");
    answer.status.is_client_error() && text.contains("source branch") && text.contains("does not exist")
}

#[async_trait]
impl Api for Gitlab {
    async fn repository(&self, path: &RepositoryPath) -> Result<HostRepository, ForgeError> {
        self.described(path.as_str()).await
    }

    async fn repository_by_id(&self, _: &RepositoryPath, id: &str) -> Result<HostRepository, ForgeError> {
        self.described(id).await
    }

    async fn git_credential(&self, _: &RepositoryPath) -> Result<Credential, ForgeError> {
        Ok(Credential { username: GIT_USER.to_owned(), password: self.token.0.clone() })
    }

    async fn account(&self) -> Result<Account, ForgeError> {
        self.user().await.map(Account::User)
    }

    async fn expiry(&self) -> Result<Expiry, ForgeError> {
        let path = "/personal_access_tokens/self";
        let answer = self.http.call(Some(&self.authorization()), Method::GET, path, None).await?;
        match answer.ok() {
            Ok(answer) => Ok(answer.json::<wire::TokenEnd>()?.into_expiry()),
            // Tokens of OAuth, and versions before 15.5.
            Err(ForgeError::NotFound(_) | ForgeError::Denied(_) | ForgeError::Refused(_)) => Ok(Expiry::Unknown),
            Err(error) => Err(error),
        }
    }

    async fn me(&self, _: &HostRepository) -> Result<HostUser, ForgeError> {
        self.user().await
    }

    async fn find_pulls(&self, repository: &HostRepository, head: &str) -> Result<Vec<HostPull>, ForgeError> {
        let path = format!("/merge_requests?state=all&per_page=100&source_branch={}", encoded(head));
        let found: Vec<MergeRequest> = self.list(repository, &path).await?;
        Ok(found.into_iter().map(MergeRequest::into_pull).collect())
    }

    async fn create_pull(
        &self,
        repository: &HostRepository,
        new: &NewPull,
        base: &str,
    ) -> Result<CreatedPull, ForgeError> {
        self.await_branch(repository, &new.head).await?;
        if !self.has_commits(repository, base, &new.head).await? {
            return Ok(CreatedPull::NoChanges);
        }
        let body = json!({
            "title": titled(&new.title, new.draft),
            "description": new.body,
            "source_branch": new.head,
            "target_branch": base,
        });
        let mut delays = BRANCH_DELAYS.into_iter();
        loop {
            let answer = self.send(repository, Method::POST, "/merge_requests", Some(&body)).await?;
            if answer.status == StatusCode::CONFLICT {
                return Ok(CreatedPull::AlreadyExists);
            }
            if !lacks_branch(&answer) {
                return Ok(CreatedPull::Created(answer.ok()?.json::<MergeRequest>()?.into_pull()));
            }
            // The branch exists, but GitLab updates the list of branches that it checks here later. Nothing was opened.
            match delays.next() {
                Some(delay) => tokio::time::sleep(delay).await,
                None => return Err(ForgeError::Unclear(answer.described())),
            }
        }
    }

    async fn pull(&self, repository: &HostRepository, number: u64) -> Result<Option<HostPull>, ForgeError> {
        match self.get::<MergeRequest>(repository, &path_of(CommentTarget::Pull(number))).await {
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
        let path = path_of(CommentTarget::Pull(number));
        let current: MergeRequest = self.get(repository, &path).await?;
        let mut problems = Vec::new();
        let people = self.people(change, &mut problems).await?;
        let fields = changed_fields(&current, change, &people);
        if !fields.is_empty() {
            let now = self.send(repository, Method::PUT, &path, Some(&fields.into())).await?.ok()?.json()?;
            left_out(&people, &now, &mut problems);
        }
        if problems.is_empty() { Ok(()) } else { Err(ForgeError::Refused(problems.join("; "))) }
    }

    async fn auto_merge(&self, repository: &HostRepository, number: u64) -> Result<(), ForgeError> {
        self.request_merge(repository, number).await
    }

    async fn comments(&self, repository: &HostRepository, target: CommentTarget) -> Result<Vec<Written>, ForgeError> {
        let path = path_of(target);
        let noteable: Noteable = self.get(repository, &path).await?;
        let found = self.notes(repository, &path).await?;
        let by_people = found.into_iter().filter(|note| !note.system);
        let written = |note: Note| Written {
            url: noteable.url_of(&note),
            id: note.id.0,
            author: note.author.id.0,
            body: note.body,
        };
        Ok(by_people.map(written).collect())
    }

    async fn add_comment(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        text: &str,
    ) -> Result<String, ForgeError> {
        let path = path_of(target);
        // The answer to the second request lacks the address.
        let noteable: Noteable = self.get(repository, &path).await?;
        let body = json!({"body": text});
        let answer = self.send(repository, Method::POST, &format!("{path}/notes"), Some(&body)).await?;
        Ok(noteable.url_of(&answer.ok()?.json()?))
    }

    fn is_busy(&self) -> bool {
        self.http.is_busy()
    }

    async fn update_comment(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        comment: &str,
        text: &str,
    ) -> Result<(), ForgeError> {
        let path = format!("{}/notes/{}", path_of(target), encoded(comment));
        self.send(repository, Method::PUT, &path, Some(&json!({"body": text}))).await?.ok().map(drop)
    }

    async fn add_reply(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        (thread, _): (&HostThread, &InThread),
        text: &str,
    ) -> Result<String, ForgeError> {
        let path = path_of(target);
        let noteable: Noteable = self.get(repository, &path).await?;
        let notes = format!("{path}/discussions/{}/notes", encoded(&thread.id));
        let answer = self.send(repository, Method::POST, &notes, Some(&json!({"body": text}))).await?;
        Ok(noteable.url_of(&answer.ok()?.json()?))
    }

    async fn resolve(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        threads: &[HostThread],
    ) -> Result<(), ForgeError> {
        // Only the threads of merge requests can be resolved.
        let CommentTarget::Pull(_) = target else { return Ok(()) };
        for thread in threads {
            let path = format!("{}/discussions/{}", path_of(target), encoded(&thread.id));
            self.send(repository, Method::PUT, &path, Some(&json!({"resolved": true}))).await?.ok()?;
        }
        Ok(())
    }

    async fn react(
        &self,
        repository: &HostRepository,
        comment: &CommentRef,
        reaction: Reaction,
    ) -> Result<(), ForgeError> {
        let target = match comment.kind {
            CommentKind::Pull | CommentKind::Line => CommentTarget::Pull(comment.number),
            CommentKind::Issue => CommentTarget::Issue(comment.number),
            // GitLab has no reviews.
            CommentKind::Review => return Ok(()),
        };
        let of_note = if comment.id.is_empty() { String::new() } else { format!("/notes/{}", encoded(&comment.id)) };
        let name = match reaction {
            Reaction::Seen => "eyes",
            Reaction::Done => "rocket",
            Reaction::Failed => "confused",
        };
        let (path, body) = (format!("{}{of_note}/award_emoji", path_of(target)), json!({"name": name}));
        let answer = self.send(repository, Method::POST, &path, Some(&body)).await?;
        // GitLab answers a repeated reaction with status 404.
        if answer.status.is_client_error() && answer.message().contains("already been taken") {
            return Ok(());
        }
        answer.ok().map(drop)
    }

    async fn review(&self, _: &HostRepository, _: u64, _: &str) -> Result<Vec<LineComment>, ForgeError> {
        // GitLab publishes each comment of a review as its own note.
        Ok(Vec::new())
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
        threads::read(self, repository, target, of).await
    }

    async fn issue(&self, repository: &HostRepository, number: u64) -> Result<Option<HostIssue>, ForgeError> {
        let found: changes::Issue = self.get(repository, &format!("/issues/{number}")).await?;
        Ok(Some(found.into_issue()))
    }

    async fn issue_editors(
        &self,
        repository: &HostRepository,
        issue: u64,
    ) -> Result<Option<Vec<HostUser>>, ForgeError> {
        let notes = self.notes(repository, &path_of(CommentTarget::Issue(issue))).await?;
        Ok(Some(notes.into_iter().filter(Note::is_edit).map(|note| note.author.into()).collect()))
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
        _: &CommentRef,
        url: &str,
        limit: usize,
    ) -> Result<CommentFile, ForgeError> {
        self.read_file(repository, pages, url, limit).await
    }

    async fn permission(&self, repository: &HostRepository, user: &HostUser) -> Result<Permission, ForgeError> {
        let member: Member = self.get(repository, &format!("/members/all/{}", encoded(&user.id))).await?;
        let permission = if member.id.0 == user.id { member.permission() } else { Permission::None };
        if permission >= Permission::Write && self.is_bot(&user.id).await? {
            return Err(ForgeError::Refused(format!(
                "the user with the ID {} is a bot or a service account of GitLab; name this ID in trusted-bots of the code \
                 host if its comments count",
                user.id
            )));
        }
        Ok(permission)
    }

    async fn checks(&self, repository: &HostRepository, sha: &Sha) -> Result<Vec<Check>, ForgeError> {
        self.checks_of(repository, sha).await
    }

    async fn check_log(
        &self,
        repository: &HostRepository,
        log: &str,
        limit: usize,
    ) -> Result<Option<Vec<u8>>, ForgeError> {
        if let Some(report) = reports::read(self, repository, log, limit).await {
            return report;
        }
        let path = format!("/projects/{}/jobs/{}/trace", encoded(&repository.id), encoded(log));
        let end = self.http.log(&self.authorization(), &path, limit).await?;
        // A job without a log has an empty one.
        Ok(end.filter(|end| !end.is_empty()))
    }

    async fn set_status(
        &self,
        repository: &HostRepository,
        sha: &Sha,
        status: &CommitStatus,
    ) -> Result<(), ForgeError> {
        // A status that the service begins and never ends would leave the pipeline running, and a merge waiting.
        if status.state == StatusState::Pending {
            return Ok(());
        }
        let Some(pipeline) = self.awaited_pipeline(repository, sha).await? else {
            tracing::info!(%sha, repository = repository.path, "no status is set: GitLab has no pipeline for the commit");
            return Ok(());
        };
        let state = match status.state {
            // An older version of the service has made this pipeline. Success of its status alone could permit a merge.
            _ if pipeline.is_external() => "canceled",
            StatusState::Failure => "failed",
            StatusState::Success | StatusState::Pending => "success",
        };
        let description: String = status.description.chars().take(STATUS_CHARS).collect();
        let mut body = json!({
            "state": state,
            "name": STATUS,
            "description": description,
            // Without both, GitLab chooses a pipeline, or makes one (`Ci::CreateCommitStatusService` in its source).
            "ref": pipeline.reference,
            "pipeline_id": pipeline.id,
        });
        // A part of a URL would lead nowhere.
        if status.url.chars().count() <= STATUS_CHARS {
            body["target_url"] = json!(status.url);
        }
        let answer = self.send(repository, Method::POST, &format!("/statuses/{sha}"), Some(&body)).await?;
        match answer.status {
            StatusCode::BAD_REQUEST if answer.message().contains("Cannot transition status") => Ok(()),
            // Another status of the commit is being set.
            StatusCode::CONFLICT => Err(ForgeError::Unclear(answer.described())),
            // The pipeline was deleted, or archived, so that it accepts no statuses.
            StatusCode::NOT_FOUND if answer.message().contains("Pipeline") => Ok(()),
            _ => answer.ok().map(drop),
        }
    }
}
