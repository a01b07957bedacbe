//! Renders the texts and the code of one page.

use super::guides;
use super::spec::Spec;
use crate::fragment::Fragment;
use crate::highlight::{Budget, Highlighter};
use crate::markdown::{self, Markup, Section};

/// The content of a page.
#[derive(Clone)]
pub(super) struct Content {
    pub(super) body: Fragment,
    /// The sections, for the table of contents.
    pub(super) sections: Vec<Section>,
}

/// Renders the texts and the code of one page.
pub(super) struct Writer<'w> {
    /// The OpenAPI document.
    pub(super) spec: &'w Spec,
    pub(super) highlighter: &'w Highlighter,
    pub(super) budget: Budget,
}

/// Code with a button that copies it.
pub(super) struct Code {
    /// The ID of the element.
    pub(super) id: String,
    /// The name of the language for readers.
    pub(super) name: &'static str,
    pub(super) code: Markup,
}

impl<'w> Writer<'w> {
    pub(super) fn spec(&self) -> &'w Spec {
        self.spec
    }

    /// Renders a description of the OpenAPI document.
    pub(super) fn markdown(&mut self, text: &str) -> Markup {
        let target = |link: &str| guides::target("docs/openapi.json", link);
        markdown::article(text, &target, self.highlighter, &mut self.budget).markup
    }

    /// Renders code with an ID that is unique on the page.
    pub(super) fn code(&mut self, id: &str, name: &'static str, language: &str, text: &str) -> Code {
        let code = markdown::code(language, text.trim_end(), self.highlighter, &mut self.budget);
        Code { id: id.to_owned(), name, code }
    }
}

/// Returns a section of level 2.
pub(super) fn section(id: &str, title: &str) -> Section {
    Section { level: 2, id: id.to_owned(), title: title.to_owned() }
}
