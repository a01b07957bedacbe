//! `/system/trusts`: rules about which tokens of CI services are exchanged for keys. For administrators.

use std::collections::BTreeMap;

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use journeyman_app::Answered;
use journeyman_core::ids::{ProjectId, TrustId};
use journeyman_core::key::Scope;
use journeyman_core::trust::{Trust, TrustSettings};

use crate::failure::{Failure, Page, refusal, refused, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::moment::Moment;
use crate::{Shared, visible, words};

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/system/trusts", get(list).post(create))
        .route("/system/trusts/new", get(new))
        .route("/system/trusts/{trust}/remove", post(remove))
}

#[derive(Template)]
#[template(path = "trusts.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    rows: Vec<Row>,
}

/// A trust, for templates.
struct Row {
    id: String,
    name: String,
    issuer: String,
    audience: String,
    claims: Vec<String>,
    projects: String,
    scope: &'static str,
    last_used: Option<Moment>,
    version: u64,
}

impl Row {
    fn new(frame: &Frame, trust: &Trust) -> Self {
        let shown = |text: &str| visible::line(text).into_owned();
        let TrustSettings { name, issuer, audience, claims, projects, scope } = &trust.settings;
        Self {
            id: trust.id.to_string(),
            name: shown(name),
            issuer: shown(issuer),
            audience: shown(audience),
            claims: claims.iter().map(|(claim, pattern)| shown(&format!("{claim} = {pattern}"))).collect(),
            projects: projects.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
            scope: scope.name(),
            last_used: trust.last_used_at.map(|at| frame.moment(at)),
            version: trust.version,
        }
    }
}

async fn list(frame: Frame) -> Response {
    let page = async {
        frame.needs_administrator()?;
        let trusts = frame.cases().trusts(&frame.caller()).await?;
        rendered(&ListPage { frame: &frame, rows: trusts.iter().map(|trust| Row::new(&frame, trust)).collect() })
    };
    frame.answer(page.await)
}

/// The usual rules of a CI service.
struct Preset {
    name: &'static str,
    issuer: &'static str,
    claims: &'static str,
}

impl Preset {
    /// Finds the preset that a link names; without a name, that of GitHub Actions.
    fn find(name: Option<&str>) -> Result<Self, Failure> {
        match name {
            None | Some("github") => Ok(Self {
                name: "github-actions",
                issuer: "https://token.actions.githubusercontent.com",
                claims: "repository = OWNER/REPOSITORY\nref = refs/heads/main",
            }),
            Some("gitlab") => Ok(Self {
                name: "gitlab-ci",
                issuer: "https://gitlab.com",
                claims: "project_path = GROUP/PROJECT\nref_protected = true",
            }),
            Some("other") => Ok(Self { name: "", issuer: "", claims: "" }),
            Some(_) => Err(Failure::NotFound("preset")),
        }
    }
}

#[derive(Template)]
#[template(path = "trust_form.html")]
struct FormPage<'a> {
    frame: &'a Frame,
    name: String,
    issuer: String,
    audience: String,
    claims: String,
    read_only: bool,
    /// The projects, and whether each is selected.
    projects: Vec<(ProjectId, bool)>,
    error: Option<String>,
}

/// Returns the form with its input, or with a preset if there is none.
async fn form<'a>(
    shared: &Shared,
    frame: &'a Frame,
    fields: &Fields,
    error: Option<String>,
) -> Result<FormPage<'a>, Failure> {
    let preset = Preset::find(fields.given("preset").as_deref())?;
    let is_typed = error.is_some();
    let value = |name: &str, usual: &str| if is_typed { fields.text(name) } else { usual.to_owned() };
    let chosen = fields.all("project");
    let projects = shared.services.store.projects().await?.into_iter();
    Ok(FormPage {
        frame,
        name: value("name", preset.name),
        issuer: value("issuer", preset.issuer),
        audience: value("audience", frame.cases().default_audience()),
        claims: value("claims", preset.claims),
        read_only: fields.text("scope") == "read",
        projects: projects
            .map(|project| {
                let is_chosen = chosen.iter().any(|id| *id == project.id.as_str());
                (project.id, is_chosen)
            })
            .collect(),
        error,
    })
}

async fn new(State(shared): State<Shared>, frame: Frame, fields: Fields) -> Response {
    let page = async {
        frame.needs_administrator()?;
        rendered(&form(&shared, &frame, &fields, None).await?)
    };
    frame.answer(page.await)
}

async fn create(State(shared): State<Shared>, frame: Frame, fields: Fields) -> Response {
    frame.answer(created(&shared, &frame, &fields).await)
}

async fn created(shared: &Shared, frame: &Frame, fields: &Fields) -> Page {
    frame.needs_administrator()?;
    let text = match settings(frame, fields) {
        Err(text) => text,
        Ok(settings) => match frame.cases().create_trust(&frame.caller(), settings, None, |_| String::new()).await {
            Ok(Answered::New(_) | Answered::Replayed(_)) => {
                return Ok(Redirect::to("/system/trusts?done=created").into_response());
            }
            Err(error) => refusal(error)?,
        },
    };
    refused(&form(shared, frame, fields, Some(words::sentence(&text))).await?)
}

/// Reads the form.
fn settings(frame: &Frame, fields: &Fields) -> Result<TrustSettings, String> {
    let mut claims = BTreeMap::new();
    for line in fields.lines("claims") {
        let (claim, pattern) = line.split_once('=').ok_or_else(|| {
            format!("claims: write a claim and its pattern in each line, such as repository = acme/shop, not {line:?}")
        })?;
        if claims.insert(claim.trim().to_owned(), pattern.trim().to_owned()).is_some() {
            return Err(format!("claims: {:?} is given twice; a claim has one pattern", claim.trim()));
        }
    }
    let projects: Result<Vec<ProjectId>, _> = fields.all("project").iter().map(|id| id.parse()).collect();
    Ok(TrustSettings {
        name: fields.text("name").trim().to_owned(),
        issuer: fields.text("issuer").trim().to_owned(),
        audience: fields.given("audience").unwrap_or_else(|| frame.cases().default_audience().to_owned()),
        claims,
        projects: projects.map_err(|error| format!("projects: {error}"))?,
        scope: if fields.text("scope") == "read" { Scope::Read } else { Scope::Jobs },
    })
}

async fn remove(frame: Frame, Path(id): Path<String>, fields: Fields) -> Response {
    let page = async {
        frame.needs_administrator()?;
        let id: TrustId = id.parse().map_err(|_| Failure::NotFound("trust"))?;
        frame.cases().remove_trust(&frame.caller(), id, fields.precondition()).await?;
        Ok(Redirect::to("/system/trusts?done=removed").into_response()) as Page
    };
    frame.answer(page.await)
}
