//! `/keys`: the list of API keys, and the form for a new key.

use std::collections::HashMap;

use askama::Template;
use axum::Router;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use journeyman_app::{Answered, CreatedKey};
use journeyman_core::ids::{KeyId, ProjectId};
use journeyman_core::key::{ApiKey, DEFAULT_LIFETIME_DAYS, KeyOrigin, NewKey, Scope, parse_network};
use journeyman_core::time::Timestamp;
use journeyman_core::version::Precondition;
use serde::Deserialize;

use super::secret::NewSecret;
use crate::failure::{Failure, Page, refusal, refused, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::moment::{Day, Moment};
use crate::{Shared, visible, words};

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/keys", get(list).post(create))
        .route("/keys/new", get(new))
        .route("/keys/exchanged", get(exchanged))
        .route("/keys/{key}/rotate", post(rotate))
        .route("/keys/{key}/revoke", post(revoke))
}

/// The choices for the lifetime of a key: the number of days, and the label. An empty value means no expiry.
const LIFETIMES: [(&str, &str); 5] =
    [("7", "7 days"), ("30", "30 days"), ("60", "60 days"), ("90", "90 days"), ("", "No expiry")];

/// The number of exchanged keys on a page.
const PAGE: usize = 50;

/// The period before its expiry in which a key is marked as expiring soon.
const SOON: std::time::Duration = std::time::Duration::from_hours(7 * 24);

#[derive(Template)]
#[template(path = "keys.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    rows: Vec<Row>,
    /// `true` for the keys that were exchanged for tokens.
    exchanged: bool,
    /// The URL of the next page.
    next: Option<String>,
}

struct Row {
    id: String,
    name: String,
    prefix: String,
    scopes: Vec<&'static str>,
    projects: Option<Vec<String>>,
    addresses: Option<String>,
    creator: String,
    created: Moment,
    used: Option<Moment>,
    /// The word for the expiry, and its day.
    expires: Option<(&'static str, Day)>,
    badge: (&'static str, &'static str),
    lives: bool,
}

impl Row {
    fn new(frame: &Frame, key: &ApiKey, names: &HashMap<String, String>) -> Self {
        let now = frame.now;
        let badge = match (key.revoked_at, key.expires_at) {
            (Some(_), _) => ("revoked", "revoked"),
            (None, Some(end)) if end <= now => ("expired", "expired"),
            (None, Some(end)) if end <= now + SOON => ("warning", "expires soon"),
            (None, _) => ("ok", "active"),
        };
        let creator = key.creator.as_ref().map_or_else(String::new, |creator| display_name(creator, names));
        Self {
            id: key.id.to_string(),
            name: visible::line(&key.name).into_owned(),
            prefix: key.prefix.clone(),
            scopes: key.scopes.iter().map(|scope| access(*scope)).collect(),
            projects: key.projects.as_ref().map(|ids| ids.iter().map(ToString::to_string).collect()),
            addresses: (key.allowed_ips.as_ref())
                .map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
            creator,
            created: frame.moment(key.created_at),
            used: key.last_used_at.map(|at| frame.moment(at)),
            expires: key.expires_at.map(|at| (if at > now { "expires" } else { "expired" }, frame.day(at))),
            lives: !matches!(badge.0, "revoked" | "expired"),
            badge,
        }
    }
}

/// Returns the words for a scope, as in the form of a key.
pub(super) const fn access(scope: Scope) -> &'static str {
    match scope {
        Scope::Write => "all operations",
        Scope::Jobs => "jobs",
        Scope::Read => "read only",
    }
}

/// Returns the name to show for an ID from the audit log or of the creator of a key. IDs without a name are shown
/// unchanged.
fn display_name(actor: &str, names: &HashMap<String, String>) -> String {
    match actor {
        "cli" => "command line".to_owned(),
        _ => {
            names.get(actor).map_or_else(|| visible::line(actor).into_owned(), |name| visible::line(name).into_owned())
        }
    }
}

/// Returns the names of users and keys by ID.
async fn names(shared: &Shared) -> Result<HashMap<String, String>, Failure> {
    let names = shared.services.cases.names().await?.into_iter();
    let of_kind = |(id, name): (String, String)| match id.parse::<KeyId>() {
        Ok(_) => (id, format!("key {name}")),
        Err(_) => (id, name),
    };
    Ok(names.map(of_kind).collect())
}

async fn list(State(shared): State<Shared>, frame: Frame) -> Response {
    frame.answer(list_page(&shared, &frame).await)
}

async fn list_page(shared: &Shared, frame: &Frame) -> Page {
    frame.needs_write()?;
    let names = names(shared).await?;
    let mut keys = shared.services.store.keys_after(KeyOrigin::Created, None, usize::MAX).await?;
    if !frame.viewer.is_administrator() {
        let own = frame.viewer.user.id.to_string();
        keys.retain(|key| key.creator.as_ref() == Some(&own));
    }
    let mut rows: Vec<Row> = keys.iter().map(|key| Row::new(frame, key, &names)).collect();
    // Valid keys come first. The sort is stable, so the newest keys stay first in both groups.
    rows.sort_by_key(|row| !row.lives);
    rendered(&ListPage { frame, rows, exchanged: false, next: None })
}

/// The parameters of the list of exchanged keys.
#[derive(Deserialize)]
struct After {
    after: Option<String>,
}

async fn exchanged(State(shared): State<Shared>, frame: Frame, Query(query): Query<After>) -> Response {
    frame.answer(exchanged_page(&shared, &frame, query.after.as_deref()).await)
}

/// Returns a page of the keys that were exchanged for tokens of CI services, newest first.
async fn exchanged_page(shared: &Shared, frame: &Frame, after: Option<&str>) -> Page {
    frame.needs_administrator()?;
    let after = after.and_then(|text| text.parse::<KeyId>().ok());
    let names = names(shared).await?;
    let mut keys = shared.services.store.keys_after(KeyOrigin::Exchanged, after, PAGE + 1).await?;
    let has_more = keys.len() > PAGE;
    keys.truncate(PAGE);
    let next = keys.last().filter(|_| has_more).map(|key| format!("/keys/exchanged?after={}", key.id));
    let rows = keys.iter().map(|key| Row::new(frame, key, &names)).collect();
    rendered(&ListPage { frame, rows, exchanged: true, next })
}

#[derive(Template)]
#[template(path = "keys_new.html")]
struct NewPage<'a> {
    frame: &'a Frame,
    form: Form,
    projects: Vec<(ProjectId, bool)>,
    lifetimes: Vec<(&'static str, &'static str, bool)>,
    error: Option<String>,
}

/// The input of the form.
struct Form {
    name: String,
    scope: &'static str,
    all: bool,
    addresses: String,
}

async fn new(State(shared): State<Shared>, frame: Frame) -> Response {
    let page = async {
        frame.needs_write()?;
        let page = new_page(&shared, &frame, &Fields::default(), None).await?;
        rendered(&page)
    };
    frame.answer(page.await)
}

async fn new_page<'a>(
    shared: &Shared,
    frame: &'a Frame,
    fields: &Fields,
    error: Option<String>,
) -> Result<NewPage<'a>, Failure> {
    let chosen = fields.all("project");
    let default = DEFAULT_LIFETIME_DAYS.to_string();
    let lifetime = if fields.is_set("days") { fields.text("days") } else { default };
    let projects = shared.services.store.projects().await?;
    Ok(NewPage {
        frame,
        form: Form {
            name: fields.text("name"),
            scope: scope(fields).unwrap_or(Scope::Write).name(),
            all: frame.viewer.is_administrator() && fields.text("where") != "some",
            addresses: fields.text("addresses"),
        },
        projects: (projects.into_iter())
            .map(|project| {
                let is_chosen = chosen.iter().any(|id| *id == project.id.to_string());
                (project.id, is_chosen)
            })
            .collect(),
        lifetimes: LIFETIMES.map(|(value, text)| (value, text, value == lifetime)).into(),
        error,
    })
}

async fn create(State(shared): State<Shared>, frame: Frame, fields: Fields) -> Response {
    frame.answer(create_page(&shared, &frame, &fields).await)
}

async fn create_page(shared: &Shared, frame: &Frame, fields: &Fields) -> Page {
    frame.needs_write()?;
    let new = match new_key(fields, frame) {
        Ok(new) => new,
        Err(text) => return refused(&new_page(shared, frame, fields, Some(words::sentence(&text))).await?),
    };
    let created = match frame.cases().create_key(&frame.caller(), new, None, |_| String::new()).await {
        Ok(Answered::New(created)) => created,
        Ok(Answered::Replayed(_)) => return Err(Failure::Form("the key has already been created".to_owned())),
        Err(error) => return refused(&new_page(shared, frame, fields, Some(refusal(error)?)).await?),
    };
    created_page(shared, frame, created).await
}

/// Redirects to the page with a key and its new secret.
async fn created_page(shared: &Shared, frame: &Frame, CreatedKey { key, secret }: CreatedKey) -> Page {
    let project = match key.projects.iter().flatten().next() {
        Some(project) => Some(project.to_string()),
        None => shared.services.store.projects().await?.first().map(|project| project.id.to_string()),
    };
    let expires = key.expires_at.map(|at| ("The key expires on".to_owned(), at));
    let old = key.old_secret.map(|old| ("The old key works until".to_owned(), old.until));
    let new = NewSecret {
        heading: format!("The key {}", visible::line(&key.name)),
        back: ("/keys".to_owned(), "API keys".to_owned()),
        request: "Copy it now".to_owned(),
        text: "The server stores only the hash of the key.".to_owned(),
        times: expires.into_iter().chain(old).collect(),
        values: vec![("key".to_owned(), secret)],
        example: Some(project.unwrap_or_else(|| "PROJECT".to_owned())),
    };
    new.show(frame)
}

async fn rotate(State(shared): State<Shared>, frame: Frame, Path(key): Path<String>, fields: Fields) -> Response {
    let page = async {
        frame.needs_write()?;
        let key = key.parse().map_err(|_| Failure::NotFound("key"))?;
        let hours = fields.given("keep").unwrap_or_default();
        let hours: u64 = if hours.is_empty() { 0 } else { hours.parse().map_err(|_| not_hours(&hours))? };
        let overlap = std::time::Duration::from_secs(hours.saturating_mul(3600));
        let (caller, precondition) = (frame.caller(), Precondition::None);
        let rotated = frame.cases().rotate_key(&caller, key, overlap, precondition, None, |_| String::new()).await?;
        match rotated {
            Answered::New(rotated) => created_page(&shared, &frame, rotated).await,
            Answered::Replayed(_) => Err(Failure::Form("the key has already been rotated".to_owned())),
        }
    };
    frame.answer(page.await)
}

fn not_hours(text: &str) -> Failure {
    Failure::Form(format!("{text:?} is not a number of hours"))
}

/// Reads the form of a new key.
fn new_key(fields: &Fields, frame: &Frame) -> Result<NewKey, String> {
    let is_limited = !frame.viewer.is_administrator() || fields.text("where") == "some";
    let projects = || {
        let parsed = fields.all("project").iter().map(|id| id.parse()).collect::<Result<Vec<ProjectId>, _>>();
        parsed.map_err(|error| format!("projects: {error}"))
    };
    let expires_at = match fields.given("days") {
        Some(days) => {
            let days = days.parse().map_err(|_| format!("expiry: {days:?} is not a number of days"))?;
            Some(end(frame.now, days))
        }
        None => None,
    };
    let addresses = fields.text("addresses");
    let addresses = addresses.split([',', '\n', ' ']).map(str::trim).filter(|part| !part.is_empty());
    let addresses = addresses.map(|part| parse_network(part).map_err(|error| format!("allowed addresses: {error}")));
    let addresses = addresses.collect::<Result<Vec<_>, String>>()?;
    Ok(NewKey {
        name: fields.text("name"),
        scopes: vec![scope(fields)?],
        projects: is_limited.then(projects).transpose()?,
        expires_at,
        allowed_ips: Some(addresses).filter(|addresses| !addresses.is_empty()),
    })
}

/// Returns the scope that was chosen; without a choice, all operations.
fn scope(fields: &Fields) -> Result<Scope, String> {
    let Some(name) = fields.given("scope") else { return Ok(Scope::Write) };
    let found = Scope::ALL.into_iter().find(|scope| scope.name() == name);
    found.ok_or_else(|| format!("access: {name:?} is not one of read, jobs and write"))
}

fn end(now: Timestamp, days: u64) -> Timestamp {
    now + std::time::Duration::from_secs(days.min(36_500) * 86_400)
}

async fn revoke(frame: Frame, Path(key): Path<String>) -> Response {
    let page = async {
        frame.needs_write()?;
        let key = key.parse().map_err(|_| Failure::NotFound("key"))?;
        frame.cases().revoke_key(&frame.caller(), key, Precondition::None).await?;
        Ok(Redirect::to("/keys?done=revoked").into_response())
    };
    frame.answer(page.await)
}
