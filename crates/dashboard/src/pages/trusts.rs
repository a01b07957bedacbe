//! `/system/trusts`: rules about which tokens of CI services are exchanged for keys. For administrators.

mod form;

use askama::Template;
use axum::Router;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use journeyman_core::ids::TrustId;
use journeyman_core::trust::{Trust, TrustSettings};

use super::keys;
use crate::failure::{Failure, Page, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::moment::Moment;
use crate::{Shared, visible};

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/system/trusts", get(list).post(form::create))
        .route("/system/trusts/new", get(form::new))
        .route("/system/trusts/{trust}/edit", get(form::edit).post(form::save))
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
            scope: keys::access(*scope),
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

/// Parses the ID in a path.
fn parsed(id: &str) -> Result<TrustId, Failure> {
    id.parse().map_err(|_| Failure::NotFound("trust"))
}

async fn remove(frame: Frame, Path(id): Path<String>, fields: Fields) -> Response {
    let page = async {
        frame.needs_administrator()?;
        frame.cases().remove_trust(&frame.caller(), parsed(&id)?, fields.precondition()).await?;
        Ok(Redirect::to("/system/trusts?done=removed").into_response()) as Page
    };
    frame.answer(page.await)
}
