//! The operations on code hosts. Only an administrator manages them: their credentials have access to all repositories.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use journeyman_app::{Answered, Error, Refusal, RefusalKind};
use journeyman_core::code_host::CodeHostId;
use journeyman_core::ports::DescribedHost;
use journeyman_core::resource::not_found;

use crate::answer::created_as;
use crate::app::App;
use crate::conditional::{IfMatch, conditional, etag, tag_of};
use crate::error::{ApiError, ErrorCode};
use crate::extract::{Administrator, IdempotencyKey, JsonBody, Parameters};
use crate::openapi::{IdempotencyHeader, IfMatchHeader, errors};
use crate::page::{self, PageQuery};
use crate::wire::code_host::{
    CodeHostList, CreateCodeHost, FindingList, InstalledCodeHost, ReplaceCodeHost, show, with_field,
};

errors!(ListErrors: 400, 401, 403, 503);
errors!(CreateErrors: 400, 401, 403, 409, 413, 415, 422, 503, 504);
errors!(GetErrors: 401, 403, 404, 503);
errors!(ReplaceErrors: 400, 401, 403, 404, 409, 412, 413, 415, 503, 504);
errors!(RemoveErrors: 401, 403, 404, 409, 412, 503, 504);

/// List code hosts
///
/// Returns the code hosts of the configuration file and of the database, in pages, ordered by ID, without secrets.
#[utoipa::path(get, path = "/v2/code-hosts", tag = "Code hosts", operation_id = "listCodeHosts", params(PageQuery),
    responses((status = 200, description = "A page of code hosts", body = CodeHostList), ListErrors))]
pub(crate) async fn list(
    State(app): State<App>,
    Administrator(caller): Administrator,
    Parameters(query): Parameters<PageQuery>,
) -> Result<Json<CodeHostList>, ApiError> {
    let (limit, after) = query.read::<CodeHostId>()?;
    let mut found = app.cases.code_hosts(&caller).await?;
    // An installation has few code hosts.
    found.retain(|described| after.as_ref().is_none_or(|after| described.host.id > *after));
    let next_cursor = page::cut(&mut found, limit, |described| described.host.id.to_string());
    Ok(Json(CodeHostList { code_hosts: found.iter().map(|described| shown(&app, described)).collect(), next_cursor }))
}

/// Create a code host
///
/// Projects whose repositories are below its `url` use its credential, unless they have their own token. Secrets are
/// stored encrypted and never returned.
#[utoipa::path(post, path = "/v2/code-hosts", tag = "Code hosts", operation_id = "createCodeHost",
    params(IdempotencyHeader), request_body = CreateCodeHost,
    responses((status = 201, description = "The code host", body = InstalledCodeHost), CreateErrors))]
pub(crate) async fn create(
    State(app): State<App>,
    Administrator(caller): Administrator,
    key: IdempotencyKey,
    body: JsonBody<CreateCodeHost>,
) -> Result<Response, ApiError> {
    let invalid = |text| ApiError::bad_request(ErrorCode::InvalidBody, text);
    let (id, draft) = body.value.read().map_err(invalid)?;
    let answer = |described: &DescribedHost| serde_json::to_string(&shown(&app, described)).unwrap_or_default();
    let idempotency = key.of("create code host", &body.bytes);
    let made = app.cases.create_code_host(&caller, &id, &draft, idempotency, answer).await.map_err(named)?;
    let (body, version) = match made {
        Answered::New(described) => (answer(&described), Some(described.host.version)),
        Answered::Replayed(body) => (body, None),
    };
    Ok(created_as(version, "/v2/code-hosts", body))
}

/// Get a code host
///
/// Returns the code host, and which of its secrets are set.
#[utoipa::path(get, path = "/v2/code-hosts/{codeHost}", tag = "Code hosts", operation_id = "getCodeHost",
    params(("codeHost" = String, Path, description = "The ID of the code host")),
    responses((status = 200, description = "The code host", body = InstalledCodeHost), GetErrors))]
pub(crate) async fn get(
    State(app): State<App>,
    Administrator(caller): Administrator,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let found = app.cases.code_host(&caller, &parsed(&id)?).await?;
    Ok(conditional(&tag_of(found.host.version), shown(&app, &found), &headers))
}

/// Replace a code host
///
/// Replaces all fields; those that are left out get their defaults. Secrets that are left out are kept, and `null`
/// removes them. With another `url` or `apiUrl`, the credential must be sent again. A code host of the configuration file
/// is changed there.
#[utoipa::path(put, path = "/v2/code-hosts/{codeHost}", tag = "Code hosts", operation_id = "replaceCodeHost",
    params(("codeHost" = String, Path, description = "The ID of the code host"), IfMatchHeader),
    request_body = ReplaceCodeHost,
    responses((status = 200, description = "The code host", body = InstalledCodeHost), ReplaceErrors))]
pub(crate) async fn replace(
    State(app): State<App>,
    Administrator(caller): Administrator,
    Path(id): Path<String>,
    IfMatch(precondition): IfMatch,
    body: JsonBody<ReplaceCodeHost>,
) -> Result<Response, ApiError> {
    let id = parsed(&id)?;
    let changed = app.cases.replace_code_host(&caller, &id, precondition, body.value.read()).await.map_err(named)?;
    Ok((etag(changed.host.version), Json(shown(&app, &changed))).into_response())
}

/// Remove a code host
///
/// Removes the code host with its secrets. Refused while a project names it in `codeHost.host`. Other projects on it can
/// then only use their own tokens. Removing it again changes nothing.
#[utoipa::path(delete, path = "/v2/code-hosts/{codeHost}", tag = "Code hosts", operation_id = "removeCodeHost",
    params(("codeHost" = String, Path, description = "The ID of the code host"), IfMatchHeader),
    responses((status = 204, description = "The code host is removed"), RemoveErrors))]
pub(crate) async fn remove(
    State(app): State<App>,
    Administrator(caller): Administrator,
    Path(id): Path<String>,
    IfMatch(precondition): IfMatch,
) -> Result<StatusCode, ApiError> {
    app.cases.remove_code_host(&caller, &parsed(&id)?, precondition).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Test a code host
///
/// Tests whether the code host answers, whether it accepts the credential, and whether webhooks arrive. Stores nothing.
/// The response is 200 also if a test fails; see `health` of each finding.
#[utoipa::path(post, path = "/v2/code-hosts/{codeHost}/check", tag = "Code hosts", operation_id = "checkCodeHost",
    params(("codeHost" = String, Path, description = "The ID of the code host")),
    responses((status = 200, description = "The findings", body = FindingList), GetErrors))]
pub(crate) async fn check(
    State(app): State<App>,
    Administrator(caller): Administrator,
    Path(id): Path<String>,
) -> Result<Json<FindingList>, ApiError> {
    Ok(Json(app.cases.check_code_host(&caller, &parsed(&id)?).await?.into()))
}

fn shown(app: &App, described: &DescribedHost) -> InstalledCodeHost {
    show(described, app.cases.webhook_url(&described.host.id))
}

/// Parses the ID in a path. An ID that is not valid gets the same answer as one that does not exist.
fn parsed(id: &str) -> Result<CodeHostId, ApiError> {
    id.parse().map_err(|_| not_found::<journeyman_core::code_host::CodeHost>().into())
}

/// Returns the error with the name that the invalid field has in this interface.
fn named(error: Error) -> ApiError {
    match error {
        Error::Refused(Refusal { kind: RefusalKind::Invalid, text }) => {
            ApiError::bad_request(ErrorCode::InvalidBody, with_field(&text))
        }
        error => error.into(),
    }
}
