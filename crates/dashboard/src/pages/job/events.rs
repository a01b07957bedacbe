//! The tab with the events of a job's log: one line for each, which opens to its JSON.

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use journeyman_core::job::event::LogEntry;
use journeyman_core::ports::StoreError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::InJob;
use super::head::{self, Parts};
use crate::conversation::{Sentences, TYPES};
use crate::failure::{Failure, Page, rendered};
use crate::frame::Frame;
use crate::moment::Moment;
use crate::parameter::Parameter;
use crate::words::in_query;
use crate::{Shared, visible};

/// The maximum number of events on a page.
const ON_PAGE: usize = 100;

/// The number of events that are read at a time for a filter, and the maximum number for a page.
const AT_ONCE: usize = 500;
const MAX_READ: usize = 5000;

/// The maximum length of a summary in characters.
const MAX_SUMMARY: usize = 160;

/// The most informative fields in the data of an event of an unknown type, in the order of preference.
const TELLING: [&str; 12] =
    ["text", "prompt", "title", "reason", "url", "host", "branch", "model", "status", "name", "code", "messageId"];

#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct EventsQuery {
    /// The sequence number after which the page begins.
    after: Option<String>,
    /// The type of the events.
    kind: Option<String>,
}

impl EventsQuery {
    /// Returns the sequence number after which the page begins, and the type of the events. `path` is the path of the
    /// page.
    ///
    /// # Errors
    /// A value is not allowed.
    fn read(&self, path: &str) -> Result<(u64, Option<&'static str>), Failure> {
        let after = Parameter::new("after", self.after.as_ref(), path);
        let after = after.read("the number of an event", |text| text.parse().ok())?;
        let kind = Parameter::new("kind", self.kind.as_ref(), path).one_of(TYPES.map(|kind| (kind, kind)))?;
        Ok((after.unwrap_or(0), kind))
    }
}

#[derive(Template)]
#[template(path = "job_events.html")]
struct EventsPage<'a> {
    at: &'a InJob,
    frame: &'a Frame,
    title: String,
    parts: Parts,
    rows: Vec<Row>,
    /// The chosen type; empty for all.
    kind: String,
    kinds: [&'static str; 37],
    last: u64,
    /// The numbers of the first and the last event that were read for the page.
    read: (u64, u64),
    first: Option<String>,
    earlier: Option<String>,
    later: Option<String>,
}

struct Row {
    seq: u64,
    kind: String,
    at: Moment,
    summary: String,
    /// The whole event, as the HTTP interface returns it.
    json: String,
}

pub(super) async fn show(State(shared): State<Shared>, at: InJob, Query(query): Query<EventsQuery>) -> Response {
    at.answer(page(&shared, &at, &query).await)
}

async fn page(shared: &Shared, at: &InJob, query: &EventsQuery) -> Page {
    let messages = shared.services.store.messages(at.job.id).await?;
    let parts = head::parts(shared, at, &messages).await?;
    let (newest, (after, kind)) = (at.job.last_seq, query.read(&at.page("/events"))?);
    let after = after.min(newest);
    let (entries, last) = read(shared, at, after, kind).await?;
    let path = |after: u64| {
        let kind = kind.map(|kind| format!("&kind={}", in_query(kind))).unwrap_or_default();
        at.page(&format!("/events?after={after}{kind}"))
    };
    let mut sentences = Sentences::default();
    // With a filter, the number of events before a page is not known.
    let earlier = (after > 0 && kind.is_none()).then(|| path(at.job.numbering.back(after, ON_PAGE as u64)));
    rendered(&EventsPage {
        at,
        frame: at,
        title: visible::line(&at.job.title).into_owned(),
        parts,
        rows: entries.iter().map(|entry| row(at, entry, &mut sentences)).collect(),
        kind: kind.unwrap_or_default().to_owned(),
        kinds: TYPES,
        last: newest,
        read: (after.saturating_add(1).min(last), last),
        first: (after > 0).then(|| path(0)),
        earlier,
        later: (last < newest).then(|| path(last)),
    })
}

/// Reads the events of a page, and the number of the last event that was read.
async fn read(shared: &Shared, at: &InJob, after: u64, kind: Option<&str>) -> Result<(Vec<LogEntry>, u64), StoreError> {
    let store = &shared.services.store;
    let Some(kind) = kind else {
        let entries = store.log(at.job.id, after, ON_PAGE).await?;
        let last = entries.last().map_or(after, |entry| entry.seq);
        return Ok((entries, last));
    };
    let (mut found, mut last) = (Vec::new(), after);
    for _ in 0..MAX_READ / AT_ONCE {
        let part = store.log(at.job.id, last, AT_ONCE).await?;
        let is_end = part.len() < AT_ONCE;
        for entry in part {
            last = entry.seq;
            if entry.kind == kind {
                found.push(entry);
            }
            if found.len() == ON_PAGE {
                return Ok((found, last));
            }
        }
        if is_end {
            break;
        }
    }
    Ok((found, last))
}

fn row(at: &InJob, entry: &LogEntry, sentences: &mut Sentences) -> Row {
    let LogEntry { seq, kind, at: time, run_id, data } = entry;
    let run = run_id.map(|run| run.to_string());
    let whole = json!({"seq": seq, "type": kind, "at": time.to_string(), "runId": run, "data": data});
    let text = serde_json::to_string_pretty(&whole).unwrap_or_default();
    Row {
        seq: *seq,
        kind: visible::line(kind).into_owned(),
        at: at.moment(*time),
        summary: summary(entry, sentences),
        json: visible::lines(&text).into_owned(),
    }
}

/// Returns the summary of an event, in one line.
fn summary(entry: &LogEntry, sentences: &mut Sentences) -> String {
    let text = sentences.of(entry).unwrap_or_else(|| telling(&entry.data));
    let mut cut: String = text.chars().take(MAX_SUMMARY).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    visible::line(&cut).into_owned()
}

/// Returns the most informative field of an event of an unknown type, or all its data.
fn telling(data: &Value) -> String {
    let told = |value: &Value| match value {
        Value::String(text) => text.lines().find(|line| !line.trim().is_empty()).map(str::to_owned),
        Value::Object(object) => object.get("text").and_then(Value::as_str).map(str::to_owned),
        _ => None,
    };
    let text = TELLING.iter().find_map(|field| data.get(field).and_then(told));
    match text {
        Some(text) => text,
        None if data.as_object().is_some_and(serde_json::Map::is_empty) || data.is_null() => String::new(),
        None => data.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use journeyman_core::time::Timestamp;

    use super::*;

    #[test]
    fn the_summary_of_an_unknown_type_is_its_most_telling_field_in_one_line() {
        let of = |data: Value| {
            let (kind, at) = ("moon.landed".to_owned(), Timestamp::default());
            summary(&LogEntry { seq: 1, kind, at, run_id: None, data }, &mut Sentences::default())
        };
        for (data, expected) in [
            (json!({"text": "\nFirst line\nsecond"}), "First line"),
            (json!({"messageId": "msg_1", "status": "succeeded"}), "succeeded"),
            (json!({"reason": {"code": "internal", "text": "over"}}), "over"),
            (json!({"inputTokens": 5}), "{\"inputTokens\":5}"),
            (json!({}), ""),
            (Value::Null, ""),
        ] {
            assert_eq!(of(data.clone()), expected, "{data}");
        }
        let long = of(json!({"text": "ä".repeat(500)}));
        assert_eq!((long.chars().count(), long.ends_with('…')), (MAX_SUMMARY + 1, true));
    }
}
