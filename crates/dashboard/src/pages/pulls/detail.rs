//! The page of a pull request: its description, commits, comments and changes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use journeyman_core::job::Job;
use journeyman_core::ports::{CommitLine, PullDetail};
use journeyman_core::pull::body::without_markers;
use journeyman_core::pull::{Comment, DiffSide, PullState};

use super::Target;
use super::badge::Badge;
use super::comments::{self, Progress, Renderer};
use crate::diff::{DiffShown, DiffView, LineKey, Selected};
use crate::failure::{Failure, Page};
use crate::fragment::Fragment;
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
    comments: Vec<Fragment>,
    /// The number of comments that the viewer has collected for a review.
    drafts: usize,
    commits: Vec<CommitRow<'a>>,
    commits_text: String,
    diff: DiffShown<'a>,
    /// The path and the title of the job that opened it.
    job: Option<(String, String)>,
    comment: FormState,
    review: FormState,
}

/// The text of a form that was refused, and the reason.
#[derive(Default)]
struct FormState {
    draft: String,
    error: Option<String>,
}

#[derive(Template)]
#[template(path = "_line_form.html")]
struct LineForm<'a> {
    at: &'a Target,
    frame: &'a Frame,
    key: LineKey,
    view: &'static str,
    draft: &'a str,
    error: Option<&'a str>,
}

impl<'a> LineForm<'a> {
    /// Returns the form for the line that the URL selects, or whose form was refused.
    fn of(at: &'a Target, read: &'a Read, diff: &DiffShown<'_>) -> Option<Self> {
        let (key, draft, error) = match &read.refused {
            Some(Refused { form: Form::Line(key), draft, error }) => {
                (key.clone(), draft.as_str(), Some(error.as_str()))
            }
            _ => (diff.key(read.selected?)?, "", None),
        };
        Some(Self { at, frame: at, key, view: diff.view.name(), draft, error })
    }

    fn is_removed(&self) -> bool {
        self.key.side == DiffSide::Old
    }
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

/// A form of the page.
pub(super) enum Form {
    Comment,
    Review,
    Line(LineKey),
}

/// A form that was refused, with its text and the reason.
pub(super) struct Refused {
    pub(super) form: Form,
    pub(super) draft: String,
    pub(super) error: String,
}

impl Refused {
    /// Returns the state of the comment form, and of the form of the review.
    fn states(refused: Option<&Self>) -> (FormState, FormState) {
        let state = |refused: &Self| FormState { draft: refused.draft.clone(), error: Some(refused.error.clone()) };
        match refused {
            Some(refused @ Self { form: Form::Comment, .. }) => (state(refused), FormState::default()),
            Some(refused @ Self { form: Form::Review, .. }) => (FormState::default(), state(refused)),
            Some(_) | None => Default::default(),
        }
    }
}

/// The data of the page.
struct Read {
    detail: PullDetail,
    comments: Vec<Comment>,
    progress: HashMap<u64, Progress>,
    job: Option<Job>,
    refused: Option<Refused>,
    selected: Option<Selected>,
}

impl<'a> DetailPage<'a> {
    fn new(at: &'a Target, read: &'a Read, view: DiffView, highlighter: &Highlighter) -> askama::Result<Self> {
        let (pull, mut budget) = (&read.detail.pull, Budget::page());
        let body = without_markers(&pull.body);
        let body = (!body.is_empty()).then(|| markdown::html_within(&body, highlighter, &mut budget));
        let job = read.job.as_ref();
        let mut diff = DiffShown::new(&read.detail.diff, read.detail.diff_cut, view, highlighter, &mut budget);
        diff.takes_comments = at.viewer.can_write();
        let renderer = Renderer { at, progress: &read.progress, highlighter };
        let comments = renderer.render(&read.comments, &mut diff, &mut budget)?;
        let (mut comment, review) = Refused::states(read.refused.as_ref());
        if let Some(form) = LineForm::of(at, read, &diff) {
            let content = Fragment::of(&form)?;
            if !diff.attach(&form.key, content) {
                // The diff no longer has the line, so the text is kept in the form for comments.
                (comment.draft, comment.error) = (form.draft.to_owned(), form.error.map(str::to_owned));
            }
        }
        Ok(Self {
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
            body,
            comments,
            drafts: read.comments.iter().filter(|one| one.comment.is_draft).count(),
            commits: read.detail.commits.iter().map(|commit| CommitRow::new(at, commit)).collect(),
            commits_text: counted(read.detail.commits.len(), "commit"),
            diff,
            job: job.map(|job| (at.path(&format!("/jobs/{}", job.id)), visible::line(&job.title).into_owned())),
            comment,
            review,
        })
    }

    fn drafts_text(&self) -> String {
        counted(self.drafts, "comment")
    }
}

/// Responds with the page of a pull request, or with an error page.
pub(super) async fn detail(State(shared): State<Shared>, target: Target, RawQuery(query): RawQuery) -> Response {
    let target = Arc::new(target);
    let selected = Selected::of_query(query.as_deref()).filter(|_| target.viewer.can_write());
    target.answer(page(&shared, &target, DiffView::of_query(query.as_deref()), selected, None).await)
}

/// Renders the page again after a form was refused, with its text and the reason.
pub(super) async fn refused(shared: &Shared, target: Target, view: DiffView, refused: Refused) -> Page {
    page(shared, &Arc::new(target), view, None, Some(refused)).await
}

async fn page(
    shared: &Shared,
    target: &Arc<Target>,
    view: DiffView,
    selected: Option<Selected>,
    refused: Option<Refused>,
) -> Page {
    let detail = shared.services.pulls.pull(&target.project, target.number).await?;
    let comments = target.cases().comments_of_pull(&target.caller(), &detail.pull).await?;
    let job = target.cases().job_of_pull(&target.caller(), &target.project.id, &detail.pull).await?;
    let progress = comments::progress(shared, target, (&detail.pull, job.as_ref()), &comments).await?;
    let status = if refused.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let read = Read { detail, comments, progress, job, refused, selected };
    let (target, highlighter) = (Arc::clone(target), shared.highlighter.clone());
    // Highlighting a diff takes more CPU time than other requests should wait for.
    let page = tokio::task::spawn_blocking(move || DetailPage::new(&target, &read, view, &highlighter)?.render());
    let html = page.await.map_err(|error| Failure::Render(error.to_string()))??;
    Ok((status, Html(html)).into_response())
}
