//! The operations on trusts, which only an administrator manages, and the exchange of a token for a key, which needs no
//! key.

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::header::{CACHE_CONTROL, ETAG, HeaderName, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use journeyman_app::{Answered, Presented};
use journeyman_core::ids::TrustId;
use journeyman_core::resource::not_found;
use journeyman_core::trust;

use crate::answer::created_unused;
use crate::app::App;
use crate::auth::{client_address, mark_connection};
use crate::conditional::{IfMatch, conditional, tag_of_use};
use crate::error::{ApiError, ErrorCode};
use crate::extract::{Administrator, IdempotencyKey, JsonBody, Parameters, unauthenticated_json};
use crate::openapi::{IdempotencyHeader, IfMatchHeader, errors};
use crate::page::{self, PageQuery};
use crate::wire::trust::{ChangeTrust, CreateTrust, ExchangeToken, ExchangedKey, Trust, TrustList};

errors!(ListErrors: 400, 401, 403, 503);
errors!(CreateErrors: 400, 401, 403, 404, 409, 413, 415, 422, 503, 504);
errors!(GetErrors: 401, 403, 404, 503);
errors!(ChangeErrors: 400, 401, 403, 404, 409, 412, 413, 415, 503, 504);
errors!(RemoveErrors: 401, 403, 404, 412, 503, 504);
errors!(ExchangeErrors: 400, 401, 403, 413, 415, 429, 503, 504);

/// The maximum size of the body of an exchange, in bytes.
const EXCHANGE_BYTES: usize = 32 * 1024;

/// List trusts
///
/// Returns the trusts in pages, oldest first.
#[utoipa::path(get, path = "/v2/oidc/trusts", tag = "Trusts", operation_id = "listTrusts", params(PageQuery),
    responses((status = 200, description = "A page of trusts", body = TrustList), ListErrors))]
pub(crate) async fn list(
    State(app): State<App>,
    Administrator(caller): Administrator,
    Parameters(query): Parameters<PageQuery>,
) -> Result<Json<TrustList>, ApiError> {
    let (limit, after) = query.read::<TrustId>()?;
    let mut trusts = app.cases.trusts(&caller).await?;
    let next_cursor = page::cut_after(&mut trusts, after, limit, |trust| trust.id);
    Ok(Json(TrustList { trusts: trusts.into_iter().map(Trust::from).collect(), next_cursor }))
}

/// Create a trust
///
/// Tokens of the issuer that are for the audience, and whose claims match all patterns, can be exchanged for a key with
/// the projects and the scope of the trust. The keys have the rights of the user who creates the trust, and end with
/// them.
#[utoipa::path(post, path = "/v2/oidc/trusts", tag = "Trusts", operation_id = "createTrust",
    params(IdempotencyHeader), request_body = CreateTrust,
    responses((status = 201, description = "The trust", body = Trust), CreateErrors))]
pub(crate) async fn create(
    State(app): State<App>,
    Administrator(caller): Administrator,
    key: IdempotencyKey,
    body: JsonBody<CreateTrust>,
) -> Result<Response, ApiError> {
    let idempotency = key.of("create trust", &body.bytes);
    let settings = body.value.read(app.cases.default_audience()).map_err(invalid)?;
    let answer = |trust: &trust::Trust| serde_json::to_string(&Trust::from(trust.clone())).unwrap_or_default();
    let (body, is_replay) = match app.cases.create_trust(&caller, settings, idempotency, answer).await? {
        Answered::New(trust) => (answer(&trust), false),
        Answered::Replayed(body) => (body, true),
    };
    Ok(created_unused("/v2/oidc/trusts", body, is_replay))
}

/// Get a trust
///
/// Returns the trust.
#[utoipa::path(get, path = "/v2/oidc/trusts/{id}", tag = "Trusts", operation_id = "getTrust",
    params(("id" = String, Path, description = "The ID of the trust")),
    responses((status = 200, description = "The trust", body = Trust), GetErrors))]
pub(crate) async fn get(
    State(app): State<App>,
    Administrator(caller): Administrator,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let found = app.cases.trust(&caller, parsed(&id)?).await?;
    Ok(conditional(&tag(&found), Trust::from(found), &headers))
}

/// Change a trust
///
/// Changes the given fields. The keys of the trust are revoked, unless only its name changes.
#[utoipa::path(patch, path = "/v2/oidc/trusts/{id}", tag = "Trusts", operation_id = "changeTrust",
    params(("id" = String, Path, description = "The ID of the trust"), IfMatchHeader), request_body = ChangeTrust,
    responses((status = 200, description = "The trust", body = Trust), ChangeErrors))]
pub(crate) async fn change(
    State(app): State<App>,
    Administrator(caller): Administrator,
    Path(id): Path<String>,
    IfMatch(precondition): IfMatch,
    body: JsonBody<ChangeTrust>,
) -> Result<Response, ApiError> {
    let id = parsed(&id)?;
    let changes = body.value.read(app.cases.default_audience()).map_err(invalid)?;
    let edit = Box::new(move |known: &_| changes.apply(known));
    let changed = app.cases.change_trust(&caller, id, precondition, edit).await?;
    Ok((tagged(&changed), Json(Trust::from(changed))).into_response())
}

/// Delete a trust
///
/// Deletes the trust, and revokes its keys at once. Deleting it again changes nothing.
#[utoipa::path(delete, path = "/v2/oidc/trusts/{id}", tag = "Trusts", operation_id = "deleteTrust",
    params(("id" = String, Path, description = "The ID of the trust"), IfMatchHeader),
    responses((status = 204, description = "The trust is deleted"), RemoveErrors))]
pub(crate) async fn delete(
    State(app): State<App>,
    Administrator(caller): Administrator,
    Path(id): Path<String>,
    IfMatch(precondition): IfMatch,
) -> Result<StatusCode, ApiError> {
    app.cases.remove_trust(&caller, parsed(&id)?, precondition).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Exchange a token for a key
///
/// Returns a key that works for 15 minutes, for a token of an OpenID issuer that a trust accepts. Needs no API key. A CI
/// job uses the token that its CI service gives it, so that no key is stored there. A token has one key: until it
/// expires, it can be exchanged again, 20 times and once more each minute. The key then gets a new secret, and the one
/// before is refused.
#[utoipa::path(post, path = "/v2/oidc/exchange", tag = "Trusts", operation_id = "exchangeToken",
    request_body = ExchangeToken, security(()),
    responses((status = 201, description = "The key with its secret", body = ExchangedKey), ExchangeErrors))]
pub(crate) async fn exchange(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let address = client_address(&app, &parts);
    let now = app.services.engine.now();
    if let Err(wait) = app.exchanges.begin(address, now) {
        let seconds = wait.as_secs() + 1;
        let text = format!("too many tokens from your address were refused; try again in {seconds} s");
        return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, ErrorCode::TooManyAttempts, text)
            .with(RETRY_AFTER, HeaderValue::from(seconds)));
    }
    let exchanged = async {
        let request = Request::from_parts(parts.clone(), body);
        let given: ExchangeToken = unauthenticated_json(request, &app, EXCHANGE_BYTES, address).await?;
        let presented = Presented { token: &given.token, trust: given.trust.as_deref(), address };
        Ok::<_, ApiError>(app.cases.exchange_token(presented).await?)
    };
    let exchanged = exchanged.await;
    mark_connection(&parts, exchanged.is_ok());
    let key = match exchanged {
        Ok(key) => key,
        Err(error) => {
            // A client whose issuer or store is away has done nothing wrong. A token that is exchanged too often has its
            // own limit, and must not shut out other jobs behind the same address.
            if error.is_failure() || error.problem().code == ErrorCode::TooManyExchanges {
                app.exchanges.forgive(address);
            }
            return Err(error);
        }
    };
    app.exchanges.forgive(address);
    let headers = [(CACHE_CONTROL, "no-store")];
    Ok((StatusCode::CREATED, headers, Json(ExchangedKey::from(key))).into_response())
}

/// Returns the entity tag of a trust.
fn tag(trust: &trust::Trust) -> String {
    tag_of_use(trust.version, trust.last_used_at)
}

/// Returns the header with the entity tag of a trust.
fn tagged(trust: &trust::Trust) -> [(HeaderName, String); 1] {
    [(ETAG, tag(trust))]
}

/// Parses the ID in a path. An ID that is not valid gets the same answer as one that does not exist.
fn parsed(id: &str) -> Result<TrustId, ApiError> {
    id.parse().map_err(|_| not_found::<journeyman_core::trust::Trust>().into())
}

fn invalid(text: String) -> ApiError {
    ApiError::bad_request(ErrorCode::InvalidBody, text)
}
