//! The audit log: as pages, and as a table of all entries.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures::stream::try_unfold;
use journeyman_app::{AuditFormat, Error};
use journeyman_core::audit::AuditFilter;

use crate::app::App;
use crate::error::ApiError;
use crate::extract::{Administrator, Parameters};
use crate::openapi::errors;
use crate::page::{self, PageQuery};
use crate::table;
use crate::wire::audit::{AuditEntry, AuditPage};

errors!(ListErrors: 400, 401, 403, 503);
errors!(ExportErrors: 401, 403, 503);

/// List the audit log
///
/// Returns who changed what, when and from where, newest first.
#[utoipa::path(get, path = "/v2/audit", tag = "System", operation_id = "listAudit", params(PageQuery),
    responses((status = 200, description = "A page of entries", body = AuditPage), ListErrors))]
pub(crate) async fn list(
    State(app): State<App>,
    Administrator(caller): Administrator,
    Parameters(query): Parameters<PageQuery>,
) -> Result<Json<AuditPage>, ApiError> {
    let (limit, before) = query.read()?;
    let filter = AuditFilter { before, ..AuditFilter::newest(limit + 1) };
    let mut lines = app.cases.audit_log(&caller, filter).await?;
    let next_cursor = page::cut(&mut lines, limit, |line| line.number.to_string());
    let names = app.cases.names().await?;
    let entries = lines.into_iter().map(|line| AuditEntry::of(line, &names)).collect();
    Ok(Json(AuditPage { entries, next_cursor }))
}

/// Export the audit log
///
/// Returns all entries as CSV (RFC 4180), newest first. The first line has the names of the columns. A text that a
/// spreadsheet would take for a formula begins with an apostrophe. A response that ends before its last chunk is not
/// complete.
#[utoipa::path(get, path = "/v2/audit/export", tag = "System", operation_id = "exportAudit",
    responses((status = 200, description = "The audit log", body = String, content_type = "text/csv"), ExportErrors))]
pub(crate) async fn export(State(app): State<App>, Administrator(caller): Administrator) -> Result<Response, ApiError> {
    let export = app.cases.export_audit(caller, AuditFilter::default(), AuditFormat::Csv).await?;
    let parts = try_unfold(export, async |mut export| Ok::<_, Error>(export.part().await?.map(|part| (part, export))));
    Ok((table::headers("audit.csv"), Body::from_stream(parts)).into_response())
}
