//! `/audit`: the audit log, for administrators.

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;

use super::keys::{display_name, names};
use crate::failure::{Page, rendered};
use crate::frame::Frame;
use crate::moment::Moment;
use crate::{Shared, visible};

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/audit", get(show))
}

/// The number of entries on a page.
const ON_PAGE: usize = 50;

#[derive(Deserialize)]
struct AuditQuery {
    before: Option<u64>,
}

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage<'a> {
    frame: &'a Frame,
    rows: Vec<Row>,
    older: Option<u64>,
    is_older: bool,
}

struct Row {
    at: Moment,
    actor: String,
    action: String,
    subject: String,
    address: String,
}

async fn show(State(shared): State<Shared>, frame: Frame, Query(query): Query<AuditQuery>) -> Response {
    frame.answer(page(&shared, &frame, query.before).await)
}

async fn page(shared: &Shared, frame: &Frame, before: Option<u64>) -> Page {
    frame.needs_administrator()?;
    let names = names(shared).await?;
    let mut lines = shared.services.store.audit(before, ON_PAGE + 1).await?;
    let more = lines.len() > ON_PAGE;
    lines.truncate(ON_PAGE);
    let older = lines.last().filter(|_| more).map(|line| line.number);
    let rows = lines.iter().map(|line| {
        let entry = &line.entry;
        Row {
            at: frame.moment(entry.at),
            actor: display_name(&entry.actor, &names),
            action: visible::line(&entry.action).into_owned(),
            subject: display_name(&entry.subject, &names),
            address: visible::line(entry.address.as_deref().unwrap_or_default()).into_owned(),
        }
    });
    rendered(&AuditPage { frame, rows: rows.collect(), older, is_older: before.is_some() })
}
