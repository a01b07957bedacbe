//! The tab with the files that a pull request changes: all changes, those of one message, or one commit.

use std::collections::HashSet;
use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use journeyman_core::ids::Sha;
use journeyman_core::ports::beginning;

use super::bar::Bar;
use super::comments::Renderer;
use super::read::{Form, Read, Refused};
use super::review_form::{Audience, ReviewForm};
use super::{Target, detail, live};
use crate::Shared;
use crate::diff::{Appearance, DiffShown, LineKey, Nav, Outline, PageLine, Step};
use crate::failure::{Failure, Page};
use crate::fragment::Fragment;
use crate::frame::Frame;
use crate::highlight::{Budget, Highlighter};
use crate::pages::line_form::LineForm;
use crate::pages::more_lines::{self, Wanted};
use crate::pages::part::{MAX_DIFF_BYTES, Part, Turn, turns};

#[derive(Template)]
#[template(path = "pull_files.html")]
struct FilesPage<'a> {
    at: &'a Target,
    frame: &'a Frame,
    bar: Bar,
    diff: DiffShown<'a>,
    review: ReviewForm,
    /// The form for a comment, which a script copies to a line.
    pattern: Option<Fragment>,
    /// The ID and the URL of the stream that keeps the comments up to date; `None` for a part of the changes.
    live: Option<(String, String)>,
}

/// A line whose form is open, with the text and the reason why it was refused.
struct OpenForm {
    key: LineKey,
    draft: String,
    error: String,
}

pub(super) async fn show(State(shared): State<Shared>, target: Target, RawQuery(query): RawQuery) -> Response {
    let target = Arc::new(target);
    target.answer(page(&shared, &target, query.as_deref(), None).await)
}

/// Responds with more lines of a file.
pub(super) async fn lines(
    State(shared): State<Shared>,
    target: Target,
    RawQuery(query): RawQuery,
    Query(wanted): Query<Wanted>,
) -> Response {
    let read = async {
        let read = Read::of(&shared, &target).await?;
        let (part, _) = part(&read, query.as_deref())?;
        Ok::<_, Failure>((read, part))
    };
    match read.await {
        Ok((Read { job: Some(job), detail, .. }, part)) => {
            let head = detail.commits.last().map(|commit| &commit.sha);
            more_lines::respond(&target, &job, part.commits().last().or(head), wanted).await
        }
        Ok(_) => Failure::NotFound("file").page(&target),
        Err(failure) => failure.page(&target),
    }
}

/// Renders the page again after the form for a line was refused.
pub(super) async fn refused(shared: &Shared, target: &Arc<Target>, appearance: Appearance, refused: Refused) -> Page {
    page(shared, target, Some(&appearance.query()), Some(refused)).await
}

/// Returns the part of the changes that a query selects, and the turns whose commits are in the pull request.
fn part(read: &Read, query: Option<&str>) -> Result<(Part, Vec<Turn>), Failure> {
    let own: Vec<Sha> = read.detail.commits.iter().map(|commit| commit.sha.clone()).collect();
    let known: HashSet<&Sha> = own.iter().collect();
    let mut turns = turns(&read.messages);
    // A job that went on after a merge has other pull requests too.
    for turn in turns.iter_mut().filter(|turn| !turn.commits.iter().any(|commit| known.contains(commit))) {
        *turn = Turn::default();
    }
    let part = Part::of_query(query, &turns, &own).ok_or(Failure::NotFound("commit"))?;
    Ok((part, turns))
}

async fn page(shared: &Shared, target: &Arc<Target>, query: Option<&str>, refused: Option<Refused>) -> Page {
    let mut read = Read::of(shared, target).await?;
    let (part, turns) = part(&read, query)?;
    let bar = Bar::new(target, &read, &Outline::of(&read.detail.diff));
    if matches!(&refused, Some(Refused { form: Form::Line(key), .. }) if !has_line(&read, key)) {
        // The diff no longer has the line, so the text is kept in the form for comments.
        return detail::page(shared, target, refused).await;
    }
    let status = if refused.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let tip = part.commits().last().or_else(|| read.detail.commits.last().map(|commit| &commit.sha));
    let link = |tip: &Sha| Wanted::link(&target.page("/files/lines"), tip, part.query().as_deref());
    let is_part = part != Part::All;
    let nav = Nav {
        choices: part.choices(&turns, Some(bar.size.clone())),
        more: tip.filter(|_| read.job.is_some()).map(link),
        key: format!("{}/{}/{}", target.viewer.user.id, target.project.id, target.number),
        send: None,
        note: is_part.then_some("To comment on a line, choose All."),
        part: part.query(),
    };
    if is_part {
        let job = read.job.as_ref().ok_or(Failure::NotFound("commit"))?;
        let _permit = shared.may_run_git(target.viewer.user.id).await?;
        let diff = shared.services.diffs.diff_of_commits(&target.project, job, part.commits()).await;
        let diff = diff.map_err(|error| Failure::Render(error.to_string()))?;
        let shown = beginning(diff, MAX_DIFF_BYTES).await.map_err(|error| Failure::Render(error.to_string()))?;
        read.detail.diff = String::from_utf8_lossy(&shown.0).into_owned();
        read.detail.diff_cut = shown.1;
    }
    let takes_comments = target.viewer.can_write() && !is_part;
    let selected = PageLine::of_query(query).filter(|_| takes_comments);
    let (at, highlighter, appearance) = (Arc::clone(target), shared.highlighter.clone(), Appearance::of_query(query));
    // Highlighting a diff takes more CPU time than other requests should wait for.
    let html = tokio::task::spawn_blocking(move || {
        let open = refused.and_then(open_form);
        render(&at, &read, bar, nav, (appearance, takes_comments, selected, open), &highlighter)
    });
    let html = html.await.map_err(|error| Failure::Render(error.to_string()))??;
    Ok((status, Html(html)).into_response())
}

fn has_line(read: &Read, key: &LineKey) -> bool {
    crate::diff::position_of(&read.detail.diff, key.clone()).is_some()
}

fn open_form(refused: Refused) -> Option<OpenForm> {
    match refused.form {
        Form::Line(key) => Some(OpenForm { key, draft: refused.draft, error: refused.error }),
        Form::Comment | Form::Review(_) => None,
    }
}

fn render(
    at: &Target,
    read: &Read,
    bar: Bar,
    nav: Nav,
    (appearance, takes_comments, selected, open): (Appearance, bool, Option<PageLine>, Option<OpenForm>),
    highlighter: &Highlighter,
) -> askama::Result<String> {
    let mut budget = Budget::page();
    // The lines of a comment are those of all changes.
    let comments = if nav.part.is_none() { read.comments.as_slice() } else { &[] };
    let commented = comments.iter().filter_map(|one| one.comment.line.as_ref()).map(LineKey::of);
    let kept: Vec<LineKey> = commented.chain(open.iter().map(|open| open.key.clone())).collect();
    let (text, is_cut) = (&read.detail.diff, read.detail.diff_cut);
    let mut diff = DiffShown::new(text, is_cut, appearance, &kept, highlighter, &mut budget).with_nav(nav);
    diff.takes_comments = takes_comments;
    let mut live = None;
    let audience = Audience::of(at, read.job.as_ref());
    let form =
        |key: Option<&LineKey>, draft: &str, error: Option<&str>| form(at, appearance, audience, (key, draft, error));
    if diff.nav.part.is_none() {
        live = Some(live::source(at, None, &read.comments));
        let renderer = Renderer { at, progress: &read.progress, highlighter, appearance };
        renderer.attach(&read.comments, &mut diff, &mut budget)?;
    }
    if let Some(OpenForm { key, draft, error }) = &open {
        diff.attach(key, form(Some(key), draft.as_str(), Some(error.as_str()))?);
    } else if let Some(key) = selected.and_then(|selected| diff.key(selected)) {
        diff.attach(&key, form(Some(&key), "", None)?);
    }
    let pattern = takes_comments.then(|| form(None, "", None)).transpose()?;
    FilesPage { at, frame: at, bar, diff, review: ReviewForm::new(audience), pattern, live }.render()
}

fn form(
    at: &Target,
    appearance: Appearance,
    audience: Audience,
    (key, draft, error): (Option<&LineKey>, &str, Option<&str>),
) -> askama::Result<Fragment> {
    let action = at.page("/lines");
    let review_hint = Some(audience.of_line());
    Fragment::of(&LineForm { frame: at, action, key, appearance, part: None, draft, error, review_hint })
}
