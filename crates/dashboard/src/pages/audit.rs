//! `/audit`: the audit log as sentences, with filters in the URL, and as a file. For administrators.

mod choice;
mod filter;
mod people;
mod sentence;

use askama::Template;
use axum::Router;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::stream::try_unfold;
use journeyman_app::{AuditFormat, Error};
use journeyman_core::audit::AuditFilter;

use self::choice::{Choice, choices};
use self::filter::{AuditParameters, KINDS};
use self::people::People;
use self::sentence::Sentence;
use crate::Shared;
use crate::failure::{Page, rendered};
use crate::frame::Frame;
use crate::moment::Moment;

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/audit", get(show)).route("/audit/export", get(export))
}

/// The number of entries on a page.
const ON_PAGE: usize = 50;

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage<'a> {
    frame: &'a Frame,
    rows: Vec<Row>,
    people: Vec<Choice>,
    kinds: Vec<Choice>,
    projects: Vec<Choice>,
    from: String,
    to: String,
    is_filtered: bool,
    table: String,
    json: String,
    older: Option<String>,
    newest: Option<String>,
}

struct Row {
    number: u64,
    at: Moment,
    sentence: Sentence,
    action: String,
}

async fn show(State(shared): State<Shared>, frame: Frame, Query(query): Query<AuditParameters>) -> Response {
    frame.answer(page(&shared, &frame, &query).await)
}

async fn page(shared: &Shared, frame: &Frame, query: &AuditParameters) -> Page {
    frame.needs_administrator()?;
    let people = People::read(shared).await?;
    let projects = shared.services.store.projects().await?;
    let filter = AuditFilter { limit: ON_PAGE + 1, ..query.filter(shared, &people).await? };
    let mut lines = frame.cases().audit_log(&frame.caller(), filter).await?;
    let has_more = lines.len() > ON_PAGE;
    lines.truncate(ON_PAGE);
    let older = lines.last().filter(|_| has_more).map(|line| query.path("/audit", &format!("before={}", line.number)));
    let rows = lines.iter().map(|line| Row {
        number: line.number,
        at: frame.moment(line.entry.at),
        sentence: Sentence::new(&line.entry, &people),
        action: crate::visible::line(&line.entry.action).into_owned(),
    });
    rendered(&AuditPage {
        frame,
        rows: rows.collect(),
        people: people.choices(query.who.as_deref()),
        kinds: choices(KINDS.iter().map(|(value, label)| (*value, *label)), query.what.as_deref()),
        projects: choices(
            projects.iter().map(|project| (project.id.as_str(), project.id.as_str())),
            query.project.as_deref(),
        ),
        from: filter::given(query.from.as_ref()).unwrap_or_default().to_owned(),
        to: filter::given(query.to.as_ref()).unwrap_or_default().to_owned(),
        is_filtered: query.is_filtered(),
        table: query.path("/audit/export", "format=csv"),
        json: query.path("/audit/export", "format=jsonl"),
        older,
        newest: filter::given(query.before.as_ref()).map(|_| query.path("/audit", "")),
    })
}

async fn export(State(shared): State<Shared>, frame: Frame, Query(query): Query<AuditParameters>) -> Response {
    frame.answer(file(&shared, &frame, &query).await)
}

/// Returns all selected entries as a file.
async fn file(shared: &Shared, frame: &Frame, query: &AuditParameters) -> Page {
    frame.needs_administrator()?;
    let people = People::read(shared).await?;
    // The export has all entries, and not those of a page.
    let filter = AuditFilter { before: None, ..query.filter(shared, &people).await? };
    let format = query.format()?;
    let (kind, name) = match format {
        AuditFormat::JsonLines => ("application/jsonl; charset=utf-8", "audit.jsonl"),
        AuditFormat::Csv => ("text/csv; charset=utf-8; header=present", "audit.csv"),
    };
    let export = frame.cases().export_audit(frame.caller(), filter, format).await?;
    let parts = try_unfold(export, async |mut export| Ok::<_, Error>(export.part().await?.map(|part| (part, export))));
    let headers = [
        (CONTENT_TYPE, kind.to_owned()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
        (CACHE_CONTROL, "no-store".to_owned()),
    ];
    Ok((headers, Body::from_stream(parts)).into_response())
}
