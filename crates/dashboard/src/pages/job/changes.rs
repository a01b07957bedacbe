//! The tab with the changes of a job: all of them relative to its base, those of one message, or one commit.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use journeyman_core::ids::Sha;
use journeyman_core::job::{Job, JobStatus};
use journeyman_core::ports::beginning;

use super::InJob;
use super::head::{self, Parts};
use crate::diff::{Appearance, DiffShown, LineKey, Nav, PageLine, Step};
use crate::failure::{Failure, Page};
use crate::fragment::Fragment;
use crate::frame::Frame;
use crate::highlight::{Budget, Highlighter};
use crate::pages::line_form::LineForm;
use crate::pages::more_lines::{self, Wanted};
use crate::pages::part::{MAX_DIFF_BYTES, Part, turns};
use crate::size::Size;
use crate::{Shared, visible};

#[derive(Template)]
#[template(path = "job_changes.html")]
struct ChangesPage<'a> {
    at: &'a InJob,
    frame: &'a Frame,
    title: String,
    parts: Parts,
    diff: DiffShown<'a>,
    /// The reason why comments were not sent.
    error: Option<String>,
    /// The text of a comment whose line the diff no longer has.
    unsent: Option<String>,
    /// The form for a comment, which a script copies to a line.
    form: Option<Fragment>,
}

pub(super) async fn show(State(shared): State<Shared>, at: InJob, RawQuery(query): RawQuery) -> Response {
    let at = Arc::new(at);
    let selected = PageLine::of_query(query.as_deref()).filter(|_| takes_comments(&at));
    at.answer(page(&shared, &at, query.as_deref(), selected, None).await)
}

/// Responds with more lines of a file.
pub(super) async fn lines(
    State(shared): State<Shared>,
    at: InJob,
    RawQuery(query): RawQuery,
    Query(wanted): Query<Wanted>,
) -> Response {
    match part(&shared, &at, query.as_deref()).await {
        Ok((part, _)) => more_lines::respond(&at, &at.job, tip(&at.job, &part), wanted).await,
        Err(failure) => failure.page(&at),
    }
}

/// Returns true if the viewer can send comments on lines to the agent.
pub(super) fn takes_comments(at: &InJob) -> bool {
    at.viewer.can_write() && at.job.status() != JobStatus::Archived
}

/// Returns the commit whose files a part of the changes ends at.
fn tip<'a>(job: &'a Job, part: &'a Part) -> Option<&'a Sha> {
    part.commits().last().or_else(|| job.branch.as_ref().map(|branch| &branch.head))
}

/// Returns the part of the changes that a query selects, and the navigation of its diff.
async fn part(shared: &Shared, at: &InJob, query: Option<&str>) -> Result<(Part, Nav), Failure> {
    let turns = turns(&shared.services.store.messages(at.job.id).await?);
    let part = Part::of_query(query, &turns, &[]).ok_or(Failure::NotFound("commit"))?;
    let query = part.query();
    let more = tip(&at.job, &part).map(|tip| Wanted::link(&at.page("/changes/lines"), tip, query.as_deref()));
    let nav = Nav {
        choices: part.choices(&turns, Size::of(at.job.diff)),
        more,
        key: format!("{}/{}", at.viewer.user.id, at.job.id),
        send: takes_comments(at).then(|| at.page("/changes/comments")),
        part: query,
        note: None,
    };
    Ok((part, nav))
}

/// Reads the diff of the part that a query selects.
pub(super) async fn read(shared: &Shared, at: &InJob, query: Option<&str>) -> Result<(Part, Nav, Cut), Failure> {
    let (part, nav) = part(shared, at, query).await?;
    let _permit = shared.may_run_git(at.viewer.user.id).await?;
    let diffs = &shared.services.diffs;
    let diff = match part.commits() {
        [] => diffs.diff(&at.project, &at.job).await,
        commits => diffs.diff_of_commits(&at.project, &at.job, commits).await,
    };
    let diff = diff.map_err(|error| Failure::Render(error.to_string()))?;
    let diff = beginning(diff, MAX_DIFF_BYTES).await.map_err(|error| Failure::Render(error.to_string()))?;
    Ok((part, nav, diff))
}

/// The beginning of a diff, and whether there is more of it.
type Cut = (Vec<u8>, bool);

/// Renders the page again after comments were refused.
pub(super) async fn refused(shared: &Shared, at: &Arc<InJob>, query: Option<&str>, refused: Refused) -> Page {
    page(shared, at, query, None, Some(refused)).await
}

async fn page(
    shared: &Shared,
    at: &Arc<InJob>,
    query: Option<&str>,
    selected: Option<PageLine>,
    refused: Option<Refused>,
) -> Page {
    let messages = shared.services.store.messages(at.job.id).await?;
    let parts = head::parts(shared, at, &messages).await?;
    let (_, nav, diff) = read(shared, at, query).await?;
    let status = if refused.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let (at, highlighter, appearance) = (Arc::clone(at), shared.highlighter.clone(), Appearance::of_query(query));
    // Highlighting a diff takes more CPU time than other requests should wait for.
    let render = move || render(&at, parts, &diff, nav, (appearance, selected, refused), &highlighter);
    let html = tokio::task::spawn_blocking(render).await;
    Ok((status, Html(html.map_err(|error| Failure::Render(error.to_string()))??)).into_response())
}

fn render(
    at: &InJob,
    parts: Parts,
    (diff, is_cut): &Cut,
    nav: Nav,
    (appearance, selected, refused): (Appearance, Option<PageLine>, Option<Refused>),
    highlighter: &Highlighter,
) -> askama::Result<String> {
    let text = String::from_utf8_lossy(diff);
    let part = nav.part.clone();
    let line = refused.as_ref().and_then(|refused| refused.line.as_ref());
    let kept: Vec<LineKey> = line.map(|(key, _)| key.clone()).into_iter().collect();
    let diff = DiffShown::new(&text, *is_cut, appearance, &kept, highlighter, &mut Budget::page());
    let mut diff = diff.with_nav(nav);
    diff.takes_comments = takes_comments(at);
    let mut error = refused.as_ref().map(|refused| refused.error.clone());
    let mut unsent = None;
    let refused = refused.and_then(|refused| refused.line);
    let commented = refused.or_else(|| Some((diff.key(selected?)?, String::new())));
    let pattern = LineForm {
        frame: at,
        action: at.page("/changes/comments"),
        key: None,
        appearance,
        part: part.as_deref(),
        draft: "",
        error: None,
        review_hint: None,
    };
    let form = diff.takes_comments.then(|| Fragment::of(&pattern)).transpose()?;
    if let Some((key, draft)) = &commented {
        let action = at.page("/changes/comments");
        let form = LineForm { action, key: Some(key), draft, error: error.as_deref(), ..pattern };
        if diff.attach(key, Fragment::of(&form)?) {
            // The form says why it was refused.
            error = None;
        } else if !draft.is_empty() {
            unsent = Some(draft.clone());
        }
    }
    let title = visible::line(&at.job.title).into_owned();
    ChangesPage { at, frame: at, title, parts, diff, error, unsent, form }.render()
}

/// Comments that were refused.
pub(super) struct Refused {
    /// The reason.
    pub(super) error: String,
    /// The line and the text of a comment that was sent on its own. The browser keeps the others.
    pub(super) line: Option<(LineKey, String)>,
}
