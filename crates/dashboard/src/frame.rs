//! What surrounds every page: who looks, at which project, in which style.

use std::borrow::Cow;

use axum::Extension;
use axum::extract::FromRequestParts;
use axum::extract::rejection::ExtensionRejection;
use axum::http::request::Parts;
use journeyman_core::project::Project;

use crate::assets::Stylesheet;
use crate::{Shared, Viewer, visible};

/// The surroundings of a page. Taken from a request, it fails only where the outer layer put no viewer or project there.
pub(crate) struct Frame {
    pub(crate) viewer: Viewer,
    pub(crate) project: Project,
    pub(crate) stylesheet: Stylesheet,
}

impl Frame {
    /// The caller's name as a page shows it.
    pub(crate) fn viewer_name(&self) -> Cow<'_, str> {
        visible::line(&self.viewer.name)
    }

    /// The address of the list of pull requests.
    pub(crate) fn pulls_path(&self) -> String {
        format!("/projects/{}/pulls", self.project.id)
    }

    /// The address of one.
    pub(crate) fn pull_path(&self, number: u64) -> String {
        format!("/projects/{}/pulls/{number}", self.project.id)
    }
}

impl FromRequestParts<Shared> for Frame {
    type Rejection = ExtensionRejection;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Self::Rejection> {
        let Extension(viewer) = Extension::<Viewer>::from_request_parts(parts, shared).await?;
        let Extension(project) = Extension::<Project>::from_request_parts(parts, shared).await?;
        Ok(Self { viewer, project, stylesheet: shared.stylesheet.clone() })
    }
}
