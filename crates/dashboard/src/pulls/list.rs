//! `GET /projects/{projectId}/pulls`: the list.

use std::borrow::Cow;

use askama::Template;
use axum::extract::State;
use axum::response::{Html, IntoResponse, Response};
use journeyman_core::ports::PullPagesError;
use journeyman_core::pull::{LocalPull, PullState};

use super::badge::Badge;
use crate::Shared;
use crate::failure::Failure;
use crate::frame::Frame;
use crate::moment::Moment;
use crate::visible;

#[derive(Template)]
#[template(path = "pulls.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    rows: Vec<Row<'a>>,
    open: usize,
    ended: usize,
}

struct Row<'a> {
    number: u64,
    path: String,
    title: Cow<'a, str>,
    badge: Badge,
    head: Cow<'a, str>,
    labels: Vec<Cow<'a, str>>,
    opened: Moment,
}

impl<'a> Row<'a> {
    fn new(frame: &Frame, pull: &'a LocalPull) -> Self {
        Self {
            number: pull.number,
            path: frame.pull_path(pull.number),
            title: visible::line(&pull.title),
            badge: Badge::of(pull),
            head: visible::line(&pull.head),
            labels: pull.labels.iter().map(|label| visible::line(label)).collect(),
            opened: pull.created_at.into(),
        }
    }
}

/// Answers with the list, or with the page of what went wrong.
pub(super) async fn list(State(shared): State<Shared>, frame: Frame) -> Response {
    page(&shared, &frame).await.unwrap_or_else(|failure| failure.page(&frame, None))
}

async fn page(shared: &Shared, frame: &Frame) -> Result<Response, Failure> {
    let pulls = shared.pages.pulls(&frame.project).await.map_err(|error| match error {
        PullPagesError::NotFound => Failure::NotHosted,
        other => Failure::Pulls(other),
    })?;
    let open = pulls.iter().filter(|pull| pull.state == PullState::Open).count();
    let page = ListPage {
        frame,
        rows: pulls.iter().map(|pull| Row::new(frame, pull)).collect(),
        open,
        ended: pulls.len() - open,
    };
    Ok(Html(page.render()?).into_response())
}
