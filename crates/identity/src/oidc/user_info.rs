//! Requests to the user info endpoint (OpenID Connect Core, 5.3).

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION};
use http::{Request, Response, StatusCode};
use url::Url;

use super::OidcError;
use super::http::{Failure, JSON, other_media_type, parse};
use super::profile::PersonClaims;

/// Returns the request to the user info endpoint.
///
/// # Errors
/// The access token has characters that are not allowed in a header.
pub(super) fn request(endpoint: &Url, access_token: &str) -> Result<Request<Bytes>, OidcError> {
    if !access_token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(OidcError::bad("the provider's access token has characters that are not allowed"));
    }
    let request = Request::get(endpoint.as_str())
        .header(ACCEPT, JSON)
        .header(AUTHORIZATION, format!("Bearer {access_token}"))
        .body(Bytes::new());
    Ok(request.map_err(Failure::from)?)
}

/// Reads the response of the user info endpoint, which must be about the person with the ID `subject`. Signed and
/// encrypted responses are refused: a provider sends them only to clients that are registered for them.
///
/// # Errors
/// The response is not valid, or is about another person.
pub(super) fn claims(response: &Response<Bytes>, subject: &str) -> Result<PersonClaims, OidcError> {
    let status = response.status();
    if status != StatusCode::OK {
        return Err(OidcError::bad(format!("the user info endpoint answered with status {status}")));
    }
    if let Some(media_type) = other_media_type(response) {
        return Err(OidcError::bad(format!(
            "the user info endpoint answered with the media type {media_type:?}, and not {JSON}"
        )));
    }
    let claims: PersonClaims =
        parse(response.body()).map_err(|path| OidcError::bad(format!("the user info is not valid (at {path})")))?;
    if claims.sub != subject {
        return Err(OidcError::bad(format!(
            "the user info is not about this person: its subject is {:?}, and not {subject:?}",
            claims.sub
        )));
    }
    Ok(claims)
}

#[cfg(test)]
mod tests;
