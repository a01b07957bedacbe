//! The documentation for developers at `/docs`: guides, the reference of the HTTP interface, and the changelog.
//!
//! Guides are files of this repository, the reference comes from the OpenAPI document, and the examples from programs of
//! the client libraries, which their tests run. Everything is compiled in. The first request of a page gets it without
//! colors in code, because the grammars of a language take a while to load; it is rendered once with colors for the later
//! ones. The pages need no session; with one, they have the same header as the dashboard.

mod content;
mod curl;
mod examples;
mod guides;
mod pages;
mod reference;
mod schema;
mod sources;
mod spec;
#[cfg(test)]
mod tests;
mod writer;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use self::examples::Regions;
use self::guides::GUIDES;
pub(crate) use self::pages::routes;
use self::sources::{Kind, Sources};
use self::spec::Spec;
use self::writer::Content;
use crate::highlight::{Budget, Highlighter};

/// The documentation.
pub(crate) struct Portal {
    sources: Sources,
    pages: Vec<Page>,
}

/// A page.
struct Page {
    path: String,
    title: String,
    /// The heading of the navigation under which the page is.
    group: String,
    kind: Kind,
    /// The content with colors.
    content: OnceLock<Content>,
    /// True once the content is being rendered.
    is_begun: AtomicBool,
}

impl Portal {
    /// Creates the documentation of an OpenAPI document.
    pub(crate) fn new(document: Value, public_url: &str) -> Self {
        let spec = Spec::new(document);
        let page = |path: &str, title: &str, group: &str, kind: Kind| Page {
            path: path.to_owned(),
            title: title.to_owned(),
            group: group.to_owned(),
            kind,
            content: OnceLock::new(),
            is_begun: AtomicBool::new(false),
        };
        let mut pages = vec![page("/docs", "Overview", "Guides", Kind::Overview)];
        for guide in &GUIDES {
            pages.push(page(&guide.path(), guide.title(), "Guides", Kind::Guide(guide)));
        }
        pages.extend([
            page("/docs/reference", "All operations", "Reference", Kind::Reference),
            page("/docs/reference/events", "Event types", "Reference", Kind::Events),
            page("/docs/reference/errors", "Error codes", "Reference", Kind::Errors),
            page("/docs/changelog", "Changelog", "Reference", Kind::Changelog),
        ]);
        for (tag, _) in &spec.tags {
            for (number, operation) in spec.operations.iter().enumerate().filter(|(_, one)| one.tag == *tag) {
                pages.push(page(&operation.page(), &operation.summary, tag, Kind::Operation(number)));
            }
        }
        let (python, typescript) = (Regions::python(), Regions::typescript());
        Self { sources: Sources { spec, python, typescript, public_url: public_url.to_owned() }, pages }
    }

    /// Returns the position of the page at a path.
    fn find(&self, path: &str) -> Option<usize> {
        self.pages.iter().position(|page| page.path == path)
    }

    /// Returns the content of a page: with colors if that has been rendered.
    fn quick_content(&self, page: &Page, highlighter: &Highlighter) -> askama::Result<Content> {
        match page.content.get() {
            Some(content) => Ok(content.clone()),
            None => content::render(&self.sources, page.kind, highlighter, Budget::none()),
        }
    }

    /// Keeps the content of a page without colors for later requests.
    fn keep_plain(&self, page: &Page, highlighter: &Highlighter) {
        if let Ok(content) = content::render(&self.sources, page.kind, highlighter, Budget::none()) {
            let _ = page.content.set(content);
        }
    }

    /// Returns true for the first caller, who must then render the content of the page.
    fn begin(&self, page: &Page) -> bool {
        !page.is_begun.swap(true, Ordering::Relaxed)
    }

    /// Returns the content of a page with colors, which is rendered once. Call it within `spawn_blocking`.
    fn content(&self, page: &Page, highlighter: &Highlighter) -> askama::Result<Content> {
        if let Some(content) = page.content.get() {
            return Ok(content.clone());
        }
        let content = content::render(&self.sources, page.kind, highlighter, Budget::own_page())?;
        Ok(page.content.get_or_init(|| content).clone())
    }
}
