//! The badge with the state of a pull request.

use journeyman_core::code_host::PullState;
use journeyman_core::job::Job;
use journeyman_core::pull::{IndexedPull, LocalPull, Pull};

use crate::in_project::InProject;
use crate::words;

/// A label, its icon, and its class in the stylesheet.
#[derive(Clone, Copy)]
pub(in crate::pages) struct Badge {
    pub(in crate::pages) label: &'static str,
    pub(in crate::pages) icon: &'static str,
    pub(in crate::pages) class: &'static str,
}

impl Badge {
    /// Returns the badge of a pull request.
    pub(super) const fn of(pull: &LocalPull) -> Self {
        Self::new(pull.state, pull.draft)
    }

    /// Returns the badge of a pull request in the index.
    pub(super) const fn of_indexed(pull: &IndexedPull) -> Self {
        Self::new(pull.state, pull.draft)
    }

    /// Returns the badge of a state. An open draft has a badge that differs from other open pull requests.
    const fn new(state: PullState, draft: bool) -> Self {
        let (label, icon, class) = match state {
            PullState::Open if draft => ("Draft", "pull", "draft"),
            PullState::Open => ("Open", "pull", "open"),
            PullState::Merged => ("Merged", "merge", "merged"),
            PullState::Closed => ("Closed", "cross", "closed"),
        };
        Self { label, icon, class }
    }
}

/// The link to a pull request of a job, with its state as the code host last told it.
pub(in crate::pages) struct Pill {
    pub(in crate::pages) number: u64,
    pub(in crate::pages) href: String,
    pub(in crate::pages) badge: Badge,
}

impl Pill {
    /// Returns the link to the current pull request of a job; `None` if there is none, or if the code host's URL is not
    /// an http or https URL.
    pub(in crate::pages) fn of_job(at: &InProject, job: &Job) -> Option<Self> {
        let Pull { number, url, state, draft, .. } = job.pull.as_ref()?;
        Self::new(at, &job.source.repository, (*number, url), Badge::new(*state, *draft))
    }

    /// Returns the link to any pull request of a job.
    pub(in crate::pages) fn of_indexed(at: &InProject, pull: &IndexedPull) -> Option<Self> {
        let is_local = pull.repository.host == journeyman_core::code_host::HostName::local();
        let repository = if is_local { format!("local:{}", pull.repository.id) } else { String::new() };
        Self::new(at, &repository, (pull.number, &pull.url), Badge::of_indexed(pull))
    }

    /// Returns the URL where the pull request can be reviewed; `None` if it has ended.
    pub(in crate::pages) fn review_href(&self) -> Option<String> {
        let href = if self.href.starts_with('/') { format!("{}/files", self.href) } else { self.href.clone() };
        matches!(self.badge.class, "open" | "draft").then_some(href)
    }

    fn new(at: &InProject, repository: &str, (number, url): (u64, &str), badge: Badge) -> Option<Self> {
        let is_page_here = repository == at.project.repository && at.is_hosted();
        let href = if is_page_here { at.path(&format!("/pulls/{number}")) } else { url.to_owned() };
        (is_page_here || words::is_page(&href)).then_some(Self { number, href, badge })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_is_marked_while_it_is_open() {
        let labels = [(PullState::Open, true), (PullState::Open, false), (PullState::Merged, true)];
        assert_eq!(labels.map(|(state, draft)| Badge::new(state, draft).label), ["Draft", "Open", "Merged"]);
    }
}
