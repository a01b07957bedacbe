//! The findings of a test of a code host, of a Slack workspace or of a repository.

use askama::Template;
use journeyman_core::finding::{Finding, Health};

use crate::failure::Page;
use crate::frame::Frame;
use crate::moment::Moment;
use crate::{toast, visible, words};

/// A finding, for templates.
pub(super) struct Line {
    pub(super) check: String,
    pub(super) badge: (&'static str, &'static str),
    pub(super) text: String,
    /// The time after the text.
    pub(super) at: Option<Moment>,
}

impl Line {
    pub(super) fn new(frame: &Frame, finding: &Finding) -> Self {
        let badge = match finding.health {
            Health::Ok => ("ok", "ok"),
            Health::Warning => ("warning", "warning"),
            Health::Failure => ("danger", "failed"),
        };
        let check = words::sentence(&finding.check).trim_end_matches('.').to_owned();
        let text = words::sentence(&visible::line(&finding.text));
        match finding.at {
            Some(at) => Self { check, badge, text: text.trim_end_matches('.').to_owned(), at: Some(frame.moment(at)) },
            None => Self { check, badge, text, at: None },
        }
    }
}

#[derive(Template)]
#[template(path = "_findings_stream.html")]
struct Change<'a> {
    heading: &'a str,
    findings: &'a [Line],
}

/// Returns the response to a test whose form Turbo has sent: the open page shows the findings, and keeps its text.
pub(super) fn in_place(heading: &str, findings: &[Line]) -> Page {
    toast::streamed(&Change { heading, findings })
}
