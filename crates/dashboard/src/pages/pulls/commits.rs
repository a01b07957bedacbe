//! The tab with the commits of a pull request.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use journeyman_core::ports::CommitLine;

use super::Target;
use super::bar::Bar;
use super::read::Read;
use crate::diff::Outline;
use crate::failure::{Page, rendered};
use crate::frame::Frame;
use crate::moment::Moment;
use crate::pages::part;
use crate::{Shared, visible};

#[derive(Template)]
#[template(path = "pull_commits.html")]
struct CommitsPage<'a> {
    at: &'a Target,
    frame: &'a Frame,
    bar: Bar,
    rows: Vec<CommitRow<'a>>,
}

struct CommitRow<'a> {
    sha: &'a str,
    short: &'a str,
    /// The changes of the commit; `None` if no job can show them.
    href: Option<String>,
    subject: String,
    author: String,
    at: Moment,
}

impl<'a> CommitRow<'a> {
    fn new(target: &Target, commit: &'a CommitLine, has_job: bool) -> Self {
        Self {
            sha: commit.sha.as_str(),
            short: part::short(&commit.sha),
            href: has_job.then(|| target.page(&format!("/files?commit={}", commit.sha))),
            subject: visible::line(&commit.subject).into_owned(),
            author: visible::line(&commit.author).into_owned(),
            at: target.moment(commit.at),
        }
    }
}

pub(super) async fn show(State(shared): State<Shared>, target: Target) -> Response {
    target.answer(page(&shared, &target).await)
}

async fn page(shared: &Shared, target: &Target) -> Page {
    let read = Read::of(shared, target).await?;
    let bar = Bar::new(target, &read, &Outline::of(&read.detail.diff));
    let has_job = read.job.is_some();
    let rows = read.detail.commits.iter().map(|commit| CommitRow::new(target, commit, has_job)).collect();
    rendered(&CommitsPage { at: target, frame: target, bar, rows })
}
