//! The audit log: as pages, and as a table of all entries.

use std::collections::HashMap;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures::stream::try_unfold;
use journeyman_core::ports::AuditLine;

use crate::app::App;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Administrator, Parameters};
use crate::openapi::errors;
use crate::page::{self, PageQuery};
use crate::table;
use crate::wire::audit::{AuditEntry, AuditPage};

errors!(ListErrors: 400, 401, 403, 503);
errors!(ExportErrors: 401, 403, 503);

/// The number of entries that an export reads at a time.
const AT_ONCE: usize = 500;

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
    let mut lines = app.cases.audit_log(&caller, before, limit + 1).await?;
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
    let names = app.cases.names().await?;
    // The first part is read here, so that an error of the store gets its own status.
    let first = app.cases.audit_log(&caller, None, AT_ONCE).await?;
    let rest = Export { app, caller, names, next: Some(first), has_head: false };
    let parts = try_unfold(rest, async |mut export| {
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(export.part().await?.map(|part| (part, export)))
    });
    Ok((table::headers("audit.csv"), Body::from_stream(parts)).into_response())
}

/// An export that is under way.
struct Export {
    app: App,
    caller: Caller,
    names: HashMap<String, String>,
    /// The entries that were read and not written yet; `None` at the end.
    next: Option<Vec<AuditLine>>,
    /// `true` if the names of the columns were written.
    has_head: bool,
}

impl Export {
    /// Returns the next lines of the table; `None` at the end.
    async fn part(&mut self) -> Result<Option<Vec<u8>>, Box<dyn std::error::Error + Send + Sync>> {
        let Some(lines) = self.next.take() else { return Ok(None) };
        let last = lines.last().map(|line| line.number).filter(|_| lines.len() == AT_ONCE);
        let mut table = table::writer();
        if !std::mem::replace(&mut self.has_head, true) {
            table.write_record(["id", "at", "actor", "actorName", "action", "subject", "address"])?;
        }
        for line in lines {
            table.serialize(AuditEntry::of(line, &self.names).without_formulas())?;
        }
        if let Some(last) = last {
            self.next = Some(self.app.cases.audit_log(&self.caller, Some(last), AT_ONCE).await?);
        }
        Ok(Some(table.into_inner()?))
    }
}
