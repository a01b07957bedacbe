//! The layer of the pages for signed-in users. It redirects other visitors to the sign-in page, and users without a
//! required second factor to the page that sets one up.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use journeyman_core::ports::ClientConnection;

use crate::session::{sign_in_path, viewer};
use crate::viewer::Viewer;
use crate::{Shared, error_page, second_factor, toast};

/// Adds the [`Viewer`] to a request, or redirects the browser to the sign-in page.
pub(crate) async fn required(State(shared): State<Shared>, mut request: Request, next: Next) -> Response {
    let (headers, address) = (request.headers().clone(), request.extensions().get().copied().unwrap_or_default());
    match viewer(&shared, &headers, address).await {
        Ok(Some(viewer)) => {
            mark_connection(&request, true);
            if second_factor::is_missing(&shared, &viewer.user) && !second_factor::is_for_setup(request.uri().path()) {
                return Redirect::to(second_factor::SETUP).into_response();
            }
            let traceparent = request.extensions().get().cloned();
            request.extensions_mut().insert(Viewer { traceparent, ..viewer });
            next.run(request).await
        }
        Ok(None) => {
            mark_connection(&request, false);
            // The content of a form is lost, so only the path of a GET request is a target after the sign-in.
            let back = if request.method() == Method::GET { request.uri().path_and_query() } else { None };
            Redirect::to(&sign_in_path(back.map_or("", |path| path.as_str()))).into_response()
        }
        Err(error) if toast::is_possible(request.method(), request.headers()) => error_page::unavailable_toast(&error),
        Err(error) => error_page::unavailable(&shared, &error),
    }
}

/// Reports to the server whether the request on this connection comes from a signed-in user.
fn mark_connection(request: &Request, authenticated: bool) {
    if let Some(connection) = request.extensions().get::<Arc<dyn ClientConnection>>() {
        connection.set_authenticated(authenticated);
    }
}
