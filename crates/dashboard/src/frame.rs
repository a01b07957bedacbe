//! The context of every page: the viewer, the project, the assets.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use journeyman_app::{Caller, UseCases};
use journeyman_core::project::Project;
use journeyman_core::time::Timestamp;

use crate::failure::{self, Failure, Page};
use crate::icons::Icon;
use crate::moment::Moment;
use crate::viewer::Viewer;
use crate::{Shared, visible};

/// The context in which a handler renders a page.
#[derive(Clone)]
pub(crate) struct Frame {
    pub(crate) shared: Shared,
    pub(crate) viewer: Viewer,
    /// The time of the request, the same for the whole page.
    pub(crate) now: Timestamp,
    /// The confirmation of the action before, from [`failure::done`].
    pub(crate) done: Option<&'static str>,
}

impl Frame {
    /// Returns the URL of a style or script.
    pub(crate) fn asset(&self, name: &str) -> String {
        self.shared.assets.href(name)
    }

    /// Returns the viewer's name with hidden characters made visible.
    pub(crate) fn viewer_name(&self) -> String {
        visible::line(&self.viewer.user.name).into_owned()
    }

    /// Returns the version of the program.
    pub(crate) fn version(&self) -> &str {
        &self.shared.settings.version
    }

    /// Converts a time for display.
    pub(crate) fn moment(&self, at: Timestamp) -> Moment {
        Moment::new(at, self.now)
    }

    /// Returns an icon by its name.
    pub(crate) fn icon(&self, name: &str) -> Icon {
        crate::icons::icon(name)
    }

    /// Converts a handler's result into a response: the page, or the error page.
    pub(crate) fn answer(&self, page: Page) -> Response {
        page.unwrap_or_else(|failure| failure.page(self))
    }

    /// Returns the use cases.
    pub(crate) fn cases(&self) -> &UseCases {
        &self.shared.services.cases
    }

    /// Returns the viewer as the caller of a use case.
    pub(crate) fn caller(&self) -> Caller {
        self.viewer.caller()
    }

    /// Fails if the viewer's role is read-only.
    pub(crate) fn needs_write(&self) -> Result<(), Failure> {
        if self.viewer.can_write() { Ok(()) } else { Err(Failure::ReadOnly) }
    }

    /// Fails unless the viewer is an administrator.
    pub(crate) fn needs_administrator(&self) -> Result<(), Failure> {
        if self.viewer.is_administrator() { Ok(()) } else { Err(Failure::NotAdministrator) }
    }

    /// Creates an idempotency key for a form, so that repeated submissions take effect once.
    pub(crate) fn once(&self) -> String {
        journeyman_core::user::new_token(&*self.shared.services.ids).0[..32].to_owned()
    }
}

impl FromRequestParts<Shared> for Frame {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Response> {
        let viewer = Viewer::from_request_parts(parts, shared).await.map_err(IntoResponse::into_response)?;
        let now = shared.services.clock.now();
        let done = parts.uri.query().and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("done=")));
        Ok(Self { shared: shared.clone(), viewer, now, done: done.and_then(failure::done) })
    }
}

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
