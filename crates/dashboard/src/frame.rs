//! What surrounds every page: who looks, where they are, in which style.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use journeyman_core::project::Project;
use journeyman_core::time::Timestamp;
use serde_json::Value;

use crate::failure::{self, Failure, Page};
use crate::icons::Icon;
use crate::interface::{Call, Refusal};
use crate::moment::Moment;
use crate::viewer::Viewer;
use crate::{Shared, visible};

/// The surroundings of a page.
#[derive(Clone)]
pub(crate) struct Frame {
    pub(crate) shared: Shared,
    pub(crate) viewer: Viewer,
    /// The present, as this page sees it.
    pub(crate) now: Timestamp,
    /// What was just done, of the texts in [`done`].
    pub(crate) done: Option<&'static str>,
}

impl Frame {
    /// The address of a style or script.
    pub(crate) fn asset(&self, name: &str) -> String {
        self.shared.assets.href(name)
    }

    /// The viewer's name as a page shows it.
    pub(crate) fn viewer_name(&self) -> String {
        visible::line(&self.viewer.user.name).into_owned()
    }

    /// The version of the program.
    pub(crate) fn version(&self) -> &str {
        &self.shared.settings.version
    }

    /// A time.
    pub(crate) fn moment(&self, at: Timestamp) -> Moment {
        Moment::new(at, self.now)
    }

    /// A drawing.
    pub(crate) fn icon(&self, name: &str) -> Icon {
        crate::icons::icon(name)
    }

    /// The page, or that of what went wrong.
    pub(crate) fn answer(&self, page: Page) -> Response {
        page.unwrap_or_else(|failure| failure.page(self))
    }

    /// Asks the interface for something, for the viewer.
    pub(crate) async fn call(&self, call: Call) -> Result<Value, Refusal> {
        self.shared.services.interface.call(&self.viewer, call).await.done()
    }

    /// Refuses those who may only look.
    pub(crate) fn needs_write(&self) -> Result<(), Failure> {
        if self.viewer.can_write() { Ok(()) } else { Err(Failure::ReadOnly) }
    }

    /// Refuses all but administrators.
    pub(crate) fn needs_administrator(&self) -> Result<(), Failure> {
        if self.viewer.is_administrator() { Ok(()) } else { Err(Failure::NotAdministrator) }
    }

    /// A new key that makes a form count once, however often it is sent.
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

/// A page of a project.
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
    /// The address of a page of the project: `path` begins with a slash, or is empty.
    pub(crate) fn path(&self, path: &str) -> String {
        format!("/projects/{}{path}", self.project.id)
    }

    /// The same in the HTTP interface.
    pub(crate) fn api(&self, path: &str) -> String {
        format!("/v2/agent/{}{path}", self.project.id)
    }

    /// Whether its pull requests are here.
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

/// A part of the path by its name in the route.
pub(crate) async fn segment(parts: &mut Parts, shared: &Shared, name: &str) -> Option<String> {
    let path = Path::<std::collections::HashMap<String, String>>::from_request_parts(parts, shared).await;
    path.ok().and_then(|Path(mut segments)| segments.remove(name))
}
