//! `POST` of the form that starts the import of a repository.

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use journeyman_app::ImportRequest;
use journeyman_core::secret::SecretValue;

use super::begin::{self, BeginPage};
use super::import::ImportForm;
use crate::Shared;
use crate::failure::{Page, refusal, refused};
use crate::fields::Fields;
use crate::in_project::InProject;

/// Starts an import, and returns to the page of the project, which shows its progress.
pub(super) async fn start(State(shared): State<Shared>, at: InProject, fields: Fields) -> Response {
    at.answer(import_page(&shared, &at, &fields).await)
}

async fn import_page(shared: &Shared, at: &InProject, fields: &Fields) -> Page {
    at.needs_administrator()?;
    let request = ImportRequest {
        url: fields.given("url").unwrap_or_default(),
        username: fields.given("username"),
        token: fields.given("token").map(SecretValue),
    };
    let error = match at.cases().import_repository(&at.caller(), &at.project.id, request).await {
        Ok(_) => return Ok(Redirect::to(&at.path("/jobs")).into_response()),
        Err(error) => refusal(error)?,
    };
    // The page continues if the commits have arrived meanwhile.
    let Some(state) = begin::empty(shared, at).await? else {
        return Ok(Redirect::to(&at.path("/jobs")).into_response());
    };
    refused(&BeginPage::new(shared, at, &state).await?.with_import(ImportForm::refused(fields, error)))
}
