//! The requests that make up the operations of [`Api`](crate::hosted::Api).

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use http::{Method, StatusCode};
use journeyman_core::conversation::InThread;
use journeyman_core::hook::HostUser;
use journeyman_core::ports::ForgeError;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::wire::{Activity, Branch, Comment, Listed, Page, PullRequest, Repository, User, exception};
use super::{API, ATTEMPTS, BitbucketDataCenter, Edit, Location, PAGES, USER_ID, USER_NAME, owner_page};
use crate::http::{Answer, Authorization, encoded};

/// The slug of a repository that no project has.
const NO_REPOSITORY: &str = "journeyman-asks-for-a-repository-that-does-not-exist";

impl BitbucketDataCenter {
    /// Returns the user of the token.
    pub(super) async fn owner(&self) -> Result<HostUser, ForgeError> {
        let answer = self.call(Method::GET, &format!("{API}/application-properties"), None).await?;
        let answer = self.accepted(answer).await?;
        let header = |name: &str| {
            let text = answer.headers.get(name)?.to_str().ok()?.replace('+', " ");
            let text = percent_encoding::percent_decode_str(text.trim()).decode_utf8_lossy().into_owned();
            Some(text).filter(|text| !text.is_empty())
        };
        let Some(name) = header(USER_NAME).or_else(|| self.username.clone()) else {
            let text = "Bitbucket does not say who the user of the token is; set the user name of the token";
            return Err(ForgeError::Credential(text.to_owned()));
        };
        if let Some(user) = self.user(&name).await? {
            return Ok(user.into());
        }
        // The list of users may lack the user of a project's or repository's token.
        match header(USER_ID) {
            Some(id) => Ok(HostUser { id, name, is_bot: true }),
            None => {
                let text = format!("Bitbucket does not know the user {name} of the token; use the token of a user");
                Err(ForgeError::Refused(text))
            }
        }
    }

    pub(super) async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer, ForgeError> {
        let authorization = Authorization::Bearer(self.token.clone());
        self.http.call(Some(&authorization), method, path, body).await
    }

    /// Returns the answer if it is a success, otherwise its error.
    pub(super) async fn accepted(&self, answer: Answer) -> Result<Answer, ForgeError> {
        if answer.status == StatusCode::UNAUTHORIZED && self.is_signed_in(&answer).await? {
            let text = "give the token, and its user, the permission for it";
            return Err(ForgeError::Denied(format!("{}; {text}", answer.described())));
        }
        answer.ok()
    }

    /// Returns whether the token is valid, after an answer with status 401.
    pub(super) async fn is_signed_in(&self, answer: &Answer) -> Result<bool, ForgeError> {
        if answer.headers.contains_key(USER_NAME) {
            return Ok(true);
        }
        // A proxy may remove the header. All users may list users.
        let users = self.call(Method::GET, &format!("{API}/users?limit=1"), None).await?;
        Ok(users.status.is_success() || users.headers.contains_key(USER_NAME))
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ForgeError> {
        let answer = self.call(Method::GET, path, None).await?;
        self.accepted(answer).await?.json()
    }

    /// Returns a list, page by page, until `enough` returns true for the items of a page. `path` has a query.
    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        enough: impl Fn(&[T]) -> bool,
    ) -> Result<Vec<T>, ForgeError> {
        let (mut all, mut address) = (Vec::new(), path.to_owned());
        for _ in 0..PAGES {
            let page: Page<T> = self.get(&address).await?;
            let next = page.next().filter(|_| !enough(&page.values));
            all.extend(page.values);
            match next {
                Some(next) => address = format!("{path}&start={next}"),
                None => break,
            }
        }
        Ok(all)
    }

    /// Returns the activities that have the threads of these comments, each thread once. A reply may have an activity of its
    /// own, with the replies to it, which is no thread.
    pub(super) async fn activities_of(
        &self,
        location: &Location,
        pull: u64,
        of: &[InThread],
    ) -> Result<Vec<Activity>, ForgeError> {
        let path = format!("{}/{pull}/activities?limit=100", location.pulls());
        let is_of = |activity: &Activity, one: &InThread| {
            let Some(root) = activity.comment.as_ref().filter(|_| activity.comment_action != "REPLIED") else {
                return false;
            };
            if one.thread.parent.is_some() { root.id.0 != one.id && root.has(&one.id) } else { root.id.0 == one.id }
        };
        let missing = Mutex::new(of.iter().collect::<Vec<&InThread>>());
        let enough = |page: &[Activity]| {
            let mut missing = missing.lock().unwrap_or_else(PoisonError::into_inner);
            missing.retain(|one| !page.iter().any(|activity| is_of(activity, one)));
            missing.is_empty()
        };
        let mut found: Vec<Activity> = self.list(&path, enough).await?;
        let mut known = HashSet::new();
        found.retain(|activity| of.iter().any(|one| is_of(activity, one)));
        found.retain(|activity| activity.comment.as_ref().is_some_and(|root| known.insert(root.id.0.clone())));
        Ok(found)
    }

    /// Returns the answer to a change of a repository if it is a success, otherwise its error. Nothing of an archived
    /// repository can be changed.
    pub(super) async fn changed(&self, location: &Location, answer: Answer) -> Result<Answer, ForgeError> {
        if answer.status == StatusCode::CONFLICT {
            let repository = self.get::<Repository>(&location.below(API)).await;
            if repository.is_ok_and(|repository| repository.archived) {
                return Err(ForgeError::Denied(answer.described()));
            }
        }
        self.accepted(answer).await
    }

    pub(super) async fn default_branch(&self, location: &Location) -> Result<Option<String>, ForgeError> {
        // The second one is that of versions before 7.5.
        for below in ["default-branch", "branches/default"] {
            let answer = self.call(Method::GET, &format!("{}/{below}", location.below(API)), None).await?;
            match answer.status {
                StatusCode::NO_CONTENT => return Ok(None),
                StatusCode::NOT_FOUND => {}
                _ => {
                    let branch: Branch = self.accepted(answer).await?.json()?;
                    return Ok(Some(branch.display_id).filter(|name| !name.is_empty()));
                }
            }
        }
        Ok(None)
    }

    /// Returns whether the token may push. No field says so, but repositories can be listed by permission.
    pub(super) async fn can_push(&self, repository: &Repository) -> Result<Option<bool>, ForgeError> {
        // Without a name, all repositories would be listed.
        let levels = [("REPO_WRITE", true), ("REPO_READ", false)];
        for (level, can_push) in levels.into_iter().filter(|_| !repository.name.is_empty()) {
            let path = format!("{API}/repos?limit=100&permission={level}&name={}", encoded(&repository.name));
            let is_listed = |page: &[Listed]| page.iter().any(|listed| listed.id == repository.id);
            match self.list(&path, is_listed).await {
                Ok(listed) if is_listed(&listed) => return Ok(Some(can_push)),
                Err(error) if error.may_pass() => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(None)
    }

    /// Finds a user by the name.
    pub(super) async fn user(&self, name: &str) -> Result<Option<User>, ForgeError> {
        let is_it = |user: &User| user.name.eq_ignore_ascii_case(name);
        // The slug in the address is the name, unless the name has special characters.
        match self.get::<User>(&format!("{API}/users/{}", encoded(name))).await {
            Ok(user) if is_it(&user) => return Ok(Some(user)),
            Ok(_) | Err(ForgeError::NotFound(_) | ForgeError::Denied(_)) => {}
            Err(error) => return Err(error),
        }
        let path = format!("{API}/users?limit=100&filter={}", encoded(name));
        match self.list(&path, |page: &[User]| page.iter().any(is_it)).await {
            Ok(users) => Ok(users.into_iter().find(is_it)),
            Err(ForgeError::Denied(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns whether a user has at least a permission, also through groups and the project.
    pub(super) async fn has(&self, location: &Location, user: &HostUser, level: &str) -> Result<bool, ForgeError> {
        let path = format!(
            "{API}/users?limit=100&filter={}&permission.1={level}&permission.1.projectKey={}\
             &permission.1.repositorySlug={}",
            encoded(&user.name),
            encoded(&location.project),
            encoded(&location.slug)
        );
        // Another account may have taken the name since.
        let is_listed = |page: &[User]| page.iter().any(|listed| listed.id.0 == user.id);
        Ok(is_listed(&self.list(&path, is_listed).await?))
    }

    /// Checks that the host applies the filter by permission: a user has none on a repository that does not exist. A version
    /// or a proxy that ignores parameters would otherwise let everyone write.
    pub(super) async fn check_filter(&self, location: &Location, user: &HostUser) -> Result<(), ForgeError> {
        let probe = Location { project: location.project.clone(), slug: NO_REPOSITORY.to_owned() };
        match self.has(&probe, user, "REPO_WRITE").await {
            Ok(true) => Err(ForgeError::Refused(format!(
                "Bitbucket says that {} may push to a repository that does not exist, so it does not apply the filter of \
                 its list of users by permission, or {NO_REPOSITORY} exists in the project",
                user.name
            ))),
            Err(error) if error.may_pass() => Err(error),
            Ok(false) | Err(_) => Ok(()),
        }
    }

    /// Returns the page of a pull request.
    pub(super) fn page(&self, location: &Location, number: u64) -> String {
        let url = self.http.base.strip_suffix("/rest").unwrap_or(&self.http.base);
        let owner = owner_page(&location.project);
        format!("{url}/{owner}/repos/{}/pull-requests/{number}", encoded(&location.slug))
    }

    pub(super) fn comment_page(&self, location: &Location, number: u64, comment: &Comment) -> String {
        format!("{}/overview?commentId={}", self.page(location, number), comment.id.0)
    }

    /// Changes the fields of a pull request. If others change it at the same time, it is read again.
    pub(super) async fn edit(&self, location: &Location, number: u64, edit: &Edit<'_>) -> Result<(), ForgeError> {
        let path = format!("{}/{number}", location.pulls());
        let mut attempt = 1;
        loop {
            let pull: PullRequest = self.get(&path).await?;
            let has_drafts = pull.draft.is_some();
            if let Some(body) = edit.request(&pull) {
                let answer = self.call(Method::PUT, &path, Some(&body)).await?;
                let is_conflict = answer.status == StatusCode::CONFLICT;
                if is_conflict && exception(&answer) == "PullRequestOutOfDateException" && attempt < ATTEMPTS {
                    attempt += 1;
                    continue;
                }
                self.changed(location, answer).await?;
            }
            if edit.draft == Some(true) && !has_drafts {
                let text = "this version of Bitbucket Data Center has no drafts; version 8.18 has";
                return Err(ForgeError::Refused(text.to_owned()));
            }
            return Ok(());
        }
    }
}
