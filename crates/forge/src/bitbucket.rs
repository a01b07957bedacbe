//! Bitbucket Cloud (REST API, version 2.0).

mod changes;
mod conversation;
pub(crate) mod hooks;
mod merge;
mod position;
mod requests;
mod review;
mod threads;
mod wire;

use std::collections::HashMap;

use async_trait::async_trait;
use http::{Method, StatusCode};
use journeyman_core::checks::{Check, CommitStatus, StatusState};
use journeyman_core::code_host::{HostRepository, RepositoryPath};
use journeyman_core::conversation::{
    CommentRef, CommentTarget, Conversation, HostThread, InThread, LineComment, Permission, Reaction, ReviewComment,
};
use journeyman_core::hook::HostUser;
use journeyman_core::ids::Sha;
use journeyman_core::inbox::files::HostPages;
use journeyman_core::poll::{PollQuery, Polled};
use journeyman_core::ports::{CommentFile, CreatedPull, Credential, ForgeError};
use journeyman_core::pull::{HostPull, NewPull, PullChange};
use journeyman_core::secret::SecretValue;
use journeyman_core::time::Timestamp;
use serde_json::json;

use self::wire::{PullRequest, User};
use crate::hosted::{Account, Api, STATUS, Written};
use crate::http::{Http, encoded};
use crate::json::{number_of_comment, sha};

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
fn pull_of(target: CommentTarget) -> Result<u64, ForgeError> {
    match target {
        CommentTarget::Pull(number) => Ok(number),
        CommentTarget::Issue(_) => Err(ForgeError::Refused("Bitbucket Cloud has no issues".to_owned())),
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

    async fn comments(&self, repository: &HostRepository, target: CommentTarget) -> Result<Vec<Written>, ForgeError> {
        let path = format!("/pullrequests/{}/comments?sort=created_on&pagelen=100", pull_of(target)?);
        let found: Vec<wire::Comment> = self.list(at(repository, &path)).await?;
        let written = found.into_iter().filter(|comment| !comment.deleted);
        Ok(written.map(wire::Comment::into_written).collect())
    }

    async fn add_comment(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        text: &str,
    ) -> Result<String, ForgeError> {
        let path = at(repository, &format!("/pullrequests/{}/comments", pull_of(target)?));
        let body = json!({"content": {"raw": wire::hidden(text)}});
        let written: wire::Comment = self.call(Method::POST, &path, Some(&body)).await?.ok()?.json()?;
        Ok(written.into_url())
    }

    async fn update_comment(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        comment: &str,
        text: &str,
    ) -> Result<(), ForgeError> {
        let path = at(repository, &format!("/pullrequests/{}/comments/{}", pull_of(target)?, encoded(comment)));
        let body = json!({"content": {"raw": wire::hidden(text)}});
        self.call(Method::PUT, &path, Some(&body)).await?.ok().map(drop)
    }

    async fn add_reply(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        (_, to): (&HostThread, &InThread),
        text: &str,
    ) -> Result<String, ForgeError> {
        let path = at(repository, &format!("/pullrequests/{}/comments", pull_of(target)?));
        let parent = number_of_comment(&to.id)?;
        let body = json!({"content": {"raw": wire::hidden(text)}, "parent": {"id": parent}});
        let written: wire::Comment = self.call(Method::POST, &path, Some(&body)).await?.ok()?.json()?;
        Ok(written.into_url())
    }

    async fn resolve(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        threads: &[HostThread],
    ) -> Result<(), ForgeError> {
        let pull = pull_of(target)?;
        for thread in threads {
            let path = at(repository, &format!("/pullrequests/{pull}/comments/{}/resolve", encoded(&thread.id)));
            // The description has no body, but without one the service answers with status 400.
            let answer = self.call(Method::POST, &path, Some(&json!({}))).await?;
            // Someone has resolved it meanwhile.
            if answer.status != StatusCode::CONFLICT {
                answer.ok()?;
            }
        }
        Ok(())
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
        let path = format!("/pullrequests/{}/comments?sort=created_on&pagelen=100", pull_of(target)?);
        Ok(threads::of(self.list(at(repository, &path)).await?, of))
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
            // The first answer has accepted the token: status 401 means that it may not read the workspace.
            Ok(_) | Err(ForgeError::Denied(_) | ForgeError::Credential(_)) => Err(ForgeError::Denied(format!(
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
        for (index, pipeline) in newest.iter().enumerate() {
            let is_it = |status: &wire::Status| status.pipeline() == Some(pipeline.build_number);
            let status = statuses.iter().position(is_it).map(|found| statuses.remove(found));
            if index >= PIPELINES {
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
        checks.extend(merge::notes(self, repository, sha).await);
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
