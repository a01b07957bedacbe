//! The context of every page: the viewer, the assets, the preferences, and the toast about the previous action.

use std::convert::Infallible;

use askama::Template;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{Html, IntoResponse, Response};
use journeyman_app::{Caller, UseCases};
use journeyman_core::time::Timestamp;

use crate::failure::Failure;
use crate::icons::Icon;
use crate::moment::{Day, Moment};
use crate::preferences::{Preferences, Theme};
use crate::toast::{self, Toast};
use crate::viewer::Viewer;
use crate::{Shared, visible};

/// The context in which a handler renders a page.
#[derive(Clone)]
pub(crate) struct Frame {
    pub(crate) shared: Shared,
    pub(crate) viewer: Viewer,
    /// The time of the request, the same for the whole page.
    pub(crate) now: Timestamp,
    /// The preferences of the browser.
    pub(crate) preferences: Preferences,
    /// The path and the query of the page; empty if the request is not a `GET`, so that no link leads to its target.
    pub(crate) here: String,
    /// The toast about the previous action.
    pub(crate) done: Option<Toast>,
    /// True if Turbo has sent the form of the request, so that the response can change the open page.
    pub(crate) can_stream: bool,
}

impl Frame {
    /// Creates the frame of a page without a confirmation, for a viewer whose session was found outside of the layer of
    /// the pages that require one.
    pub(crate) fn new(OpenFrame { shared, preferences }: OpenFrame, viewer: Viewer, here: String) -> Self {
        let now = shared.services.clock.now();
        Self { shared, viewer, now, preferences, here, done: None, can_stream: false }
    }

    /// Returns the URL of a style or script.
    pub(crate) fn asset(&self, name: &str) -> String {
        self.shared.assets.href(name)
    }

    /// Returns the viewer's name with hidden characters made visible.
    pub(crate) fn viewer_name(&self) -> String {
        visible::line(&self.viewer.user.name).into_owned()
    }

    /// Returns the first character of the viewer's name.
    pub(crate) fn viewer_initial(&self) -> String {
        self.viewer.user.name.chars().take(1).collect()
    }

    /// Returns the choices of the theme.
    pub(crate) const fn themes(&self) -> [Theme; 3] {
        Theme::ALL
    }

    /// Returns true if the page is in the section that begins at `path`. The section of `/` has only the home page.
    pub(crate) fn is_at(&self, path: &str) -> bool {
        let here = self.here.split('?').next().unwrap_or_default();
        let rest = here.strip_prefix(path);
        rest.is_some_and(|rest| rest.is_empty() || (path != "/" && rest.starts_with('/')))
    }

    /// Returns the path and the query of the page without the parameters of a toast.
    pub(crate) fn here_without_done(&self) -> String {
        toast::without(&self.here)
    }

    /// Returns the version of the program.
    pub(crate) fn version(&self) -> &str {
        &self.shared.settings.version
    }

    /// Converts a time for display.
    pub(crate) fn moment(&self, at: Timestamp) -> Moment {
        Moment::new(at, self.now)
    }

    /// Converts a time of which the day matters, such as the end of a key, for display.
    pub(crate) fn day(&self, at: Timestamp) -> Day {
        Day::new(at, self.now)
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
        let preferences = Preferences::of(&parts.headers);
        let done = Toast::of(shared, &viewer, parts.uri.query());
        let here = here(&parts.method, &parts.uri);
        let can_stream = toast::is_possible(&parts.method, &parts.headers);
        Ok(Self { shared: shared.clone(), viewer, now, preferences, here, done, can_stream })
    }
}

/// Returns the path and the query of a `GET`; otherwise an empty text.
pub(crate) fn here(method: &Method, uri: &Uri) -> String {
    uri.path_and_query().filter(|_| method == Method::GET).map_or_else(String::new, |here| here.as_str().to_owned())
}

/// The context of a page that needs no session.
#[derive(Clone)]
pub(crate) struct OpenFrame {
    pub(crate) shared: Shared,
    /// The preferences of the browser.
    pub(crate) preferences: Preferences,
}

impl OpenFrame {
    /// Returns the URL of a style or script.
    pub(crate) fn asset(&self, name: &str) -> String {
        self.shared.assets.href(name)
    }

    /// Returns an icon by its name.
    pub(crate) fn icon(&self, name: &str) -> Icon {
        crate::icons::icon(name)
    }

    /// Returns the version of the program.
    pub(crate) fn version(&self) -> &str {
        &self.shared.settings.version
    }

    /// Renders a page; responds with status 500 if that fails.
    pub(crate) fn page(&self, status: StatusCode, page: &impl Template) -> Response {
        match page.render() {
            Ok(html) => (status, Html(html)).into_response(),
            Err(error) => {
                tracing::error!(%error, "a page could not be rendered");
                (StatusCode::INTERNAL_SERVER_ERROR, "The page could not be rendered.").into_response()
            }
        }
    }
}

impl FromRequestParts<Shared> for OpenFrame {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Infallible> {
        Ok(Self { shared: shared.clone(), preferences: Preferences::of(&parts.headers) })
    }
}
