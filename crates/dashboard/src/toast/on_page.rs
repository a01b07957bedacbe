//! Toasts that need the frame of their page.

use askama::Template;
use axum::response::Response;

use super::{SmallForm, Toast, confirmed, context, streamed};
use crate::failure::Page;
use crate::frame::Frame;

/// The maximum length of the parameter `undo`. Proxies limit the headers of a response, nginx to 4 KiB by default.
const MAX_SEALED: usize = 2000;

#[derive(Template)]
#[template(path = "_toast_added.html")]
struct Added<'a> {
    frame: &'a Frame,
    toast: &'a Toast,
}

/// Redirects to a page of this site that shows a confirmation, with a button that undoes the action. There is no button if
/// its form is too long for a URL.
pub(crate) fn undoable(frame: &Frame, path: &str, done: &str, undo: &SmallForm) -> Response {
    let sealed = serde_json::to_string(undo).ok();
    let sealed = sealed.and_then(|form| frame.shared.services.seal.seal(&context(&frame.viewer), &form).ok());
    let undo =
        sealed.filter(|sealed| sealed.len() <= MAX_SEALED).map(|sealed| format!("&undo={sealed}")).unwrap_or_default();
    confirmed(path, &format!("{done}{undo}"))
}

impl Toast {
    /// Returns the response that adds the toast to the open page, for a form that Turbo has sent.
    pub(crate) fn added(&self, frame: &Frame) -> Page {
        streamed(&Added { frame, toast: self })
    }
}
