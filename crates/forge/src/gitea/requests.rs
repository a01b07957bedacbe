//! The requests that make up the operations of [`Api`](crate::hosted::Api).

use http::{Method, StatusCode};
use journeyman_core::code_host::HostRepository;
use journeyman_core::conversation::{CommentRef, Permission};
use journeyman_core::hook::{CommentKind, HostUser};
use journeyman_core::ids::Sha;
use journeyman_core::ports::ForgeError;
use journeyman_core::pull::PullChange;
use serde_json::{Map, Value, json};

use super::wire::{
    Branch, Change, Job, JobPage, Jobs, Label, PullRequest, References, Review, Run, Runs, Team, User, titled,
};
use super::{Gitea, LABEL_COLOR, PAGE, PAGES, below, repository_path};
use crate::http::encoded;

impl Gitea {
    /// Returns the newest commit of a branch.
    pub(super) async fn head_of(&self, repository: &HostRepository, branch: &str) -> Result<String, ForgeError> {
        let segments: Vec<String> = branch.split('/').map(encoded).collect();
        match self.get::<Branch>(repository, &format!("/branches/{}", segments.join("/"))).await {
            Err(ForgeError::NotFound(text)) => {
                Err(ForgeError::NotFound(format!("the repository has no branch {branch}: {text}")))
            }
            found => Ok(found?.commit.id),
        }
    }

    /// Returns the newest commit of a pull request that has ended; `None` if the host has none. Hosts update the
    /// reference only while the pull request is open.
    pub(super) async fn ended_at(&self, repository: &HostRepository, number: u64) -> Result<Option<Sha>, ForgeError> {
        let name = format!("pull/{number}/head");
        match self.get::<References>(repository, &format!("/git/refs/{name}")).await {
            Err(ForgeError::NotFound(_)) => Ok(None),
            found => Ok(found?.commit(&format!("refs/{name}"))),
        }
    }

    /// Returns whether a branch has commits that another one does not have. Hosts open pull requests without commits.
    ///
    /// Reads the list of commits, because there is no comparison before version 1.22 of Gitea.
    pub(super) async fn has_commits(
        &self,
        repository: &HostRepository,
        head: &str,
        base: &str,
    ) -> Result<bool, ForgeError> {
        let (head, base) = (self.head_of(repository, head).await?, self.head_of(repository, base).await?);
        if head == base {
            return Ok(false);
        }
        let path = format!("/commits?sha={head}&not={base}&limit=1&stat=false&verification=false&files=false");
        Ok(!self.get_all::<Value>(repository, &path).await?.is_empty())
    }

    /// Changes the title and the description. A prefix of the title marks a draft.
    pub(super) async fn set_texts(
        &self,
        repository: &HostRepository,
        number: u64,
        change: &PullChange,
    ) -> Result<(), ForgeError> {
        let path = format!("/pulls/{number}");
        let mut texts = Map::new();
        if let Some(body) = &change.body {
            texts.insert("body".to_owned(), json!(body));
        }
        let title = match (&change.title, change.draft) {
            (None, None) => None,
            (Some(title), Some(draft)) => Some(titled(title, draft)),
            (title, draft) => {
                let now = self.get::<PullRequest>(repository, &path).await?.into_pull();
                let is_same = title.is_none() && draft == Some(now.draft);
                let changed = titled(title.as_ref().unwrap_or(&now.title), draft.unwrap_or(now.draft));
                (!is_same).then_some(changed)
            }
        };
        if let Some(title) = title {
            texts.insert("title".to_owned(), json!(title));
        }
        if !texts.is_empty() {
            self.send(repository, Method::PATCH, &path, Some(&texts.into())).await?.ok()?;
        }
        Ok(())
    }

    /// Returns the labels of the organization. There are none if the owner is a user, and they cannot be read with a
    /// token that may not read organizations.
    pub(super) async fn shared_labels(&self, repository: &HostRepository) -> Result<Vec<Label>, ForgeError> {
        let path = repository_path(repository)?;
        match self.list(&format!("/orgs/{}/labels?", path.parts().0)).await {
            Err(ForgeError::NotFound(_) | ForgeError::Denied(_)) => Ok(Vec::new()),
            labels => labels,
        }
    }

    /// Adds labels. All versions accept IDs, and only newer ones names. Labels that do not exist are created.
    pub(super) async fn add_labels(
        &self,
        repository: &HostRepository,
        number: u64,
        names: &[String],
    ) -> Result<(), ForgeError> {
        if names.is_empty() {
            return Ok(());
        }
        let mut known: Vec<Label> = self.list(&below(repository, "/labels?")?).await?;
        if names.iter().any(|name| known.iter().all(|label| label.name != *name)) {
            known.extend(self.shared_labels(repository).await?);
        }
        let mut ids = Vec::new();
        for name in names {
            if let Some(label) = known.iter().find(|label| label.name == *name) {
                ids.push(label.id);
                continue;
            }
            let body = json!({"name": name, "color": LABEL_COLOR});
            let created = self.send(repository, Method::POST, "/labels", Some(&body)).await?;
            ids.push(created.ok()?.json::<Label>()?.id);
        }
        let path = format!("/issues/{number}/labels");
        self.send(repository, Method::POST, &path, Some(&json!({"labels": ids}))).await?.ok()?;
        Ok(())
    }

    /// Adds users to the assigned ones, whose list can only be replaced. Asks first who can be assigned, because servers
    /// fail (status 500) for others.
    pub(super) async fn assign(
        &self,
        repository: &HostRepository,
        number: u64,
        users: &[String],
    ) -> Result<(), ForgeError> {
        if users.is_empty() {
            return Ok(());
        }
        let path = format!("/pulls/{number}");
        let pull: PullRequest = self.get(repository, &path).await?;
        let possible: Vec<User> = self.get_all(repository, "/assignees").await?;
        let mut names: Vec<String> = pull.assignees.into_iter().map(|user| user.login).collect();
        let (before, mut refused) = (names.len(), Vec::new());
        let is_in = |names: &[String], name: &str| names.iter().any(|known| known.eq_ignore_ascii_case(name));
        for user in users {
            if is_in(&names, user) {
                continue;
            }
            match possible.iter().find(|known| known.login.eq_ignore_ascii_case(user)) {
                Some(known) => names.push(known.login.clone()),
                None => refused.push(user.as_str()),
            }
        }
        if names.len() > before {
            let body = json!({"assignees": names});
            self.send(repository, Method::PATCH, &path, Some(&body)).await?.ok()?;
        }
        if refused.is_empty() {
            return Ok(());
        }
        Err(ForgeError::Refused(format!(
            "only people with access to the repository can be assigned, not {}",
            refused.join(", ")
        )))
    }

    /// Asks for reviews one by one, because one user who cannot review makes the host refuse all of them.
    pub(super) async fn request_reviews(
        &self,
        repository: &HostRepository,
        number: u64,
        reviewers: &[String],
    ) -> Result<(), ForgeError> {
        let mut refused = Vec::new();
        for reviewer in reviewers {
            let body = match reviewer.rsplit_once('/') {
                Some((_, team)) => json!({"team_reviewers": [team]}),
                None => json!({"reviewers": [reviewer]}),
            };
            let path = format!("/pulls/{number}/requested_reviewers");
            match self.send(repository, Method::POST, &path, Some(&body)).await?.ok() {
                Err(ForgeError::Refused(text) | ForgeError::NotFound(text) | ForgeError::Denied(text)) => {
                    refused.push(format!("{reviewer}: {text}"));
                }
                answer => drop(answer?),
            }
        }
        if refused.is_empty() { Ok(()) } else { Err(ForgeError::Refused(refused.join("; "))) }
    }

    /// Finds out whether a user may push if the token may not read permissions: hosts list the users who can be
    /// assigned. In the repository of a user, these may push. In that of an organization, members of teams that may only
    /// read are among them.
    pub(super) async fn permission_by_lists(
        &self,
        repository: &HostRepository,
        user: &HostUser,
    ) -> Result<Permission, ForgeError> {
        let possible: Vec<User> = self.get_all(repository, "/assignees").await?;
        if possible.iter().all(|known| known.id.0 != user.id) {
            return Ok(Permission::None);
        }
        let Some(teams) = self.teams(repository).await? else { return Ok(Permission::Write) };
        if !teams.is_empty() && teams.iter().all(Team::may_push) {
            return Ok(Permission::Write);
        }
        Err(ForgeError::Denied(format!(
            "the permission of {} cannot be read, and not all teams of the organization may push; make the bot an \
             administrator of the repository {}",
            user.name, repository.path
        )))
    }

    /// Returns the teams that have access to a repository; `None` if it belongs to a user.
    pub(super) async fn teams(&self, repository: &HostRepository) -> Result<Option<Vec<Team>>, ForgeError> {
        let answer = self.send(repository, Method::GET, "/teams", None).await?;
        if answer.status == StatusCode::METHOD_NOT_ALLOWED && answer.message().contains("not owned by an organization")
        {
            return Ok(None);
        }
        match answer.ok() {
            // Without the teams, the service cannot tell who may push.
            Err(ForgeError::NotFound(text)) => {
                Err(ForgeError::Denied(format!("the teams of the repository cannot be read: {text}")))
            }
            answer => Ok(Some(answer?.json()?)),
        }
    }

    /// Returns an error if the permission to write, as the host tells it, may be one to write issues and not code: it is
    /// that of a team that may write anything. Then a team that may push must have the user as a member.
    pub(super) async fn confirm_write(&self, repository: &HostRepository, user: &HostUser) -> Result<(), ForgeError> {
        let teams = self.teams(repository).await?.unwrap_or_default();
        if !teams.iter().any(Team::writes_without_code) {
            return Ok(());
        }
        for team in teams.iter().filter(|team| team.may_push()) {
            let path = format!("/teams/{}/members/{}", encoded(&team.id.0), encoded(&user.name));
            if self.call(Method::GET, &path, None).await?.status.is_success() {
                return Ok(());
            }
        }
        Err(ForgeError::Denied(format!(
            "a team of the organization may write to {} but not push, and no team that may push is known to have {} as a \
             member; give the token the scope read:organization, make its user a member of the organization, and {} one \
             of such a team",
            repository.path, user.name, user.name
        )))
    }

    /// Returns the path of the reactions of a comment; `None` if it has none.
    pub(super) async fn reactions(
        &self,
        repository: &HostRepository,
        comment: &CommentRef,
    ) -> Result<Option<String>, ForgeError> {
        let CommentRef { kind, number, id } = comment;
        if *kind != CommentKind::Review {
            let path = if id.is_empty() { number.to_string() } else { format!("comments/{id}") };
            return Ok(Some(format!("/issues/{path}/reactions")));
        }
        // The text of a review is a comment with another ID, which is in the address of the review.
        let review: Review = self.get(repository, &format!("/pulls/{number}/reviews/{id}")).await?;
        Ok(review.comment().map(|comment| format!("/issues/comments/{}/reactions", encoded(comment))))
    }

    /// Returns the reviews of a pull request, in the order of their submission, with drafts and requests to review.
    pub(super) async fn all_reviews(&self, repository: &HostRepository, pull: u64) -> Result<Vec<Review>, ForgeError> {
        let mut found: Vec<Review> = self.list(&below(repository, &format!("/pulls/{pull}/reviews?"))?).await?;
        found.sort_by_key(Review::age);
        Ok(found)
    }

    /// Returns the timeline of an issue, oldest first. The header with the number of all items has that of the page.
    pub(super) async fn timeline(&self, repository: &HostRepository, issue: u64) -> Result<Vec<Change>, ForgeError> {
        let mut all = Vec::new();
        for page in 1..=PAGES {
            let path = format!("/issues/{issue}/timeline?limit={PAGE}&page={page}");
            let found: Vec<Change> = self.get_all(repository, &path).await?;
            if found.is_empty() {
                break;
            }
            all.extend(found);
        }
        Ok(all)
    }

    /// Finds the ID of the job of a page. Depending on the version, pages have the IDs of runs and jobs or their
    /// positions.
    pub(super) async fn job_of(
        &self,
        repository: &HostRepository,
        page: &JobPage,
    ) -> Result<Option<String>, ForgeError> {
        let path = below(repository, &format!("/actions/runs?head_sha={}", page.sha))?;
        let is_it = |run: &Run| page.is_of_run(&run.html_url);
        let items = |page: Runs| page.workflow_runs;
        let runs: Vec<Run> = self.pages(&path, items, |runs: &[Run]| runs.iter().any(is_it)).await?;
        let Some(run) = runs.into_iter().find(is_it) else { return Ok(None) };
        let path = below(repository, &format!("/actions/runs/{}/jobs?", run.id.0))?;
        // These are the jobs of the newest attempt. Forgejo sends all of them at once.
        let jobs: Vec<Job> = self.pages(&path, Jobs::into_list, |_| self.is_forgejo).await?;
        Ok(page.find(jobs))
    }
}
