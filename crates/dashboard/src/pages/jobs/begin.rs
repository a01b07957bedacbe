//! The page of a project on the built-in code host that has no jobs: how to push the first commit or import a history,
//! and the form of the first job.

use askama::Template;
use axum::response::Response;
use journeyman_core::model::budget;
use journeyman_core::ports::{PullPagesError, StoreError};
use journeyman_core::project::Project;

use super::import::{ImportForm, Importing};
use super::row::Clock;
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
    /// The host of a running import, and the time that it has taken.
    importing: Option<(String, Clock)>,
    /// The host of an import, and what of its repository was not copied.
    not_copied: Option<(String, String)>,
    /// The form of an import, for administrators.
    import_form: Option<ImportForm>,
    live: String,
    /// The digest of the state.
    seen: String,
    /// The text of the first job.
    prompt: String,
    once: String,
    error: Option<String>,
}

/// The state of an empty project.
#[derive(Debug, Hash)]
pub(super) struct State {
    /// The branches of the repository.
    branches: Vec<String>,
    importing: Importing,
}

impl State {
    /// Reads the state of a project; `None` if its branches cannot be read.
    pub(super) async fn read(shared: &Shared, project: &Project) -> Result<Option<Self>, StoreError> {
        let Some(branches) = branches(shared, project).await else { return Ok(None) };
        Ok(Some(Self { branches, importing: Importing::read(shared, project).await? }))
    }

    /// Returns the branches that have arrived. Those of an import count when it has finished.
    fn arrived(&self) -> &[String] {
        let is_part = matches!(self.importing, Importing::Running { .. } | Importing::Interrupted { .. });
        if is_part { &[] } else { &self.branches }
    }
}

/// Returns the branches of a project's repository; `None` if they cannot be read.
pub(super) async fn branches(shared: &Shared, project: &Project) -> Option<Vec<String>> {
    shared.services.pulls.branches(project).await.ok()
}

/// Returns the page of a project without jobs, if its repository is on the built-in code host; otherwise `None`.
///
/// # Errors
/// The page cannot be rendered.
pub(super) async fn page(shared: &Shared, at: &InProject) -> Result<Option<Response>, Failure> {
    let state = if at.is_hosted() { State::read(shared, &at.project).await? } else { None };
    match state {
        Some(state) => Ok(Some(rendered(&BeginPage::new(shared, at, &state).await?)?)),
        None => Ok(None),
    }
}

/// Returns the state of a repository that has no commits yet, so that a job would fail; otherwise `None`.
pub(super) async fn empty(shared: &Shared, at: &InProject) -> Result<Option<State>, Failure> {
    let state = if at.is_hosted() { State::read(shared, &at.project).await? } else { None };
    Ok(state.filter(|state| state.arrived().is_empty()))
}

impl<'a> BeginPage<'a> {
    pub(super) async fn new(shared: &Shared, at: &'a InProject, state: &State) -> Result<Self, PullPagesError> {
        let project = &at.project;
        let arrived = match state.arrived().first() {
            Some(branch) => {
                let count = shared.services.pulls.commits(project, branch, MAX_COUNTED).await?;
                Some((visible::line(branch).into_owned(), commits(count.unwrap_or_default())))
            }
            None => None,
        };
        let importing = match &state.importing {
            Importing::Running { host, start } => Some((host.clone(), Clock::since(*start, at.frame.now))),
            _ => None,
        };
        let not_copied = match &state.importing {
            Importing::Partly { host, not_copied } => Some((host.clone(), not_copied.clone())),
            _ => None,
        };
        let seen = refresh::digest(state);
        let budget = project.settings.limits.budget.of(budget::Scope::Job);
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
            importing,
            not_copied,
            import_form: at.viewer.is_administrator().then(|| ImportForm::after(&state.importing)),
            live: format!("{}?seen={seen}", at.path("/jobs/live")),
            seen,
            prompt: String::new(),
            once: at.once(),
            error: None,
        })
    }

    /// Returns the page with the text of a job that was sent before the first push.
    pub(super) async fn refused(
        shared: &Shared,
        at: &'a InProject,
        state: &State,
        fields: &Fields,
    ) -> Result<Self, PullPagesError> {
        let error = "Nothing has been pushed yet. Your text is kept: send it after the push.".to_owned();
        let page = Self::new(shared, at, state).await?;
        Ok(Self { prompt: fields.text("prompt"), error: Some(error), ..page })
    }

    /// Returns true if the form of an import is chosen first, because it shows an error.
    fn shows_import(&self) -> bool {
        self.import_form.as_ref().is_some_and(|form| form.error.is_some())
    }

    /// Returns the page with the form of an import that was refused.
    pub(super) fn with_import(self, form: ImportForm) -> Self {
        Self { import_form: Some(form), ..self }
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
