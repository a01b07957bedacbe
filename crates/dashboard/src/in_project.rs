//! The context of every page that belongs to a project.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::response::Response;
use journeyman_core::project::{Address, Project, parse_address};

use crate::Shared;
use crate::failure::Failure;
use crate::frame::Frame;

/// The context of a page that belongs to a project.
#[derive(Clone)]
pub(crate) struct InProject {
    pub(crate) frame: Frame,
    pub(crate) project: Project,
}

impl std::ops::Deref for InProject {
    type Target = Frame;

    fn deref(&self) -> &Frame {
        &self.frame
    }
}

impl InProject {
    /// Returns the path of a page of the project. `path` begins with a slash, or is empty.
    pub(crate) fn path(&self, path: &str) -> String {
        format!("/projects/{}{path}", self.project.id)
    }

    /// Returns true if the repository, and so its pull requests, is on the built-in code host.
    pub(crate) fn is_hosted(&self) -> bool {
        self.project.repository.starts_with("local:")
    }

    /// Returns true if the repository may have pull requests: it is not a path on the server.
    pub(crate) fn has_pulls(&self) -> bool {
        matches!(parse_address(&self.project.repository), Ok(Address::Local(_) | Address::Url(_)))
    }
}

impl FromRequestParts<Shared> for InProject {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Response> {
        let frame = Frame::from_request_parts(parts, shared).await?;
        let found = async {
            let id = segment(parts, shared, "project").await.and_then(|id| id.parse().ok());
            let id = id.ok_or(Failure::NotFound("project"))?;
            shared.services.store.project(id).await?.ok_or(Failure::NotFound("project"))
        };
        match found.await {
            Ok(project) => Ok(Self { frame, project }),
            Err(failure) => Err(failure.page(&frame)),
        }
    }
}

/// Returns a segment of the request's path by its name in the route.
pub(crate) async fn segment(parts: &mut Parts, shared: &Shared, name: &str) -> Option<String> {
    let path = Path::<std::collections::HashMap<String, String>>::from_request_parts(parts, shared).await;
    path.ok().and_then(|Path(mut segments)| segments.remove(name))
}
