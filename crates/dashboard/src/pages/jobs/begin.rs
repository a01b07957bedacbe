//! The page of a project on the built-in code host that has no jobs: how to push the first commit, and the form of the
//! first job.

use askama::Template;
use axum::response::Response;
use journeyman_core::model::price;
use journeyman_core::ports::PullPagesError;
use journeyman_core::project::Project;

use crate::failure::{Failure, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::in_project::InProject;
use crate::pages::refresh;
use crate::{Shared, choices, visible, words};

/// The number of commits up to which they are counted.
const MAX_COUNTED: u64 = 10_000;

#[derive(Template)]
#[template(path = "begin.html")]
pub(super) struct BeginPage<'a> {
    at: &'a InProject,
    frame: &'a Frame,
    agent: String,
    model: String,
    /// The budget of a job.
    budget: Option<String>,
    /// The URL for git, with the name of the viewer.
    url: String,
    /// The folder that git makes of the URL.
    folder: String,
    /// The branch that was pushed, and its commits.
    arrived: Option<(String, String)>,
    live: String,
    /// The digest of the branches.
    seen: String,
    /// The text of the first job.
    prompt: String,
    once: String,
    error: Option<String>,
}

/// Returns the branches of a project's repository; `None` if they cannot be read.
pub(super) async fn state(shared: &Shared, project: &Project) -> Option<Vec<String>> {
    shared.services.pulls.branches(project).await.ok()
}

/// Returns the page of a project without jobs, if its repository is on the built-in code host; otherwise `None`.
///
/// # Errors
/// The page cannot be rendered.
pub(super) async fn page(shared: &Shared, at: &InProject) -> Result<Option<Response>, Failure> {
    let branches = if at.is_hosted() { state(shared, &at.project).await } else { None };
    match branches {
        Some(branches) => Ok(Some(rendered(&BeginPage::new(shared, at, &branches).await?)?)),
        None => Ok(None),
    }
}

/// Returns true if the repository has no commit, so that a job would fail.
pub(super) async fn is_empty(shared: &Shared, at: &InProject) -> bool {
    at.is_hosted() && state(shared, &at.project).await.is_some_and(|branches| branches.is_empty())
}

impl<'a> BeginPage<'a> {
    pub(super) async fn new(shared: &Shared, at: &'a InProject, branches: &[String]) -> Result<Self, PullPagesError> {
        let project = &at.project;
        let arrived = match branches.first() {
            Some(branch) => {
                let count = shared.services.pulls.commits(project, branch, MAX_COUNTED).await?;
                Some((visible::line(branch).into_owned(), commits(count.unwrap_or_default())))
            }
            None => None,
        };
        let seen = refresh::digest(&branches);
        let budget = project.settings.limits.budget.of(price::Scope::Job);
        let user = words::in_query(&at.viewer.user.name);
        let url = shared.settings.public_url.replacen("://", &format!("://{user}@"), 1);
        Ok(Self {
            at,
            frame: &at.frame,
            agent: choices::name_of(shared, &project.agent),
            model: visible::line(&project.model).into_owned(),
            budget: budget.map(words::money),
            url: format!("{url}/git/{}.git", project.id),
            folder: project.id.to_string(),
            arrived,
            live: format!("{}?seen={seen}", at.path("/jobs/live")),
            seen,
            prompt: String::new(),
            once: at.once(),
            error: None,
        })
    }

    /// Returns the page with the text of a job that was sent before the first push.
    pub(super) async fn refused(shared: &Shared, at: &'a InProject, fields: &Fields) -> Result<Self, PullPagesError> {
        let error = "Nothing has been pushed yet. Your text is kept: send it after the push.".to_owned();
        let page = Self::new(shared, at, &[]).await?;
        Ok(Self { prompt: fields.text("prompt"), error: Some(error), ..page })
    }
}

/// Formats a number of commits.
fn commits(count: u64) -> String {
    if count >= MAX_COUNTED {
        return format!("{MAX_COUNTED} or more commits");
    }
    words::counted(usize::try_from(count).unwrap_or(usize::MAX), "commit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_counted_up_to_a_limit() {
        assert_eq!([1, 3, MAX_COUNTED].map(commits), ["1 commit", "3 commits", "10000 or more commits"]);
    }
}
