//! Comments on lines of a job's changes, which go to the job as one message. The browser collects them; without scripts,
//! each is sent on its own.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use journeyman_app::{Error, LineComments};
use journeyman_core::pull::LinePosition;
use serde::Deserialize;

use super::InJob;
use super::changes::{self, Refused};
use crate::Shared;
use crate::diff::{LineKey, position_of};
use crate::failure::{Failure, Page, refusal};
use crate::fields::Fields;
use crate::pages::line_form::{appearance, key, key_of, no_line};
use crate::pages::part::Part;

/// A comment that the browser has collected, as JSON in a field of the form.
#[derive(Deserialize)]
struct Held {
    path: String,
    side: String,
    line: u64,
    body: String,
}

pub(super) async fn send(State(shared): State<Shared>, at: InJob, fields: Fields) -> Response {
    let frame = at.at.frame.clone();
    frame.answer(send_page(&shared, &Arc::new(at), &fields).await)
}

async fn send_page(shared: &Shared, at: &Arc<InJob>, fields: &Fields) -> Page {
    at.needs_write()?;
    let appearance = appearance(fields).query();
    let query = format!("{appearance}{}", fields.text("part"));
    let comments = comments(fields)?;
    let (part, _, diff) = changes::read(shared, at, Some(&query)).await?;
    let single = comments.first().filter(|_| fields.all("comment").is_empty()).cloned();
    let done = match with_positions(&diff.0, comments) {
        Ok(comments) => {
            let subject = match &part {
                Part::All => "the changes of this job".to_owned(),
                Part::Message { number, .. } => format!("the changes of message {number} of this job"),
                Part::Commit([commit]) => format!("the commit {commit} of this job"),
            };
            let new = LineComments { subject, comments };
            let once = fields.once(&format!("comments {} {}", at.job.id, new.fingerprint_text()));
            at.cases().comment_on_changes(&at.caller(), &at.project.id, at.job.id, new, once).await
        }
        Err(error) => Err(error),
    };
    match done {
        Ok(_) => {
            let part = part.query().map(|part| format!("{part}&")).unwrap_or_default();
            Ok(Redirect::to(&at.page(&format!("/changes?{appearance}{part}done=comments_sent"))).into_response())
        }
        Err(error) => {
            let refused = Refused { error: refusal(error)?, line: single };
            changes::refused(shared, at, Some(&query), refused).await
        }
    }
}

/// Reads the comments of a form: those that the browser has collected, or a single one.
fn comments(fields: &Fields) -> Result<Vec<(LineKey, String)>, Failure> {
    let held = fields.all("comment");
    if held.is_empty() {
        return Ok(vec![(key(fields)?, fields.text("body"))]);
    }
    let read = |text: &String| {
        let Held { path, side, line, body } = serde_json::from_str(text).ok()?;
        Some((key_of(path, &side, &line.to_string())?, body))
    };
    held.iter().map(read).collect::<Option<Vec<_>>>().ok_or_else(no_line)
}

/// Finds the positions of comments in the diff.
fn with_positions(diff: &[u8], comments: Vec<(LineKey, String)>) -> Result<Vec<(LinePosition, String)>, Error> {
    let text = String::from_utf8_lossy(diff);
    let with_position = |(key, body): (LineKey, String)| {
        let LineKey { path, line, .. } = &key;
        let missing = format!("line {line} of {path} is no longer part of the changes; choose the line again");
        position_of(&text, key).map(|position| (position, body)).ok_or_else(|| Error::invalid(missing))
    };
    comments.into_iter().map(with_position).collect()
}
