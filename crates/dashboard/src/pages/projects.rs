//! `/projects`: the list of projects, and the form for a new project.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use journeyman_app::{Error, RefusalKind};
use journeyman_core::decision::project::Proposal;
use journeyman_core::finding::{Finding, first_failure};
use journeyman_core::ids::ProjectId;
use journeyman_core::ports::ProjectJobs;
use journeyman_core::project::{
    CODE_HOST_TOKEN, DEFAULT_AGENT, DEFAULT_MODEL, Project, SecretChanges, Settings, check::check,
};
use journeyman_core::secret::SecretValue;
use journeyman_core::time::Timestamp;

use super::findings::{self, Line};
use crate::choices::{self, Choices, chosen_effort, chosen_model};
use crate::failure::{Failure, Page, refusal, refused, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::in_project::InProject;
use crate::moment::Moment;
use crate::{Shared, visible, words};

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/projects", get(list).post(create))
        .route("/projects/new", get(new))
        .route("/projects/{project}", get(|at: InProject| async move { Redirect::to(&at.path("/jobs")) }))
}

#[derive(Template)]
#[template(path = "projects.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    rows: Vec<Row>,
}

struct Row {
    id: String,
    repository: String,
    agent: String,
    model: String,
    created: Moment,
    running: u64,
    open: u64,
}

impl Row {
    fn new(frame: &Frame, project: &Project, counts: ProjectJobs) -> Self {
        Self {
            id: project.id.to_string(),
            repository: visible::line(&project.repository).into_owned(),
            agent: choices::name_of(&frame.shared, &project.agent),
            model: visible::line(&project.model).into_owned(),
            created: frame.moment(project.created_at),
            running: counts.running,
            open: counts.open_pulls,
        }
    }
}

async fn list(State(shared): State<Shared>, frame: Frame) -> Response {
    let page = async {
        let projects = shared.services.store.projects().await?;
        let counts = shared.services.store.jobs_of_projects().await?;
        let row = |project: &Project| Row::new(&frame, project, counts.get(&project.id).copied().unwrap_or_default());
        let rows = projects.iter().map(row).collect();
        rendered(&ListPage { frame: &frame, rows })
    };
    frame.answer(page.await)
}

#[derive(Template)]
#[template(path = "projects_new.html")]
struct NewPage<'a> {
    frame: &'a Frame,
    id: String,
    hosted: bool,
    repository: String,
    username: String,
    reference: String,
    choices: Choices,
    error: Option<String>,
    /// True if jobs cannot work on the repository. The form then offers to create the project anyway.
    untested: bool,
    /// The findings of the test of the repository.
    findings: Vec<Line>,
}

impl<'a> NewPage<'a> {
    fn new(frame: &'a Frame, fields: &Fields) -> Self {
        let agent = fields.given("agent").unwrap_or_else(|| DEFAULT_AGENT.to_owned());
        let model = chosen_model(fields).unwrap_or_else(|| DEFAULT_MODEL.to_owned());
        Self {
            frame,
            id: fields.text("id"),
            hosted: fields.text("where") != "remote",
            repository: fields.text("repository"),
            username: fields.text("username"),
            reference: fields.text("ref"),
            choices: Choices::of_project(&frame.shared, None, (&agent, &model, &fields.text("effort"))),
            error: None,
            untested: false,
            findings: Vec::new(),
        }
    }
}

/// Shows the form. The query may have values of its fields; for a repository without an ID, one is proposed.
async fn new(frame: Frame, fields: Fields) -> Response {
    let page = async {
        frame.needs_administrator()?;
        let mut page = NewPage::new(&frame, &fields);
        if page.id.is_empty() && !page.repository.is_empty() {
            page.hosted = false;
            page.id = ProjectId::suggest(&page.repository).map(String::from).unwrap_or_default();
        }
        rendered(&page)
    };
    frame.answer(page.await)
}

async fn create(frame: Frame, fields: Fields) -> Response {
    frame.answer(create_page(&frame, &fields).await)
}

async fn create_page(frame: &Frame, fields: &Fields) -> Page {
    frame.needs_administrator()?;
    let mut page = NewPage::new(frame, fields);
    let proposal = match proposal(fields, frame.now) {
        Ok(proposal) => proposal,
        Err(text) => {
            page.error = Some(words::sentence(&text));
            return refused(&page);
        }
    };
    let caller = frame.caller();
    let only_tests = fields.is_set("test");
    if only_tests || (!page.hosted && !fields.is_set("untested")) {
        let tested = tested(frame, frame.cases().test_new_project(&caller, proposal.clone()).await)?;
        (page.untested, page.error, page.findings) = (tested.is_unusable, tested.error, tested.findings);
        if page.error.is_some() {
            return refused(&page);
        }
        if only_tests {
            return if frame.can_stream { findings::in_place(TESTED, &page.findings) } else { rendered(&page) };
        }
    }
    match frame.cases().create_project(&caller, proposal, None, |_| String::new()).await {
        Ok(_) => Ok(Redirect::to(&format!("/projects/{}/jobs?done=created", page.id.trim())).into_response()),
        Err(error) => {
            page.error = Some(refusal(error)?);
            refused(&page)
        }
    }
}

/// The heading of the findings of the test of a repository.
pub(super) const TESTED: &str = "The repository";

/// The result of the test of a repository, for a form.
pub(super) struct Tested {
    /// The reason why jobs cannot work on the repository, or why it was not tested.
    pub(super) error: Option<String>,
    /// True if jobs cannot work on the repository. The viewer may save such a project anyway.
    pub(super) is_unusable: bool,
    /// The findings.
    pub(super) findings: Vec<Line>,
}

/// Returns the result of the test of a repository.
///
/// # Errors
/// The server failed.
pub(super) fn tested(frame: &Frame, result: Result<Vec<Finding>, Error>) -> Result<Tested, Failure> {
    match result {
        Ok(findings) => {
            let failure = first_failure(&findings).map(|failure| words::sentence(&failure.text));
            let is_unusable = failure.is_some();
            let findings = findings.iter().map(|finding| Line::new(frame, finding)).collect();
            Ok(Tested { error: failure, is_unusable, findings })
        }
        Err(error) => {
            let is_unusable = is_unreadable(&error);
            Ok(Tested { error: Some(refusal(error)?), is_unusable, findings: Vec::new() })
        }
    }
}

/// Returns true for the error that a repository could not be read.
fn is_unreadable(error: &Error) -> bool {
    matches!(error, Error::Refused(refusal) if matches!(refusal.kind, RefusalKind::RepositoryUnreadable(_)))
}

/// Reads the form of a new project.
fn proposal(fields: &Fields, now: Timestamp) -> Result<Proposal, String> {
    let id: ProjectId = fields.text("id").trim().parse().map_err(|error| format!("id: {error}"))?;
    let hosted = fields.text("where") != "remote";
    let mut secrets = SecretChanges::new();
    let mut settings = Settings { effort: chosen_effort(fields)?, ..Settings::default() };
    if !hosted {
        settings.code_host.username = fields.given("username");
        if let Some(token) = fields.given("token") {
            secrets.insert(CODE_HOST_TOKEN.to_owned(), Some(SecretValue(token)));
        }
    }
    let repository = if hosted { format!("local:{id}") } else { fields.text("repository").trim().to_owned() };
    let default = Project::new(id, repository, now);
    let project = Project {
        reference: fields.given("ref"),
        agent: fields.given("agent").unwrap_or_else(|| default.agent.clone()),
        model: chosen_model(fields).unwrap_or_else(|| default.model.clone()),
        settings,
        ..default
    };
    check(&project, &secrets).map_err(|error| error.to_string())?;
    Ok((project, secrets))
}

/// Returns a curl command that creates a job.
pub(super) fn curl(frame: &Frame, project: &str, key: &str) -> String {
    let url = &frame.shared.settings.public_url;
    format!(
        "curl {url}/v2/agent/{project}/job \\\n  -H \"Authorization: Bearer {key}\" \\\n  \
         -H \"Content-Type: application/json\" \\\n  -d '{{\"prompt\": \"Fix the typo in the README\"}}'"
    )
}
