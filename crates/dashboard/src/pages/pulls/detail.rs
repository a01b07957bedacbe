//! The tab with the conversation of a pull request: its description, its comments, and the box to merge it.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use journeyman_core::job::summary::JobSummary;
use journeyman_core::pull::body::{Done, of_pull, without_markers};

use super::bar::Bar;
use super::comments::Renderer;
use super::merge_box::MergeBox;
use super::read::{Form, Read, Refused};
use super::review_form::{Audience, ReviewForm};
use super::{Target, ending, live};
use crate::diff::{Appearance, Outline};
use crate::failure::{Failure, Page};
use crate::fragment::Fragment;
use crate::frame::Frame;
use crate::highlight::{Budget, Highlighter};
use crate::markdown::{self, Markup};
use crate::moment::Moment;
use crate::words::{counted, duration, money};
use crate::{Shared, choices, shell, visible};

#[derive(Template)]
#[template(path = "pull.html")]
struct DetailPage<'a> {
    at: &'a Target,
    frame: &'a Frame,
    bar: Bar,
    /// The name of the head branch, quoted for a shell.
    fetch: String,
    labels: Vec<String>,
    /// The agent of the job.
    agent: Option<String>,
    opened: Moment,
    /// The latest answer of the agent, or the description.
    body: Option<Markup>,
    /// The description, if the answer is shown in its place.
    description: Option<Markup>,
    /// The prompts of the job, oldest first.
    asked: Vec<String>,
    /// The comments, and the line about the end of the pull request.
    comments: Vec<Fragment>,
    /// The duration and the cost of all runs of the job.
    took: Option<String>,
    cost: Option<String>,
    merge: MergeBox,
    comment: FormState,
    review: ReviewForm,
    /// The ID and the URL of the stream that keeps the page up to date.
    live: (String, String),
}

/// The text of a form that was refused, and the reason.
#[derive(Default)]
struct FormState {
    draft: String,
    error: Option<String>,
}

impl<'a> DetailPage<'a> {
    fn new(
        at: &'a Target,
        (read, summary): (&Read, &JobSummary),
        refused: Option<Refused>,
        highlighter: &Highlighter,
    ) -> askama::Result<Self> {
        let (pull, mut budget) = (&read.detail.pull, Budget::page());
        let outline = Outline::of(&read.detail.diff);
        let done = of_pull(&read.messages, Some(pull.number));
        let answer = done.iter().rev().find_map(|message| message.answer.as_deref().map(str::trim));
        let mut text = |text: &str| (!text.is_empty()).then(|| markdown::html_within(text, highlighter, &mut budget));
        let (answer, description) = (answer.and_then(&mut text), text(without_markers(&pull.body).as_str()));
        let (body, description) = if answer.is_some() { (answer, description) } else { (description, None) };
        let asked = done.iter().map(|message| visible::lines(&Done::new(message, None).prompt).into_owned());
        let asked: Vec<String> = asked.collect();
        let renderer = Renderer { at, progress: &read.progress, highlighter, appearance: Appearance::default() };
        let mut comments = renderer.conversation(&read.comments, &outline, &mut budget)?;
        ending::add(at, read, &mut comments)?;
        let (comment, review) = states(refused, Audience::of(at, read.job.as_ref()));
        let (mut bar, mut merge) = (Bar::new(at, read, &outline), MergeBox::of(read));
        // Only the button for the next thing to do is filled: to submit a review, to merge, or to review.
        let has_review = at.viewer.can_write() && (bar.drafts > 0 || review.error.is_some());
        merge.is_next &= at.viewer.can_write() && !has_review;
        bar.is_review_next &= !has_review && !merge.is_next;
        Ok(Self {
            at,
            frame: at,
            merge,
            bar,
            fetch: visible::line(&shell::word(&pull.head)).into_owned(),
            labels: pull.labels.iter().map(|label| visible::line(label).into_owned()).collect(),
            agent: read.job.as_ref().map(|job| choices::name_of(&at.shared, &job.agent)),
            opened: at.moment(pull.created_at),
            body,
            description,
            asked,
            comments,
            took: (!summary.run_time.is_zero()).then(|| duration(summary.run_time)),
            cost: (summary.cost_micros > 0).then(|| money(summary.cost_micros)),
            comment,
            review,
            live: live::source(at, read.job.as_ref().map(|job| job.last_seq), &read.comments),
        })
    }

    /// Returns the first letter of the viewer's name.
    fn initial(&self) -> String {
        self.frame.viewer.user.name.chars().find(|c| c.is_alphanumeric()).map(String::from).unwrap_or_default()
    }

    fn asked_text(&self) -> String {
        counted(self.asked.len(), "message")
    }
}

/// Returns the state of the comment form, and of the form of the review. A text for a line that the diff no longer has
/// is kept in the form for comments.
fn states(refused: Option<Refused>, audience: Audience) -> (FormState, ReviewForm) {
    let Some(Refused { form, draft, error }) = refused else {
        return (FormState::default(), ReviewForm::new(audience));
    };
    match form {
        Form::Comment | Form::Line(_) => (FormState { draft, error: Some(error) }, ReviewForm::new(audience)),
        Form::Review(verdict) => (FormState::default(), ReviewForm::refused(audience, verdict, draft, error)),
    }
}

/// Responds with the page of a pull request, or with an error page.
pub(super) async fn detail(State(shared): State<Shared>, target: Target) -> Response {
    let target = Arc::new(target);
    target.answer(page(&shared, &target, None).await)
}

/// Renders the page again after a form was refused, with its text and the reason.
pub(super) async fn page(shared: &Shared, target: &Arc<Target>, refused: Option<Refused>) -> Page {
    let read = Read::of(shared, target).await?;
    let jobs = read.job.iter().map(|job| job.id).collect();
    let summary = shared.services.store.summaries_of_jobs(jobs).await?.into_values().next().unwrap_or_default();
    let status = if refused.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let (target, highlighter) = (Arc::clone(target), shared.highlighter.clone());
    // Markdown and parsing of a diff take more CPU time than other requests should wait for.
    let page = tokio::task::spawn_blocking(move || {
        DetailPage::new(&target, (&read, &summary), refused, &highlighter)?.render()
    });
    let html = page.await.map_err(|error| Failure::Render(error.to_string()))??;
    Ok((status, Html(html)).into_response())
}
