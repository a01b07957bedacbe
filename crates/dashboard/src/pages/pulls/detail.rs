//! The page of a pull request: its description, commits, comments and changes.

use std::borrow::Cow;
use std::sync::Arc;

use askama::Template;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use journeyman_core::job::Job;
use journeyman_core::ports::{CommitLine, PullDetail};
use journeyman_core::pull::{Comment, PullState};

use super::Target;
use super::badge::Badge;
use crate::diff::{DiffShown, DiffView};
use crate::failure::{Failure, Page};
use crate::frame::Frame;
use crate::highlight::{Budget, Highlighter};
use crate::markdown::{self, Markup};
use crate::moment::Moment;
use crate::words::counted;
use crate::{Shared, shell, visible};

#[derive(Template)]
#[template(path = "pull.html")]
struct DetailPage<'a> {
    at: &'a Target,
    frame: &'a Frame,
    number: u64,
    title: Cow<'a, str>,
    badge: Badge,
    state: &'static str,
    open: bool,
    mergeable: bool,
    head: Cow<'a, str>,
    base: Cow<'a, str>,
    /// The name of the head branch, quoted for a shell.
    fetch: String,
    labels: Vec<Cow<'a, str>>,
    opened: Moment,
    ended: Option<Moment>,
    body: Option<Markup>,
    comments: Vec<CommentRow>,
    commits: Vec<CommitRow<'a>>,
    commits_text: String,
    diff: DiffShown<'a>,
    /// The path and the title of the job that opened it.
    job: Option<(String, String)>,
    draft: String,
    error: Option<String>,
}

struct CommentRow {
    author: String,
    at: Moment,
    body: Markup,
    /// True if the comment was sent to the job as a message.
    sent: bool,
}

struct CommitRow<'a> {
    sha: &'a str,
    short: &'a str,
    subject: Cow<'a, str>,
    author: Cow<'a, str>,
    at: Moment,
}

impl<'a> CommitRow<'a> {
    fn new(frame: &Frame, commit: &'a CommitLine) -> Self {
        let sha = commit.sha.as_str();
        Self {
            sha,
            short: sha.get(..8).unwrap_or(sha),
            subject: visible::line(&commit.subject),
            author: visible::line(&commit.author),
            at: frame.moment(commit.at),
        }
    }
}

/// The data of the page.
struct Read {
    detail: PullDetail,
    comments: Vec<Comment>,
    job: Option<Job>,
    /// A refused comment, and the reason.
    refused: Option<(String, String)>,
}

impl<'a> DetailPage<'a> {
    fn new(at: &'a Target, read: &'a Read, view: DiffView, highlighter: &Highlighter) -> Self {
        let (pull, mut budget) = (&read.detail.pull, Budget::page());
        let body = pull.body.trim();
        let job = read.job.as_ref();
        Self {
            at,
            frame: at,
            number: pull.number,
            title: visible::line(&pull.title),
            badge: Badge::of(pull),
            state: pull.state.name(),
            open: pull.state == PullState::Open,
            mergeable: read.detail.mergeable,
            head: visible::line(&pull.head),
            base: visible::line(&pull.base),
            fetch: visible::line(&shell::word(&pull.head)).into_owned(),
            labels: pull.labels.iter().map(|label| visible::line(label)).collect(),
            opened: at.moment(pull.created_at),
            ended: pull.ended_at.map(|ended| at.moment(ended)),
            body: (!body.is_empty()).then(|| markdown::html_within(body, highlighter, &mut budget)),
            comments: (read.comments.iter())
                .map(|row| CommentRow {
                    author: visible::line(&row.comment.author).into_owned(),
                    at: at.moment(row.comment.at),
                    body: markdown::html_within(&row.comment.body, highlighter, &mut budget),
                    sent: row.comment.message.is_some(),
                })
                .collect(),
            commits: read.detail.commits.iter().map(|commit| CommitRow::new(at, commit)).collect(),
            commits_text: counted(read.detail.commits.len(), "commit"),
            diff: DiffShown::new(&read.detail.diff, read.detail.diff_cut, view, highlighter, &mut budget),
            job: job.map(|job| (at.path(&format!("/jobs/{}", job.id)), visible::line(&job.title).into_owned())),
            draft: read.refused.as_ref().map(|(draft, _)| draft.clone()).unwrap_or_default(),
            error: read.refused.as_ref().map(|(_, error)| error.clone()),
        }
    }
}

/// Responds with the page of a pull request, or with an error page.
pub(super) async fn detail(State(shared): State<Shared>, target: Target, RawQuery(query): RawQuery) -> Response {
    let target = Arc::new(target);
    target.answer(page(&shared, &target, DiffView::of_query(query.as_deref()), None).await)
}

/// Renders the page again after a comment was refused, with its text and the reason.
pub(super) async fn refused(shared: &Shared, target: Target, draft: String, error: String) -> Page {
    page(shared, &Arc::new(target), DiffView::default(), Some((draft, error))).await
}

async fn page(shared: &Shared, target: &Arc<Target>, view: DiffView, refused: Option<(String, String)>) -> Page {
    let detail = shared.services.pulls.pull(&target.project, target.number).await?;
    let comments = shared.services.store.comments(detail.pull.repository.clone(), target.number).await?;
    let job = target.cases().job_of_pull(&target.caller(), &target.project.id, &detail.pull).await?;
    let status = if refused.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let read = Read { detail, comments, job, refused };
    let (target, highlighter) = (Arc::clone(target), shared.highlighter.clone());
    // Highlighting a diff takes more CPU time than other requests should wait for.
    let page = tokio::task::spawn_blocking(move || DetailPage::new(&target, &read, view, &highlighter).render());
    let html = page.await.map_err(|error| Failure::Render(error.to_string()))??;
    Ok((status, Html(html)).into_response())
}
