//! The repositories of the built-in code host, for git clients and git-lfs: `/git/{projectId}.git`.

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path, RawQuery, Request, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use axum::routing::get;
use futures::TryStreamExt;
use journeyman_core::lfs::SERVER;
use journeyman_core::ports::{GitHttpRequest, GitServerError};

use crate::app::App;
use crate::auth::may_push;
use crate::caller::{Caller, visible};
use crate::error::{ApiError, ErrorCode};
use crate::limits;

/// Returns the routes, which require the authentication layer [`crate::auth::of_git`].
pub(crate) fn routes() -> Router<App> {
    Router::new().route("/git/{repository}/{*path}", get(serve).post(serve).put(serve))
}

async fn serve(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((repository, path)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, ApiError> {
    // The suffix is optional: git sends the URL as the user typed it.
    let id = repository.strip_suffix(".git").unwrap_or(&repository);
    let project = app.cases.known_project(&caller, &visible(&caller, id)?).await?;
    let (parts, body) = request.into_parts();
    let text = |name: HeaderName| parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let asked = GitHttpRequest {
        method: parts.method.to_string(),
        path: format!("/{path}"),
        query: query.unwrap_or_default(),
        content_type: text(CONTENT_TYPE),
        content_encoding: text(CONTENT_ENCODING),
        git_protocol: text(HeaderName::from_static("git-protocol")),
        user: caller.name().to_owned(),
        body: Box::pin(body.into_data_stream().map_err(std::io::Error::other)),
    };
    // Objects of Git LFS are files, for which git does not run.
    let mut permits = Vec::new();
    if !asked.path.starts_with(SERVER) {
        // A request that only lists refs unpacks nothing.
        if asked.method == Method::POST.as_str() && app.services.git.needs_write(&asked.path, &asked.query) {
            permits.push(limits::push(&app, &caller).await?);
        }
        permits.push(limits::git(&app, &caller).await?);
    }
    let served = match asked.path.starts_with(SERVER) {
        true => app.services.lfs.serve(&project, asked, may_push(&app, &caller)).await,
        false => app.services.git.serve(&project, asked).await,
    };
    let served = served.map_err(|error| match error {
        GitServerError::NotFound => {
            ApiError::new(StatusCode::NOT_FOUND, ErrorCode::RepositoryNotFound, error.to_string())
        }
        GitServerError::Failed(_) => ApiError::internal(&error),
    })?;
    let mut response = Response::new(permits.into_iter().fold(Body::from_stream(served.body), limits::held));
    *response.status_mut() = StatusCode::from_u16(served.status).unwrap_or(StatusCode::BAD_GATEWAY);
    for (name, value) in served.headers {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(&value)) {
            response.headers_mut().append(name, value);
        }
    }
    Ok(response)
}
