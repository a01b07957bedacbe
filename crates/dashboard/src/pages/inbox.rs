//! `/projects/{project}/inbox` and `/system/inbox`: events of code hosts, and what became of each.

mod row;
pub(super) mod words;

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::response::Response;
use axum::routing::get;
use journeyman_core::ids::ProjectId;
use journeyman_core::inbox::{InboxState, Outcome};
use journeyman_core::ports::InboxFilter;
use serde::Deserialize;

use self::row::{Reader, Row};
use crate::Shared;
use crate::failure::{Failure, Page, rendered};
use crate::frame::Frame;
use crate::in_project::InProject;
use crate::parameter::Parameter;
use crate::words::in_query;

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/projects/{project}/inbox", get(of_project)).route("/system/inbox", get(of_all))
}

/// The number of events on a page.
const ON_PAGE: usize = 50;

/// The choices of the state filter.
const STATES: [(Option<InboxState>, &str); 6] = [
    (None, "All"),
    (Some(InboxState::Received), "Received"),
    (Some(InboxState::Waiting), "Waiting"),
    (Some(InboxState::Done), "Done"),
    (Some(InboxState::Ignored), "Ignored"),
    (Some(InboxState::Failed), "Failed"),
];

/// The query parameters of a list.
#[derive(Debug, Clone, Default, Deserialize)]
struct InboxQuery {
    state: Option<String>,
    outcome: Option<String>,
    before: Option<String>,
}

impl InboxQuery {
    /// Returns the values of the parameters. `path` is the path of the list.
    ///
    /// # Errors
    /// A value is not allowed.
    fn read(&self, path: &str) -> Result<Selection, Failure> {
        let states = STATES.into_iter().filter_map(|(state, _)| Some((state?.name(), state?)));
        let state = Parameter::new("state", self.state.as_ref(), path).one_of(states)?;
        let outcomes = Outcome::ALL.map(|outcome| (outcome.name(), outcome));
        let outcome = Parameter::new("outcome", self.outcome.as_ref(), path).one_of(outcomes)?;
        let before = Parameter::new("before", self.before.as_ref(), path);
        Ok(Selection { state, outcome, before: before.read("the number of an event", |text| text.parse().ok())? })
    }
}

/// The valid values of [`InboxQuery`].
struct Selection {
    state: Option<InboxState>,
    outcome: Option<Outcome>,
    /// The number of the last event of the previous page.
    before: Option<u64>,
}

/// A page of the list, which two templates show.
struct List {
    /// The path of the page.
    path: String,
    rows: Vec<Row>,
    /// The URL, the label, and `true` if the state is selected.
    states: Vec<(String, &'static str, bool)>,
    state: &'static str,
    /// The name, the label, and `true` if the outcome is selected.
    outcomes: Vec<(String, &'static str, bool)>,
    is_filtered: bool,
    older: Option<String>,
    newest: Option<String>,
}

impl List {
    async fn read(
        shared: &Shared,
        frame: &Frame,
        project: Option<ProjectId>,
        path: String,
        query: &InboxQuery,
    ) -> Result<Self, Failure> {
        let Selection { state, outcome, before } = query.read(&path)?;
        let shows_projects = project.is_none();
        let filter = InboxFilter { state, outcome, before, ..InboxFilter::newest(project, ON_PAGE + 1) };
        let mut events = frame.cases().inbox(&frame.caller(), filter).await?;
        let more = events.len() > ON_PAGE;
        events.truncate(ON_PAGE);
        let last = events.last().filter(|_| more).map(|event| event.number);
        let mut reader = Reader::new(shared, frame, shows_projects);
        let mut rows = Vec::with_capacity(events.len());
        for event in &events {
            rows.push(reader.row(event).await?);
        }
        let href = |state: Option<InboxState>, before: Option<u64>| {
            let before = before.map(|number| number.to_string());
            let given = [
                ("state", state.map(|state| state.name().to_owned())),
                ("outcome", outcome.map(Outcome::name)),
                ("before", before),
            ];
            let given = given.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", in_query(&value?))));
            let query: Vec<String> = given.collect();
            if query.is_empty() { path.clone() } else { format!("{path}?{}", query.join("&")) }
        };
        Ok(Self {
            rows,
            states: STATES.map(|(one, label)| (href(one, None), label, one == state)).into(),
            state: state.map(InboxState::name).unwrap_or_default(),
            outcomes: Outcome::ALL.map(|one| (one.name(), words::outcome(one).0, Some(one) == outcome)).into(),
            is_filtered: state.is_some() || outcome.is_some() || before.is_some(),
            older: last.map(|last| href(state, Some(last))),
            newest: before.map(|_| href(state, None)),
            path,
        })
    }
}

#[derive(Template)]
#[template(path = "inbox.html")]
struct ProjectPage<'a> {
    at: &'a InProject,
    frame: &'a Frame,
    list: List,
}

#[derive(Template)]
#[template(path = "system_inbox.html")]
struct SystemPage<'a> {
    frame: &'a Frame,
    list: List,
}

async fn of_project(State(shared): State<Shared>, at: InProject, Query(query): Query<InboxQuery>) -> Response {
    let page = async {
        let list = List::read(&shared, &at, Some(at.project.id.clone()), at.path("/inbox"), &query).await?;
        rendered(&ProjectPage { at: &at, frame: &at, list })
    };
    at.answer(page.await)
}

async fn of_all(State(shared): State<Shared>, frame: Frame, Query(query): Query<InboxQuery>) -> Response {
    frame.answer(system_page(&shared, &frame, &query).await)
}

async fn system_page(shared: &Shared, frame: &Frame, query: &InboxQuery) -> Page {
    frame.needs_administrator()?;
    let list = List::read(shared, frame, None, "/system/inbox".to_owned(), query).await?;
    rendered(&SystemPage { frame, list })
}
