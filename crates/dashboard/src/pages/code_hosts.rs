//! `/system/code-hosts`: the code hosts, their tests, and repositories that send webhooks and that no project has. For
//! administrators.

mod app;
mod form;

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use journeyman_app::UnclaimedRepository;
use journeyman_core::code_host::expiry::CredentialOwner;
use journeyman_core::code_host::manifest::install_page;
use journeyman_core::code_host::{Access, CodeHostId, DefinedIn, HostKind};
use journeyman_core::ids::ProjectId;
use journeyman_core::ports::DescribedHost;

use super::credentials::{self, CredentialWarning};
use super::findings::{self, Line};
use crate::failure::{Failure, Page, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::moment::Moment;
use crate::{Shared, visible, words};

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/system/code-hosts", get(list).post(form::create))
        .route("/system/code-hosts/new", get(form::new))
        .route("/system/code-hosts/github/app", get(app::show))
        .route("/system/code-hosts/github/callback", get(app::returned))
        .route("/system/code-hosts/{host}/edit", get(form::edit).post(form::save))
        .route("/system/code-hosts/{host}/remove", post(remove))
        .route("/system/code-hosts/{host}/check", post(check))
}

#[derive(Template)]
#[template(path = "code_hosts.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    rows: Vec<Row>,
    kinds: [HostKind; 6],
    checked: Option<Checked>,
    credentials: Vec<CredentialWarning>,
    unclaimed: Vec<Unclaimed>,
}

struct Row {
    id: String,
    product: &'static str,
    url: String,
    credential: (&'static str, String),
    /// The page on which the GitHub App is installed.
    install: Option<String>,
    has_webhook_secret: bool,
    webhook_url: String,
    last_webhook: Option<Moment>,
    /// `true` if it can be changed here.
    is_stored: bool,
    version: u64,
}

/// The findings of a test.
struct Checked {
    id: String,
    findings: Vec<Line>,
}

struct Unclaimed {
    path: String,
    host: String,
    last: Moment,
    /// The form of a new project for this repository.
    create: String,
}

impl Unclaimed {
    fn new(frame: &Frame, repository: &UnclaimedRepository) -> Self {
        let id = ProjectId::suggest(&repository.path).map(String::from).unwrap_or_default();
        let [id, url] = [&id, &repository.url].map(|text| words::in_query(text));
        Self {
            path: visible::line(&repository.path).into_owned(),
            host: repository.code_host.to_string(),
            last: frame.moment(repository.last_event_at),
            create: format!("/projects/new?where=remote&id={id}&repository={url}"),
        }
    }
}

async fn row(shared: &Shared, frame: &Frame, described: DescribedHost) -> Result<Row, Failure> {
    let DescribedHost { host, has_webhook_secret, .. } = described;
    let (credential, install) = match &host.access {
        Some(Access::App { app_id, slug }) => {
            let install = (!slug.is_empty()).then(|| install_page(&host.url, slug));
            (("ok", format!("GitHub App {app_id}")), install)
        }
        Some(Access::Token { .. }) => (("ok", "token".to_owned()), None),
        None => (("warning", "none; each project needs a token".to_owned()), None),
    };
    let last = shared.services.store.last_event_of(host.id.clone()).await?;
    Ok(Row {
        webhook_url: frame.cases().webhook_url(&host.id),
        id: host.id.to_string(),
        product: host.kind.product(),
        credential,
        install: install.filter(|url| words::is_page(url)),
        has_webhook_secret,
        last_webhook: last.map(|at| frame.moment(at)),
        is_stored: host.defined_in == DefinedIn::Store,
        version: host.version,
        url: host.url,
    })
}

async fn page<'a>(shared: &Shared, frame: &'a Frame, checked: Option<Checked>) -> Result<ListPage<'a>, Failure> {
    let caller = frame.caller();
    let mut rows = Vec::new();
    for described in frame.cases().code_hosts(&caller).await? {
        rows.push(row(shared, frame, described).await?);
    }
    let unclaimed = frame.cases().unclaimed_repositories(&caller).await?;
    let unclaimed = unclaimed.iter().map(|repository| Unclaimed::new(frame, repository)).collect();
    let credentials = credentials::warnings(frame, |owner| matches!(owner, CredentialOwner::Host(_))).await?;
    Ok(ListPage { frame, rows, kinds: HostKind::ALL, checked, credentials, unclaimed })
}

async fn list(State(shared): State<Shared>, frame: Frame) -> Response {
    let page = async {
        frame.needs_administrator()?;
        rendered(&page(&shared, &frame, None).await?)
    };
    frame.answer(page.await)
}

/// Parses the ID in a path.
fn parsed(id: &str) -> Result<CodeHostId, Failure> {
    id.parse().map_err(|_| Failure::NotFound("code host"))
}

async fn check(State(shared): State<Shared>, frame: Frame, Path(id): Path<String>) -> Response {
    let page = async {
        frame.needs_administrator()?;
        let id = parsed(&id)?;
        let findings = frame.cases().check_code_host(&frame.caller(), &id).await?;
        let findings = findings.iter().map(|finding| Line::new(&frame, finding)).collect();
        let checked = Checked { id: id.to_string(), findings };
        if frame.can_stream {
            return findings::in_place(&checked.id, &checked.findings);
        }
        rendered(&page(&shared, &frame, Some(checked)).await?)
    };
    frame.answer(page.await)
}

async fn remove(frame: Frame, Path(id): Path<String>, fields: Fields) -> Response {
    let page = async {
        frame.needs_administrator()?;
        frame.cases().remove_code_host(&frame.caller(), &parsed(&id)?, fields.precondition()).await?;
        Ok(Redirect::to("/system/code-hosts?done=removed").into_response()) as Page
    };
    frame.answer(page.await)
}
