//! More lines of a file around a hunk of a diff, which a script adds to the page.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use journeyman_core::ids::Sha;
use journeyman_core::job::Job;
use serde::Deserialize;

use crate::diff::{DiffView, Piece, of_lines};
use crate::failure::Failure;
use crate::highlight::{Budget, Highlighter};
use crate::in_project::InProject;

/// The maximum number of lines of a response.
const MOST_LINES: u32 = 200;

/// The lines that a script asks for.
#[derive(Debug, Deserialize)]
pub(super) struct Wanted {
    /// The path of the file.
    path: String,
    /// The first line in the new file.
    from: u32,
    /// The last line in the new file.
    to: u32,
    /// The number of the same line in the old file, minus the number in the new file.
    shift: i64,
    /// The commit whose files the page shows.
    tip: String,
    view: Option<String>,
}

#[derive(Template)]
#[template(path = "_more_lines.html")]
struct MoreLines<'a> {
    is_split: bool,
    rows: Vec<(Option<i64>, u32, Vec<Piece<'a>>)>,
}

impl Wanted {
    /// Returns a link to the endpoint at `path`, without the parameters that the script adds.
    pub(super) fn link(path: &str, tip: &Sha, part: Option<&str>) -> String {
        let part = part.map(|part| format!("&{part}")).unwrap_or_default();
        format!("{path}?tip={tip}{part}")
    }

    fn render(&self, content: &[u8], highlighter: &Highlighter) -> askama::Result<String> {
        let text = String::from_utf8_lossy(content);
        let skipped = usize::try_from(self.from.saturating_sub(1)).unwrap_or(usize::MAX);
        let count = self.to.saturating_sub(self.from).saturating_add(1).min(MOST_LINES);
        let lines: Vec<&str> = text.lines().skip(skipped).take(usize::try_from(count).unwrap_or_default()).collect();
        let pieces = of_lines(&self.path, &lines, highlighter, &mut Budget::page());
        let row = |(pieces, number): (Vec<_>, u32)| {
            let old = i64::from(number).checked_add(self.shift).filter(|old| *old > 0);
            (old, number, pieces)
        };
        let is_split = DiffView::parse(self.view.as_deref().unwrap_or_default()) == DiffView::Split;
        MoreLines { is_split, rows: pieces.into_iter().zip(self.from..).map(row).collect() }.render()
    }
}

/// Responds with rows of the table of a file. `tip` is the commit whose files the shown part of the changes ends at, as
/// the server knows it now: lines of another commit would not match those on the page.
pub(super) async fn respond(at: &InProject, job: &Job, tip: Option<&Sha>, wanted: Wanted) -> Response {
    let Some(tip) = tip.filter(|tip| tip.as_str() == wanted.tip) else {
        return (StatusCode::CONFLICT, "The changes are newer than this page. Reload it.\n").into_response();
    };
    let page = async {
        let services = &at.shared.services;
        let _permit = at.shared.may_run_git(at.viewer.user.id).await?;
        let content = services.diffs.file(&at.project, job, tip, &wanted.path).await;
        let content = content.map_err(|error| Failure::Render(error.to_string()))?;
        let content = content.ok_or(Failure::NotFound("file"))?;
        let highlighter = at.shared.highlighter.clone();
        let html = tokio::task::spawn_blocking(move || wanted.render(&content, &highlighter)).await;
        Ok(Html(html.map_err(|error| Failure::Render(error.to_string()))??).into_response())
    };
    at.answer(page.await)
}
