//! The requests that make up the operations of [`Api`](crate::hosted::Api).

use http::{Method, StatusCode};
use journeyman_core::code_host::HostRepository;
use journeyman_core::conversation::Permission;
use journeyman_core::hook::HostUser;
use journeyman_core::ids::Sha;
use journeyman_core::ports::ForgeError;
use journeyman_core::pull::PullChange;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::wire::{Page, Pipeline, PullRequest, User};
use super::{ALL_STATES, Bitbucket, PAGES, at, parts, quoted, wire};
use crate::http::{Answer, Authorization, encoded};
use crate::json::sha;

impl Bitbucket {
    /// Describes the repository at an address of the interface.
    pub(super) async fn described(&self, address: &str) -> Result<HostRepository, ForgeError> {
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
            ci_paths: Vec::new(),
        })
    }

    /// Returns the user of the token; `None` for an access token, which has no user and cannot have the scope to read it.
    pub(super) async fn named_user(&self) -> Result<Option<User>, ForgeError> {
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

    pub(super) fn authorization(&self) -> Authorization {
        match &self.email {
            Some(email) => Authorization::Basic(email.clone(), self.token.clone()),
            None => Authorization::Bearer(self.token.clone()),
        }
    }

    pub(super) async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer, ForgeError> {
        self.http.call(Some(&self.authorization()), method, path, body).await
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ForgeError> {
        self.call(Method::GET, path, None).await?.ok()?.json()
    }

    /// Reads a list page by page. The body of a page has the address of the next one.
    pub(super) async fn list<T: DeserializeOwned>(&self, path: String) -> Result<Vec<T>, ForgeError> {
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
    pub(super) async fn may_push(&self, repository: &wire::Repository) -> Option<bool> {
        let (workspace, _) = repository.full_name.split_once('/')?;
        let filter = encoded(&format!("repository.full_name={}", quoted(&repository.full_name)));
        let path = format!("/user/workspaces/{}/permissions/repositories?pagelen=100&q={filter}", encoded(workspace));
        let found: Vec<wire::Granted> = self.list(path).await.ok()?;
        let is_it =
            |granted: &&wire::Granted| granted.repository.as_ref().is_some_and(|known| known.uuid == repository.uuid);
        // The list lacks public repositories to which no one gave the user access.
        found.iter().find(is_it).map(|granted| granted.permission() >= Permission::Write)
    }

    /// Returns the user of an access token: the author of a pull request that the service has opened. Other users
    /// cannot be mistaken for it, because they are not of this kind.
    pub(super) async fn author(&self, repository: &HostRepository) -> Result<HostUser, ForgeError> {
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
    pub(super) async fn full_hash(&self, repository: &HostRepository, hash: &str) -> Result<Option<Sha>, ForgeError> {
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
    pub(super) async fn has_open(
        &self,
        repository: &HostRepository,
        head: &str,
        base: &str,
    ) -> Result<bool, ForgeError> {
        let filter = format!("source.branch.name={} AND destination.branch.name={}", quoted(head), quoted(base));
        let path = format!("/pullrequests?state=OPEN&pagelen=50&q={}", encoded(&filter));
        let found: Vec<PullRequest> = self.list(at(repository, &path)).await?;
        Ok(found.iter().any(|pull| pull.is_open() && pull.is_between(head, base)))
    }

    /// Changes the texts and the draft state of a pull request, and adds reviewers. What a change does not name would
    /// be removed, so all of it is sent.
    pub(super) async fn put(
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
            self.put_without_unknown(&path, &current.reviewers, &body, repository).await?;
            return if added.is_empty() { Ok(()) } else { Err(answer.error()) };
        }
        self.call(Method::PUT, &path, Some(&body(&accepted))).await?.ok()?;
        if added.iter().any(|user| refused.iter().any(|one| one.id() == user.id())) {
            return Err(ForgeError::Refused(faults.join("; ")));
        }
        Ok(())
    }

    /// Repeats a change that was refused because of a reviewer whom the answer does not name, such as one whose account
    /// was closed: with the reviewers that the pull request had, then with those who are members of the workspace.
    async fn put_without_unknown(
        &self,
        path: &str,
        before: &[User],
        body: &impl Fn(&[User]) -> Value,
        repository: &HostRepository,
    ) -> Result<(), ForgeError> {
        let again = self.call(Method::PUT, path, Some(&body(before))).await?;
        if again.status != StatusCode::BAD_REQUEST {
            again.ok()?;
            return Ok(());
        }
        let members = self.users(repository).await?;
        let is_member = |user: &&User| members.iter().any(|member| member.id() == user.id());
        let kept: Vec<User> = before.iter().filter(is_member).cloned().collect();
        self.call(Method::PUT, path, Some(&body(&kept))).await?.ok()?;
        Ok(())
    }

    /// Adds reviewers by their names, or by their UUIDs in braces.
    pub(super) async fn add_reviewers(
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
        match self.put(repository, number, &PullChange::default(), &added).await {
            // One of several may be the reason.
            Err(ForgeError::Refused(_)) if added.len() > 1 => {
                for user in added {
                    match self.put(repository, number, &PullChange::default(), &[user]).await {
                        Err(ForgeError::Refused(text)) => faults.push(text),
                        changed => changed?,
                    }
                }
            }
            Err(ForgeError::Refused(text)) => faults.push(text),
            changed => changed?,
        }
        if faults.is_empty() { Ok(()) } else { Err(ForgeError::Refused(faults.join("; "))) }
    }

    /// Returns the members of the workspace, or, if the token may not list them, the users of the repository.
    pub(super) async fn users(&self, repository: &HostRepository) -> Result<Vec<User>, ForgeError> {
        let (workspace, slug) = parts(repository);
        let members = format!("/workspaces/{workspace}/members?pagelen=100");
        let users = format!("/workspaces/{workspace}/permissions/repositories/{slug}?pagelen=100");
        let mut found = self.list::<wire::Member>(members).await;
        // Status 401 can mean that the token may not read the workspace.
        if matches!(found, Err(ForgeError::Denied(_) | ForgeError::NotFound(_) | ForgeError::Credential(_))) {
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
    pub(super) async fn pipelines(
        &self,
        repository: &HostRepository,
        sha: &Sha,
    ) -> Result<(Vec<Pipeline>, Vec<u64>), ForgeError> {
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
