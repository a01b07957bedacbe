//! The tab with the job's record in the HTTP interface, and with example requests.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::InJob;
use super::head::{self, Parts};
use crate::failure::{Failure, Page, rendered};
use crate::frame::Frame;
use crate::{Shared, visible};

#[derive(Template)]
#[template(path = "job_record.html")]
struct RecordPage<'a> {
    at: &'a InJob,
    frame: &'a Frame,
    title: String,
    parts: Parts,
    record: String,
    read: String,
    send: String,
}

pub(super) async fn show(State(shared): State<Shared>, at: InJob) -> Response {
    at.answer(page(&shared, &at).await)
}

async fn page(shared: &Shared, at: &InJob) -> Page {
    let messages = shared.services.store.messages(at.job.id).await?;
    let parts = head::parts(shared, at, &messages).await?;
    let record = serde_json::to_string_pretty(&at.job.record()).map_err(|error| Failure::Render(error.to_string()))?;
    let url = format!("{}{}", shared.settings.public_url, at.job_api(""));
    let key = "-H \"Authorization: Bearer $JOURNEYMAN_KEY\"";
    rendered(&RecordPage {
        at,
        frame: at,
        title: visible::line(&at.job.title).into_owned(),
        parts,
        record: visible::lines(&record).into_owned(),
        read: format!("curl {key} \\\n  {url}"),
        send: format!(
            "curl {key} \\\n  -H \"Content-Type: application/json\" -H \"Idempotency-Key: $(uuidgen)\" \\\n  \
             -d '{{\"prompt\": \"Add a test for it\"}}' \\\n  {url}/message"
        ),
    })
}
