//! `GET /projects/{projectId}/pulls/{number}`: one pull request with its commits and its diff.

use std::borrow::Cow;

use askama::Template;
use axum::extract::State;
use axum::response::{Html, IntoResponse, Response};
use journeyman_core::ports::{CommitLine, PullDetail};
use journeyman_core::pull::PullState;

use super::badge::Badge;
use super::target::Target;
use crate::Shared;
use crate::diff::{self, FileDiff};
use crate::failure::Failure;
use crate::frame::Frame;
use crate::moment::Moment;
use crate::{shell, visible};

/// How many lines of a diff are on a page. A row of the table is many times as long as its line, and a browser with
/// hundreds of thousands of rows is of no use to anyone.
const SHOWN_LINES: usize = 20_000;

#[derive(Template)]
#[template(path = "pull.html")]
struct DetailPage<'a> {
    frame: &'a Frame,
    number: u64,
    path: String,
    title: Cow<'a, str>,
    badge: Badge,
    state: &'static str,
    open: bool,
    mergeable: bool,
    head: Cow<'a, str>,
    base: Cow<'a, str>,
    /// The head as a word of a shell.
    fetch: String,
    labels: Vec<Cow<'a, str>>,
    opened: Moment,
    ended: Option<Moment>,
    body: Cow<'a, str>,
    commits: Vec<CommitRow<'a>>,
    commits_text: String,
    files: Vec<FileDiff<'a>>,
    files_text: String,
    added: usize,
    removed: usize,
    diff_cut: bool,
}

struct CommitRow<'a> {
    sha: &'a str,
    short: &'a str,
    subject: Cow<'a, str>,
    author: Cow<'a, str>,
    at: Moment,
}

impl<'a> CommitRow<'a> {
    fn new(commit: &'a CommitLine) -> Self {
        let sha = commit.sha.as_str();
        Self {
            sha,
            short: sha.get(..8).unwrap_or(sha),
            subject: visible::line(&commit.subject),
            author: visible::line(&commit.author),
            at: commit.at.into(),
        }
    }
}

impl<'a> DetailPage<'a> {
    fn new(frame: &'a Frame, detail: &'a PullDetail) -> Self {
        let pull = &detail.pull;
        let files = diff::parse(&detail.diff, SHOWN_LINES);
        Self {
            frame,
            number: pull.number,
            path: frame.pull_path(pull.number),
            title: visible::line(&pull.title),
            badge: Badge::of(pull),
            state: pull.state.name(),
            open: pull.state == PullState::Open,
            mergeable: detail.mergeable,
            head: visible::line(&pull.head),
            base: visible::line(&pull.base),
            fetch: visible::line(&shell::word(&pull.head)).into_owned(),
            labels: pull.labels.iter().map(|label| visible::line(label)).collect(),
            opened: pull.created_at.into(),
            ended: pull.ended_at.map(Moment::from),
            body: visible::lines(pull.body.trim()),
            commits: detail.commits.iter().map(CommitRow::new).collect(),
            commits_text: counted(detail.commits.len(), "commit"),
            files_text: counted(files.len(), "file"),
            added: files.iter().map(|file| file.added).sum(),
            removed: files.iter().map(|file| file.removed).sum(),
            files,
            diff_cut: detail.diff_cut,
        }
    }
}

/// Answers with the page, or with that of what went wrong.
pub(super) async fn detail(State(shared): State<Shared>, target: Target) -> Response {
    target.answer(page(&shared, &target).await)
}

async fn page(shared: &Shared, target: &Target) -> Result<Response, Failure> {
    let detail = shared.pages.pull(&target.frame.project, target.number).await?;
    Ok(Html(DetailPage::new(&target.frame, &detail).render()?).into_response())
}

/// `1 file`, `2 files`.
fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
