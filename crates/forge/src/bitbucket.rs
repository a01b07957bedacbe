//! Bitbucket Cloud (REST API, version 2.0).

mod changes;
pub(crate) mod hooks;
mod wire;

use std::collections::HashMap;

use async_trait::async_trait;
use http::{Method, StatusCode};
use journeyman_core::code_host::RepositoryPath;
use journeyman_core::ids::Sha;
use journeyman_core::poll::{PollQuery, Polled};
use journeyman_core::ports::{
    Check, CommentPlace, CommentRef, CommitStatus, CreatedPull, Credential, ForgeError, HostRepository, HostUser,
    LineComment, Permission, Reaction, StatusState,
};
use journeyman_core::project::SecretValue;
use journeyman_core::pull::{HostPull, NewPull, PullChange};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use self::wire::{Page, Pipeline, PullRequest, User};
use crate::hosted::{Account, Api, STATUS, Written};
use crate::http::{Answer, Authorization, Http, encoded};
use crate::json::sha;

/// The user name for git with an API token. The email address does not work.
const GIT_USER_OF_API_TOKEN: &str = "x-bitbucket-api-token-auth";

/// The user name for git with an access token.
const GIT_USER_OF_ACCESS_TOKEN: &str = "x-token-auth";

/// The maximum number of pages of a list.
const PAGES: usize = 50;

/// The part of a query that selects pull requests in all states.
const ALL_STATES: &str = "state=OPEN&state=MERGED&state=DECLINED&state=SUPERSEDED";

/// The maximum number of commits of ended pull requests whose full hashes are read at once.
const COMMITS: usize = 10;

/// The maximum number of pipelines of a commit whose steps are read.
const PIPELINES: usize = 5;

/// A client.
pub(crate) struct Bitbucket {
    pub(crate) http: Http,
    pub(crate) token: SecretValue,
    /// The email address of an API token's user; `None` for an access token of a repository, project or workspace.
    pub(crate) email: Option<String>,
}

impl Bitbucket {
    /// Describes the repository at an address of the interface.
    async fn described(&self, address: &str) -> Result<HostRepository, ForgeError> {
        let answer = self.call(Method::GET, address, None).await?.ok()?;
        let found: wire::Repository = answer.json()?;
        let can_push = match wire::can_push(&answer.headers) {
            // An access token has the rights that its scopes name. An API token has at most those of its user.
            granted if granted == Some(false) || self.email.is_none() => granted,
            _ => self.may_push(&found).await,
        };
        Ok(HostRepository {
            id: wire::without_braces(&found.uuid).to_owned(),
            path: found.full_name,
            default_branch: found.mainbranch.map(|branch| branch.name).filter(|name| !name.is_empty()),
            can_push,
            // Repositories cannot be archived.
            is_archived: false,
        })
    }

    /// Returns the user of the token; `None` for an access token, which has no user and cannot have the scope to read it.
    async fn named_user(&self) -> Result<Option<User>, ForgeError> {
        let answer = self.call(Method::GET, "/user", None).await?;
        let is_refused = matches!(answer.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        match answer.ok() {
            Err(_) if is_refused && self.email.is_none() => Ok(None),
            Err(ForgeError::Denied(text)) => Err(ForgeError::Denied(format!(
                "the token may not read its own user; create one with the scope read:user:bitbucket: {text}"
            ))),
            answer => Ok(Some(answer?.json()?)),
        }
    }

    fn authorization(&self) -> Authorization {
        match &self.email {
            Some(email) => Authorization::Basic(email.clone(), self.token.clone()),
            None => Authorization::Bearer(self.token.clone()),
        }
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer, ForgeError> {
        self.http.call(Some(&self.authorization()), method, path, body).await
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ForgeError> {
        self.call(Method::GET, path, None).await?.ok()?.json()
    }

    /// Reads a list page by page. The body of a page has the address of the next one.
    async fn list<T: DeserializeOwned>(&self, path: String) -> Result<Vec<T>, ForgeError> {
        let (mut all, mut next) = (Vec::new(), Some(path));
        for _ in 0..PAGES {
            let Some(path) = next else { break };
            let page: Page<T> = self.get(&path).await?;
            all.extend(page.values);
            next = page.next;
        }
        Ok(all)
    }

    /// Returns whether the user of an API token may push to a repository, if the host says so.
    async fn may_push(&self, repository: &wire::Repository) -> Option<bool> {
        let (workspace, _) = repository.full_name.split_once('/')?;
        let filter = encoded(&format!("repository.full_name={}", quoted(&repository.full_name)));
        let path = format!("/user/workspaces/{}/permissions/repositories?pagelen=100&q={filter}", encoded(workspace));
        let found: Vec<wire::Granted> = self.list(path).await.ok()?;
        let is_it =
            |granted: &&wire::Granted| granted.repository.as_ref().is_some_and(|place| place.uuid == repository.uuid);
        // The list lacks public repositories to which no one gave the user access.
        found.iter().find(is_it).map(|granted| granted.permission() >= Permission::Write)
    }

    /// Returns the user of an access token: the author of a pull request that the service has opened. Other users
    /// cannot be mistaken for it, because they are not of this kind.
    async fn author(&self, repository: &HostRepository) -> Result<HostUser, ForgeError> {
        let path = at(repository, &format!("/pullrequests?{ALL_STATES}&sort=-created_on&pagelen=50"));
        let newest: Page<PullRequest> = self.get(&path).await?;
        let is_ours = |pull: &PullRequest| {
            pull.author.is_app() && !pull.is_from_fork() && pull.description.contains(wire::MARKER)
        };
        match newest.values.into_iter().find(is_ours) {
            Some(pull) => Ok(pull.author.into()),
            None => Err(ForgeError::Denied(format!(
                "Bitbucket does not say which user an access token is, and the token has not opened a pull request of \
                 {} yet; let it open one, or use an API token with the email address of its user",
                repository.path
            ))),
        }
    }

    /// Returns the full hash of a commit; `None` if the repository does not have it.
    async fn full_hash(&self, repository: &HostRepository, hash: &str) -> Result<Option<Sha>, ForgeError> {
        if hash.is_empty() || sha(hash).is_some() {
            return Ok(sha(hash));
        }
        match self.get::<wire::Commit>(&at(repository, &format!("/commit/{}?fields=hash", encoded(hash)))).await {
            Err(ForgeError::NotFound(_)) => Ok(None),
            found => Ok(sha(&found?.hash).filter(|full| full.as_str().starts_with(hash))),
        }
    }

    /// Returns whether a branch has an open pull request to a base. Bitbucket would change it when another one is
    /// opened, and not refuse the other one.
    async fn has_open(&self, repository: &HostRepository, head: &str, base: &str) -> Result<bool, ForgeError> {
        let filter = format!("source.branch.name={} AND destination.branch.name={}", quoted(head), quoted(base));
        let path = format!("/pullrequests?state=OPEN&pagelen=50&q={}", encoded(&filter));
        let found: Vec<PullRequest> = self.list(at(repository, &path)).await?;
        Ok(found.iter().any(|pull| pull.is_open() && pull.is_between(head, base)))
    }

    /// Changes the texts and the draft state of a pull request, and adds reviewers. What a change does not name would
    /// be removed, so all of it is sent.
    async fn put(
        &self,
        repository: &HostRepository,
        number: u64,
        change: &PullChange,
        added: &[User],
    ) -> Result<(), ForgeError> {
        let path = at(repository, &format!("/pullrequests/{number}"));
        let current: PullRequest = self.get(&path).await?;
        let mut reviewers = current.reviewers.clone();
        reviewers
            .extend(added.iter().filter(|user| !current.reviewers.iter().any(|one| one.id() == user.id())).cloned());
        let body = |reviewers: &[User]| {
            json!({
                "title": change.title.as_ref().unwrap_or(&current.title),
                "description": change.body.as_deref().map_or_else(|| current.description.clone(), wire::hidden),
                "draft": change.draft.unwrap_or(current.draft),
                "close_source_branch": current.close_source_branch,
                "reviewers": reviewers.iter().map(|user| json!({"uuid": user.uuid})).collect::<Vec<_>>(),
            })
        };
        let answer = self.call(Method::PUT, &path, Some(&body(&reviewers))).await?;
        let faults = wire::reviewer_faults(&answer);
        if answer.status != StatusCode::BAD_REQUEST || faults.is_empty() {
            answer.ok()?;
            return Ok(());
        }
        // A reviewer who left the workspace, or is the author, prevents the whole change.
        let (refused, accepted): (Vec<User>, Vec<User>) =
            reviewers.into_iter().partition(|user| faults.iter().any(|fault| user.is_meant_by(fault)));
        if refused.is_empty() {
            return Err(answer.error());
        }
        self.call(Method::PUT, &path, Some(&body(&accepted))).await?.ok()?;
        if added.iter().any(|user| refused.iter().any(|one| one.id() == user.id())) {
            return Err(ForgeError::Refused(faults.join("; ")));
        }
        Ok(())
    }

    /// Adds reviewers by their names, or by their UUIDs in braces.
    async fn add_reviewers(
        &self,
        repository: &HostRepository,
        number: u64,
        names: &[String],
    ) -> Result<(), ForgeError> {
        let is_uuid = |name: &String| name.starts_with('{') && name.ends_with('}');
        let known = if names.iter().all(is_uuid) { Vec::new() } else { self.users(repository).await? };
        let (mut added, mut faults) = (Vec::new(), Vec::new());
        for name in names {
            let mut meant: Vec<User> = match is_uuid(name) {
                true => vec![User::of_uuid(name)],
                false => known.iter().filter(|user| user.is_called(name.trim_start_matches('@'))).cloned().collect(),
            };
            meant.sort_by(|one, other| one.id().cmp(other.id()));
            meant.dedup_by(|one, other| one.id() == other.id());
            match (meant.len(), meant.pop()) {
                (1, Some(user)) => added.push(user),
                (0, _) => faults.push(format!("the workspace has no user {name}")),
                _ => faults.push(format!("several users have the name {name}; use a UUID in braces")),
            }
        }
        if !added.is_empty() {
            match self.put(repository, number, &PullChange::default(), &added).await {
                Err(ForgeError::Refused(text)) => faults.push(text),
                changed => changed?,
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(ForgeError::Refused(faults.join("; "))) }
    }

    /// Returns the members of the workspace, or, if the token may not list them, the users of the repository.
    async fn users(&self, repository: &HostRepository) -> Result<Vec<User>, ForgeError> {
        let (workspace, slug) = parts(repository);
        let members = format!("/workspaces/{workspace}/members?pagelen=100");
        let users = format!("/workspaces/{workspace}/permissions/repositories/{slug}?pagelen=100");
        let mut found = self.list::<wire::Member>(members).await;
        if matches!(found, Err(ForgeError::Denied(_) | ForgeError::NotFound(_))) {
            found = self.list::<wire::Member>(users).await;
        }
        match found {
            Err(ForgeError::Denied(text)) => Err(ForgeError::Denied(format!(
                "the token may list neither the members of the workspace (scope read:workspace:bitbucket or account) \
                 nor the users of the repository (scope admin:repository:bitbucket or repository:admin), so reviewers \
                 must be named by their UUIDs in braces: {text}"
            ))),
            found => Ok(found?.into_iter().map(|member| member.user).collect()),
        }
    }

    /// Returns the newest pipeline for each purpose, and the numbers of all pipelines of a commit; nothing if the token
    /// may not read pipelines.
    async fn pipelines(&self, repository: &HostRepository, sha: &Sha) -> Result<(Vec<Pipeline>, Vec<u64>), ForgeError> {
        let path = format!("/pipelines?target.commit.hash={sha}&sort=-created_on&pagelen=100");
        let mut found: Vec<Pipeline> = match self.list(at(repository, &path)).await {
            Err(ForgeError::Denied(_) | ForgeError::NotFound(_)) => Vec::new(),
            found => found?,
        };
        found.retain(|pipeline| pipeline.is_of(sha));
        found.sort_by_key(|pipeline| std::cmp::Reverse(pipeline.build_number));
        let numbers = found.iter().map(|pipeline| pipeline.build_number).collect();
        let mut newest: Vec<Pipeline> = Vec::new();
        for pipeline in found {
            if !newest.iter().any(|known| known.purpose() == pipeline.purpose()) {
                newest.push(pipeline);
            }
        }
        Ok((newest, numbers))
    }
}

/// Returns the path of what is below a repository.
fn at(repository: &HostRepository, below: &str) -> String {
    let (workspace, slug) = parts(repository);
    format!("/repositories/{workspace}/{slug}{below}")
}

/// Returns the workspace and the name of a repository, encoded for a path.
fn parts(repository: &HostRepository) -> (String, String) {
    let (workspace, slug) = repository.path.split_once('/').unwrap_or_default();
    (encoded(workspace), encoded(slug))
}

/// Returns a text as a string of a filter.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns the UUID of a user, encoded for a path.
fn encoded_uuid(uuid: &str) -> String {
    encoded(&format!("{{{uuid}}}"))
}

/// Returns the number of the pull request; Bitbucket has no issues.
fn pull_of(place: CommentPlace) -> Result<u64, ForgeError> {
    match place {
        CommentPlace::Pull(number) => Ok(number),
        CommentPlace::Issue(_) => Err(ForgeError::Refused("Bitbucket Cloud has no issues".to_owned())),
    }
}

#[async_trait]
impl Api for Bitbucket {
    async fn repository(&self, path: &RepositoryPath) -> Result<HostRepository, ForgeError> {
        self.described(&format!("/repositories/{path}")).await
    }

    async fn repository_by_id(&self, path: &RepositoryPath, id: &str) -> Result<HostRepository, ForgeError> {
        let (workspace, _) = path.as_str().split_once('/').unwrap_or_default();
        self.described(&format!("/repositories/{workspace}/{}", encoded_uuid(id))).await
    }

    async fn git_credential(&self, _repository: &RepositoryPath) -> Result<Credential, ForgeError> {
        let username = if self.email.is_some() { GIT_USER_OF_API_TOKEN } else { GIT_USER_OF_ACCESS_TOKEN };
        Ok(Credential { username: username.to_owned(), password: self.token.0.clone() })
    }

    async fn account(&self) -> Result<Account, ForgeError> {
        Ok(self.named_user().await?.map_or(Account::Unnamed, |user| Account::User(user.into())))
    }

    async fn me(&self, repository: &HostRepository) -> Result<HostUser, ForgeError> {
        match self.named_user().await? {
            Some(user) => Ok(user.into()),
            None => self.author(repository).await,
        }
    }

    async fn aliases(&self, me: &HostUser) -> Result<Vec<String>, ForgeError> {
        let user = self.named_user().await?.unwrap_or_else(|| User::of_uuid(&me.id));
        Ok(user.aliases())
    }

    async fn find_pulls(&self, repository: &HostRepository, head: &str) -> Result<Vec<HostPull>, ForgeError> {
        let filter = encoded(&format!("source.branch.name={}", quoted(head)));
        let path = format!("/pullrequests?{ALL_STATES}&q={filter}&sort=-updated_on&pagelen=50");
        let found: Vec<PullRequest> = self.list(at(repository, &path)).await?;
        let mut known: HashMap<String, Option<Sha>> = HashMap::new();
        let mut pulls = Vec::with_capacity(found.len());
        for pull in found {
            let short = pull.source.commit.hash.clone();
            let is_needed = !pull.is_open() && !pull.is_from_fork() && sha(&short).is_none();
            if is_needed && known.len() < COMMITS && !known.contains_key(&short) {
                known.insert(short.clone(), self.full_hash(repository, &short).await?);
            }
            let full = if is_needed { known.get(&short).cloned().flatten() } else { sha(&short) };
            pulls.push(pull.into_pull(full));
        }
        Ok(pulls)
    }

    async fn create_pull(
        &self,
        repository: &HostRepository,
        new: &NewPull,
        base: &str,
    ) -> Result<CreatedPull, ForgeError> {
        if self.has_open(repository, &new.head, base).await? {
            return Ok(CreatedPull::AlreadyExists);
        }
        let body = json!({
            "title": new.title,
            "description": wire::hidden(&new.body),
            "source": {"branch": {"name": new.head}},
            "destination": {"branch": {"name": base}},
            "draft": new.draft,
        });
        let answer = self.call(Method::POST, &at(repository, "/pullrequests"), Some(&body)).await?;
        let text = String::from_utf8_lossy(&answer.body);
        if answer.status == StatusCode::BAD_REQUEST && text.contains("no changes to be pulled") {
            return Ok(CreatedPull::NoChanges);
        }
        Ok(CreatedPull::Created(answer.ok()?.json::<PullRequest>()?.into_pull(None)))
    }

    async fn pull(&self, repository: &HostRepository, number: u64) -> Result<Option<HostPull>, ForgeError> {
        match self.get::<PullRequest>(&at(repository, &format!("/pullrequests/{number}"))).await {
            Err(ForgeError::NotFound(_)) => Ok(None),
            found => {
                let found = found?;
                let full = self.full_hash(repository, &found.source.commit.hash).await?;
                Ok(Some(found.into_pull(full)))
            }
        }
    }

    async fn update_pull(
        &self,
        repository: &HostRepository,
        number: u64,
        change: &PullChange,
    ) -> Result<(), ForgeError> {
        if change.title.is_some() || change.body.is_some() || change.draft.is_some() {
            self.put(repository, number, change, &[]).await?;
        }
        let mut refused = Vec::new();
        if !change.reviewers.is_empty() {
            match self.add_reviewers(repository, number, &change.reviewers).await {
                Err(ForgeError::Refused(text)) => refused.push(text),
                added => added?,
            }
        }
        for (list, text) in [
            (&change.labels, "Bitbucket Cloud has no labels on pull requests"),
            (&change.assignees, "Bitbucket Cloud has no assignees of pull requests"),
        ] {
            if !list.is_empty() {
                refused.push(text.to_owned());
            }
        }
        if refused.is_empty() { Ok(()) } else { Err(ForgeError::Refused(refused.join("; "))) }
    }

    async fn comments(&self, repository: &HostRepository, place: CommentPlace) -> Result<Vec<Written>, ForgeError> {
        let path = format!("/pullrequests/{}/comments?sort=created_on&pagelen=100", pull_of(place)?);
        let found: Vec<wire::Comment> = self.list(at(repository, &path)).await?;
        let written = found.into_iter().filter(|comment| !comment.deleted);
        Ok(written.map(wire::Comment::into_written).collect())
    }

    async fn add_comment(
        &self,
        repository: &HostRepository,
        place: CommentPlace,
        text: &str,
    ) -> Result<String, ForgeError> {
        let path = at(repository, &format!("/pullrequests/{}/comments", pull_of(place)?));
        let body = json!({"content": {"raw": wire::hidden(text)}});
        let written: wire::Comment = self.call(Method::POST, &path, Some(&body)).await?.ok()?.json()?;
        Ok(written.into_url())
    }

    async fn react(
        &self,
        _repository: &HostRepository,
        _comment: &CommentRef,
        _reaction: Reaction,
    ) -> Result<(), ForgeError> {
        // The interface has no reactions.
        Ok(())
    }

    async fn review(
        &self,
        _repository: &HostRepository,
        _pull: u64,
        _review: &str,
    ) -> Result<Vec<LineComment>, ForgeError> {
        // A review has no comments of its own: each comment is separate.
        Ok(Vec::new())
    }

    async fn poll(&self, repository: &HostRepository, query: &PollQuery) -> Result<Polled, ForgeError> {
        changes::poll(self, repository, query).await
    }

    async fn permission(&self, repository: &HostRepository, user: &HostUser) -> Result<Permission, ForgeError> {
        let (workspace, slug) = parts(repository);
        let filter = encoded(&format!("user.uuid={}", quoted(&format!("{{{}}}", user.id))));
        let path = format!("/workspaces/{workspace}/permissions/repositories/{slug}?pagelen=100&q={filter}");
        let text = match self.list::<wire::Granted>(path).await {
            Err(ForgeError::Denied(text)) => text,
            found => {
                let found = found?.into_iter().filter(|granted| granted.user.id() == user.id);
                return Ok(found.map(|granted| granted.permission()).max().unwrap_or(Permission::None));
            }
        };
        // Who is not a member of the workspace has no permission. What members may do, only administrators can read.
        let path = format!("/workspaces/{workspace}/members/{}?fields=user.uuid", encoded_uuid(&user.id));
        match self.call(Method::GET, &path, None).await?.ok() {
            Err(ForgeError::NotFound(_)) => Ok(Permission::None),
            Ok(_) | Err(ForgeError::Denied(_)) => Err(ForgeError::Denied(format!(
                "only an administrator of {} can read the permissions of its users; make the user of the token one and \
                 give the token the scope admin:repository:bitbucket, or give an access token the scope \
                 repository:admin: {text}",
                repository.path
            ))),
            Err(error) => Err(error),
        }
    }

    async fn checks(&self, repository: &HostRepository, sha: &Sha) -> Result<Vec<Check>, ForgeError> {
        let path = format!("/commit/{sha}/statuses?sort=-updated_on&pagelen=100");
        let mut statuses: Vec<wire::Status> = self.list(at(repository, &path)).await?;
        statuses.retain(|status| status.key != STATUS);
        // Each pipeline has a status, which its steps replace.
        let has_pipelines = statuses.iter().any(|status| status.pipeline().is_some());
        let (newest, numbers) =
            if has_pipelines { self.pipelines(repository, sha).await? } else { (Vec::new(), Vec::new()) };
        let mut checks = Vec::new();
        for (place, pipeline) in newest.iter().enumerate() {
            let is_it = |status: &wire::Status| status.pipeline() == Some(pipeline.build_number);
            let status = statuses.iter().position(is_it).map(|found| statuses.remove(found));
            if place >= PIPELINES {
                checks.extend(status.map(wire::Status::into_check));
                continue;
            }
            let url = status.and_then(|status| status.url);
            let path = format!("/pipelines/{}/steps?pagelen=100", encoded(&pipeline.uuid));
            let steps: Vec<wire::Step> = self.list(at(repository, &path)).await?;
            checks.extend(steps.into_iter().map(|step| step.into_check(pipeline, url.clone())));
        }
        // Later pipelines have replaced the others.
        statuses.retain(|status| status.pipeline().is_none_or(|number| !numbers.contains(&number)));
        checks.extend(statuses.into_iter().map(wire::Status::into_check));
        Ok(checks)
    }

    async fn check_log(
        &self,
        repository: &HostRepository,
        log: &str,
        limit: usize,
    ) -> Result<Option<Vec<u8>>, ForgeError> {
        let Some((pipeline, step)) = log.split_once('/') else { return Ok(None) };
        let below = format!("/pipelines/{}/steps/{}/log", encoded_uuid(pipeline), encoded_uuid(step));
        self.http.log(&self.authorization(), &at(repository, &below), limit).await
    }

    async fn set_status(
        &self,
        repository: &HostRepository,
        sha: &Sha,
        status: &CommitStatus,
    ) -> Result<(), ForgeError> {
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
        });
        let path = at(repository, &format!("/commit/{sha}/statuses/build"));
        self.call(Method::POST, &path, Some(&body)).await?.ok()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
