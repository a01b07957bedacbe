//! The list of pull requests. Those on a remote code host are in [`super::remote`].

use std::borrow::Cow;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use journeyman_core::pull::{LocalPull, PullState};
use serde::Deserialize;

use super::badge::Badge;
use super::remote;
use crate::failure::{Failure, Page, rendered};
use crate::frame::Frame;
use crate::in_project::InProject;
use crate::moment::Moment;
use crate::{Shared, visible};

#[derive(Deserialize)]
pub(super) struct ListQuery {
    pub(super) state: Option<String>,
    /// The last pull request of the previous page, as `<microseconds>-<number>`; only on remote code hosts.
    pub(super) after: Option<String>,
}

#[derive(Template)]
#[template(path = "pulls.html")]
struct ListPage<'a> {
    at: &'a InProject,
    frame: &'a Frame,
    rows: Vec<Row<'a>>,
    open: usize,
    ended: usize,
    shows_ended: bool,
    curl: String,
}

struct Row<'a> {
    number: u64,
    path: String,
    title: Cow<'a, str>,
    badge: Badge,
    head: Cow<'a, str>,
    labels: Vec<Cow<'a, str>>,
    opened: Moment,
    /// The word for the end, and its time.
    ended: Option<(&'static str, Moment)>,
}

impl<'a> Row<'a> {
    fn new(at: &InProject, pull: &'a LocalPull) -> Self {
        Self {
            number: pull.number,
            path: at.path(&format!("/pulls/{}", pull.number)),
            title: visible::line(&pull.title),
            badge: Badge::of(pull),
            head: visible::line(&pull.head),
            labels: pull.labels.iter().map(|label| visible::line(label)).collect(),
            opened: at.moment(pull.created_at),
            ended: pull.ended_at.map(|ended| (pull.state.name(), at.moment(ended))),
        }
    }
}

/// Responds with the list, or with an error page.
pub(super) async fn list(State(shared): State<Shared>, at: InProject, Query(query): Query<ListQuery>) -> Response {
    at.answer(match at.is_hosted() {
        true => page(&shared, &at, query.state.as_deref() == Some("ended")).await,
        false if at.has_pulls() => remote::page(&shared, &at, &query).await,
        false => Err(Failure::NoPulls),
    })
}

async fn page(shared: &Shared, at: &InProject, shows_ended: bool) -> Page {
    let pulls = shared.services.pulls.pulls(&at.project).await?;
    let (open, ended): (Vec<&LocalPull>, Vec<&LocalPull>) =
        pulls.iter().partition(|pull| pull.state == PullState::Open);
    let shown = if shows_ended { &ended } else { &open };
    rendered(&ListPage {
        at,
        frame: at,
        rows: shown.iter().map(|pull| Row::new(at, pull)).collect(),
        open: open.len(),
        ended: ended.len(),
        shows_ended,
        curl: crate::pages::projects::curl(at, at.project.id.as_str(), "$JOURNEYMAN_KEY"),
    })
}
