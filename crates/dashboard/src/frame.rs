//! The context of every page: the viewer, the assets, and the confirmation of the previous action.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use journeyman_app::{Caller, UseCases};
use journeyman_core::time::Timestamp;

use crate::failure::Failure;
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
    /// The confirmation of the previous action, from [`confirmation`].
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
        Ok(Self { shared: shared.clone(), viewer, now, done: done.and_then(confirmation) })
    }
}

/// Returns the confirmation that a page shows after an action, by its name in the query parameter `done`.
fn confirmation(name: &str) -> Option<&'static str> {
    let known = [
        ("saved", "Saved."),
        ("created", "Created."),
        ("revoked", "The key is revoked and no longer accepted."),
        ("deleted", "The project is deleted."),
        ("removed", "Removed."),
        ("app", "The GitHub App is created. Install it now: it has access to no repository until then."),
        ("password", "The password is changed. All your other sessions have ended."),
        ("archived", "The jobs are archived."),
        ("ended", "The session has ended."),
        ("disabled", "The user is disabled. Their sessions have ended and their keys are revoked."),
        ("enabled", "The user may sign in again."),
        ("redelivered", "The event will be delivered again."),
        ("merged", "Merged."),
        ("closed", "Closed."),
        ("sent", "Sent to the job."),
        ("commented", "The comment is added."),
        ("drafted", "The comment is added to your review. Submit the review when it is complete."),
        ("draft_removed", "The comment is removed."),
        ("reviewed", "The review is submitted."),
        ("review_sent", "The review is submitted, and sent to the job."),
    ];
    known.into_iter().find(|(known, _)| *known == name).map(|(_, text)| text)
}
