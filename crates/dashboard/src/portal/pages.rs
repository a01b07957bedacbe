//! The routes of the documentation.

use std::collections::BTreeSet;

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use sha2::{Digest, Sha256};

use super::Page;
use super::writer::Content;
use crate::frame::{Frame, OpenFrame};
use crate::viewer::ClientAddress;
use crate::{Shared, session};

/// Returns the routes, which need no session.
pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/docs", get(show)).route("/docs/openapi.json", get(document)).route("/docs/{*path}", get(show))
}

#[derive(Template)]
#[template(path = "docs.html")]
struct DocsPage<'a> {
    frame: &'a OpenFrame,
    /// The frame of the signed-in user.
    member: Option<&'a Frame>,
    at_start: bool,
    /// `None` for a page that does not exist.
    page: Option<&'a Page>,
    content: Option<&'a Content>,
    groups: Vec<Group<'a>>,
    previous: Option<&'a Page>,
    next: Option<&'a Page>,
}

/// A heading of the navigation with its pages.
struct Group<'a> {
    name: &'a str,
    is_open: bool,
    pages: Vec<(&'a Page, bool)>,
}

/// Sends the OpenAPI document as a file.
async fn document(State(shared): State<Shared>) -> Response {
    ([(CONTENT_TYPE, "application/json")], shared.portal.sources.spec.document.to_string()).into_response()
}

async fn show(
    State(shared): State<Shared>,
    frame: OpenFrame,
    uri: Uri,
    from: ClientAddress,
    headers: HeaderMap,
) -> Response {
    // The documentation does not depend on the store: if that fails, readers see the page as if they had no session.
    let viewer = session::viewer(&shared, &headers, from).await.ok().flatten();
    let path = uri.path().trim_end_matches('/').to_owned();
    let member = viewer.map(|viewer| Frame::new(frame.clone(), viewer, path.clone()));
    let rendered = tokio::task::spawn_blocking(move || html(&frame, member.as_ref(), &path)).await;
    match rendered {
        Ok(Ok((status, html))) => answer(status, html, &headers),
        Ok(Err(error)) => failed(&error.to_string()),
        Err(error) => failed(&error.to_string()),
    }
}

/// Renders the page at a path, or the page that says that there is none.
fn html(frame: &OpenFrame, member: Option<&Frame>, path: &str) -> askama::Result<(StatusCode, String)> {
    let shared = &frame.shared;
    let portal = &shared.portal;
    let found = portal.find(path);
    let page = found.and_then(|number| portal.pages.get(number));
    let content = page.map(|page| portal.quick_content(page, &shared.highlighter)).transpose()?;
    if let Some(number) = found.filter(|_| page.is_some_and(|page| portal.begin(page))) {
        let shared = shared.clone();
        tokio::task::spawn_blocking(move || render(&shared, number));
    }
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut names = BTreeSet::new();
    for one in &portal.pages {
        let is_current = page.is_some_and(|page| page.path == one.path);
        if names.insert(one.group.as_str()) {
            groups.push(Group { name: &one.group, is_open: false, pages: Vec::new() });
        }
        if let Some(group) = groups.iter_mut().find(|group| group.name == one.group) {
            group.is_open |= is_current || matches!(group.name, "Guides" | "Reference");
            group.pages.push((one, is_current));
        }
    }
    let neighbor = |step: fn(usize) -> Option<usize>| found.and_then(step).and_then(|number| portal.pages.get(number));
    let html = DocsPage {
        frame,
        member,
        at_start: path == "/docs",
        page,
        content: content.as_ref(),
        groups,
        previous: neighbor(|number| number.checked_sub(1)),
        next: neighbor(|number| number.checked_add(1)),
    }
    .render()?;
    Ok((if page.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND }, html))
}

/// Renders the content of a page with colors, for later requests.
fn render(shared: &Shared, number: usize) {
    let Some(page) = shared.portal.pages.get(number) else { return };
    if let Err(error) = shared.portal.content(page, &shared.highlighter) {
        tracing::error!(%error, page = page.path, "the code on a page of the documentation could not be colored");
        shared.portal.keep_plain(page, &shared.highlighter);
    }
}

/// Sends a page with an entity tag. The page depends on the session, so only browsers may cache it.
fn answer(status: StatusCode, html: String, headers: &HeaderMap) -> Response {
    if status != StatusCode::OK {
        return (status, Html(html)).into_response();
    }
    let digest = Sha256::digest(&html);
    let tag: String = digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    // Compression makes a proxy or a layer weaken the tag, so it is weak from the beginning.
    let tag = format!("W/\"{tag}\"");
    let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_known = known.split(',').any(|one| one.trim() == tag);
    let own = [(ETAG, tag), (CACHE_CONTROL, "private, no-cache".to_owned()), (VARY, "cookie".to_owned())];
    if is_known { (StatusCode::NOT_MODIFIED, own).into_response() } else { (own, Html(html)).into_response() }
}

fn failed(error: &str) -> Response {
    tracing::error!(%error, "a page of the documentation could not be rendered");
    (StatusCode::INTERNAL_SERVER_ERROR, "The page could not be rendered.").into_response()
}
