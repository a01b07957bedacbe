//! The proof of who the viewer is, which changes need that let people in: keys, users, passwords, second factors,
//! trusts and credentials.
//!
//! A session that is open in a browser is no proof that its user sits there. If the last proof is older than
//! [`PROOF_LIFETIME`], the answer to such a request is a page that asks for the password, or for a sign-in at the
//! provider. The page has the fields of the form, and sends them to the same path again with the proof, so that nothing
//! is lost and nothing is stored on the server ([decision 68](../../../docs/decisions/0068-second-factors.md)).

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, MatchedPath, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
#[cfg(doc)]
use journeyman_core::user::PROOF_LIFETIME;

use crate::Shared;
use crate::fields::Fields;
use crate::frame::Frame;
use crate::pages::confirm::{self, Asked};

/// The routes that need a recent proof.
pub(crate) const ROUTES: &[(Method, &str)] = &[
    (Method::GET, "/account/passkeys"),
    (Method::POST, "/account/passkeys"),
    (Method::POST, "/account/passkeys/{passkey}/remove"),
    (Method::POST, "/account/password"),
    (Method::POST, "/account/provider"),
    (Method::POST, "/account/provider/disconnect"),
    (Method::GET, "/account/second-factor"),
    (Method::POST, "/account/second-factor"),
    (Method::POST, "/account/second-factor/codes"),
    (Method::POST, "/account/second-factor/remove"),
    // The account in Slack gets the rights of the user.
    (Method::POST, "/account/slack"),
    (Method::POST, "/confirm"),
    (Method::POST, "/keys"),
    (Method::POST, "/keys/{key}/rotate"),
    (Method::POST, "/system/code-hosts"),
    (Method::POST, "/system/code-hosts/{host}/edit"),
    (Method::POST, "/system/code-hosts/{host}/remove"),
    // GitHub sends the credentials of the new app to the callback, which accepts only what this page has begun.
    (Method::GET, "/system/code-hosts/github/app"),
    (Method::POST, "/system/slack"),
    (Method::POST, "/system/slack/{workspace}/edit"),
    (Method::POST, "/system/slack/{workspace}/people"),
    (Method::POST, "/system/slack/{workspace}/remove"),
    (Method::POST, "/system/trusts"),
    (Method::POST, "/system/trusts/{trust}/edit"),
    (Method::POST, "/system/trusts/{trust}/remove"),
    (Method::POST, "/users"),
    (Method::POST, "/users/{user}/disable"),
    (Method::POST, "/users/{user}/disconnect"),
    (Method::POST, "/users/{user}/enable"),
    (Method::POST, "/users/{user}/link"),
    (Method::POST, "/users/{user}/role"),
    (Method::POST, "/users/{user}/second-factor/remove"),
];

/// The maximum size of a form that is kept while its sender proves who they are, in bytes: that of every form.
const MAX_FORM: usize = 2 << 20;

/// Returns whether a route needs a recent proof.
pub(crate) fn is_needed(method: &Method, path: &str) -> bool {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    ROUTES.iter().any(|(known, route)| known == method && *route == path)
}

/// Passes a request on, or asks the viewer for a proof first.
pub(crate) async fn required(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    if !path.is_some_and(|path| is_needed(request.method(), &path)) {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let mut frame = match Frame::from_request_parts(&mut parts, &shared).await {
        Ok(frame) => frame,
        Err(response) => return response,
    };
    if frame.viewer.is_fresh(frame.now) {
        return next.run(Request::from_parts(parts, body)).await;
    }
    let Ok(body) = to_bytes(body, MAX_FORM).await else {
        return (StatusCode::PAYLOAD_TOO_LARGE, "the form is too large\n").into_response();
    };
    let asked = if parts.method == Method::POST {
        let copy = Request::from_parts(parts.clone(), Body::from(body.clone()));
        match Fields::from_request(copy, &shared).await {
            Ok(fields) => Asked::form(parts.uri.path_and_query().map_or("/", |path| path.as_str()), fields),
            Err(rejection) => return rejection.into_response(),
        }
    } else {
        Asked::page(&frame.here)
    };
    match confirm::answer(&frame, &asked).await {
        Ok(Ok(at)) => {
            frame.viewer.proven_at = Some(at);
            parts.extensions.insert(frame.viewer);
            next.run(Request::from_parts(parts, Body::from(body))).await
        }
        Ok(Err(page)) => page,
        Err(failure) => frame.answer(Err(failure)),
    }
}
