//! The exchange of an authorization code for tokens (RFC 6749, 4.1.3 and 5; OpenID Connect Core, 3.1.3).

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{Request, Response, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::http::{Failure, JSON, other_media_type};
use super::pending::Pending;
use super::provider::Metadata;
use super::{OidcError, OidcSettings};

/// The response of the token endpoint to a code that it accepts.
#[derive(Deserialize)]
pub(super) struct TokenResponse {
    pub(super) access_token: String,
    token_type: String,
    pub(super) id_token: Option<String>,
}

/// The response of the token endpoint to a request that it refuses (RFC 6749, 5.2).
#[derive(Deserialize)]
struct Refusal {
    error: String,
    error_description: Option<String>,
    error_uri: Option<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error)?;
        if let Some(description) = &self.error_description {
            write!(f, ": {description}")?;
        }
        if let Some(uri) = &self.error_uri {
            write!(f, " (see {uri})")?;
        }
        Ok(())
    }
}

impl From<Refusal> for OidcError {
    fn from(refusal: Refusal) -> Self {
        match refusal.error.as_str() {
            "invalid_client" | "unauthorized_client" => Self::unconfigured(format!(
                "the provider refuses oidc-client-id, or the secret in oidc-secret-file or how it is sent: {refusal}"
            )),
            _ => Self::bad(format!("the provider gave no token: {refusal}")),
        }
    }
}

/// Returns the request to the token endpoint.
///
/// # Errors
/// The URL of the endpoint is not valid in a request.
pub(super) fn request(
    settings: &OidcSettings,
    provider: &Metadata,
    code: &str,
    pending: &Pending,
    redirect: &Url,
) -> Result<Request<Bytes>, Failure> {
    let mut request = Request::post(provider.token_endpoint.as_str())
        .header(ACCEPT, JSON)
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "authorization_code")
        .append_pair("code", code)
        .append_pair("code_verifier", pending.verifier())
        .append_pair("redirect_uri", redirect.as_str());
    match &settings.client_secret {
        Some(secret) if !provider.takes_secret_in_body() => {
            request = request.header(AUTHORIZATION, basic(&settings.client_id, &secret.0));
        }
        Some(secret) => {
            form.append_pair("client_id", &settings.client_id).append_pair("client_secret", &secret.0);
        }
        // A public client.
        None => {
            form.append_pair("client_id", &settings.client_id);
        }
    }
    Ok(request.body(Bytes::from(form.finish()))?)
}

/// Returns the value of the header `Authorization`. The ID and the secret are form-encoded before they are joined (RFC
/// 6749, 2.3.1).
fn basic(id: &str, secret: &str) -> String {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    format!("Basic {}", STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret))))
}

/// Reads the response of the token endpoint.
///
/// # Errors
/// The provider refuses the request, or the response is not valid.
pub(super) fn tokens(response: &Response<Bytes>) -> Result<TokenResponse, OidcError> {
    let (status, body) = (response.status(), response.body());
    if body.is_empty() {
        return Err(unexpected(format!("it has the status {status} and no content")));
    }
    if status != StatusCode::OK {
        return Err(parse::<Refusal>(body)?.into());
    }
    if let Some(media_type) = other_media_type(response) {
        return Err(unexpected(format!("its media type is {media_type:?}, and not {JSON}")));
    }
    let tokens: TokenResponse = parse(body)?;
    if !tokens.token_type.eq_ignore_ascii_case("Bearer") {
        return Err(unexpected("the type of its access token (token_type) is not Bearer"));
    }
    Ok(tokens)
}

fn unexpected(why: impl fmt::Display) -> OidcError {
    OidcError::bad(format!("the token endpoint sent an unexpected response: {why}"))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, OidcError> {
    super::http::parse(body)
        .map_err(|path| OidcError::bad(format!("the response of the token endpoint is not valid (at {path})")))
}

#[cfg(test)]
mod tests;
