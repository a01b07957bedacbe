//! The page with the form for a sign-in.

use std::sync::atomic::Ordering;

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;
use journeyman_core::ports::StoreError;
use journeyman_core::user::Role;

use crate::frame::OpenFrame;
use crate::{Shared, error_page, passkeys};

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage<'a> {
    frame: &'a OpenFrame,
    next: &'a str,
    name: &'a str,
    error: Option<String>,
    provider: Option<&'a str>,
    /// True if browsers use passkeys for this server.
    has_passkeys: bool,
    /// True if there is no administrator yet.
    unclaimed: bool,
}

/// Renders the sign-in page, with the error and the name of a refused attempt.
pub(super) async fn form(
    frame: &OpenFrame,
    status: StatusCode,
    (next, name): (&str, &str),
    error: Option<String>,
) -> Response {
    let shared = &frame.shared;
    let unclaimed = match is_unclaimed(shared).await {
        Ok(unclaimed) => unclaimed,
        Err(error) => return error_page::unavailable(shared, &error),
    };
    let provider = shared.services.provider.as_ref().map(|provider| provider.label());
    let has_passkeys = passkeys::site(&shared.settings.public_url).is_ok();
    frame.page(status, &SignInPage { frame, next, name, error, provider, has_passkeys, unclaimed })
}

/// Returns true if there is no administrator yet. The store is not asked again once there is one, because there will
/// always be one from then on.
async fn is_unclaimed(shared: &Shared) -> Result<bool, StoreError> {
    if shared.claimed.load(Ordering::Relaxed) {
        return Ok(false);
    }
    let users = shared.services.store.users().await?;
    let claimed = users.iter().any(|user| user.role == Role::Administrator && user.disabled_at.is_none());
    shared.claimed.store(claimed, Ordering::Relaxed);
    Ok(!claimed)
}
