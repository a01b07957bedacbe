//! The content of pages, apart from the header and the navigation.

use askama::Template;

use super::guides::{self, GUIDES, Guide};
use super::spec::Spec;
use super::{Kind, Portal, reference};
use crate::fragment::Fragment;
use crate::highlight::{Budget, Highlighter};
use crate::icons::Icon;
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
    portal: &'w Portal,
    highlighter: &'w Highlighter,
    budget: Budget,
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
        &self.portal.spec
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

/// Renders the content of a page.
pub(super) fn render(
    portal: &Portal,
    kind: Kind,
    highlighter: &Highlighter,
    budget: Budget,
) -> askama::Result<Content> {
    let mut writer = Writer { portal, highlighter, budget };
    match kind {
        Kind::Overview => overview(&mut writer),
        Kind::Guide(guide) => text(&mut writer, guide.file, guide.text),
        Kind::Changelog => text(&mut writer, "CHANGELOG.md", &api_changes(CHANGELOG)),
        Kind::Reference => reference::index(&writer),
        Kind::Events => reference::events(&mut writer),
        Kind::Errors => reference::errors(&mut writer),
        Kind::Operation(number) => match portal.spec.operations.get(number) {
            Some(operation) => reference::operation(&mut writer, &portal.python, &portal.typescript, operation),
            None => Ok(Content { body: Fragment::default(), sections: Vec::new() }),
        },
    }
}

/// Returns a section of level 2.
pub(super) fn section(id: &str, title: &str) -> Section {
    Section { level: 2, id: id.to_owned(), title: title.to_owned() }
}

#[derive(Template)]
#[template(path = "docs_text.html")]
struct Text<'a> {
    markup: &'a Markup,
}

/// Renders a Markdown file of the repository.
fn text(writer: &mut Writer<'_>, file: &str, text: &str) -> askama::Result<Content> {
    let target = |link: &str| guides::target(file, link);
    let article = markdown::article(text, &target, writer.highlighter, &mut writer.budget);
    Ok(Content { body: Fragment::of(&Text { markup: &article.markup })?, sections: article.sections })
}

#[derive(Template)]
#[template(path = "docs_overview.html")]
struct Overview<'a> {
    guides: &'a [Guide],
    public_url: &'a str,
    samples: Vec<Code>,
}

impl Overview<'_> {
    #[expect(clippy::unused_self, reason = "templates call the method")]
    fn icon(&self, name: &str) -> Icon {
        crate::icons::icon(name)
    }
}

fn overview(writer: &mut Writer<'_>) -> askama::Result<Content> {
    let portal = writer.portal;
    let samples = reference::samples(writer, &portal.python, &portal.typescript, "createJob");
    let page = Overview { guides: &GUIDES, public_url: &portal.public_url, samples };
    let sections = vec![section("first-job", "The first job"), section("guides", "Guides")];
    Ok(Content { body: Fragment::of(&page)?, sections })
}

const CHANGELOG: &str = include_str!("../../../../CHANGELOG.md");

/// Returns the parts about the HTTP API of the changelog: the sections `#### HTTP API`, with the headings around them.
fn api_changes(changelog: &str) -> String {
    let mut out = "# Changelog of the HTTP API\n\nWithin `v2`, there are only additions.\n".to_owned();
    let (mut version, mut kind, mut is_open) = (None, None, false);
    for line in changelog.lines() {
        if line.starts_with("## ") {
            // The link of a version leads to its commits.
            (version, kind, is_open) = (Some(line.replace(['[', ']'], "")), None, false);
        } else if line.starts_with("### ") {
            (kind, is_open) = (Some(line.to_owned()), false);
        } else if line.starts_with("#### ") {
            is_open = line == "#### HTTP API";
            if is_open {
                for heading in [version.take(), kind.take()].into_iter().flatten() {
                    out.push_str(&format!("\n{heading}\n"));
                }
            }
        } else if is_open {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_changelog_has_the_version_of_the_program() {
        let heading = format!("\n## [{}] - 20", env!("CARGO_PKG_VERSION"));
        assert!(CHANGELOG.contains(&heading), "{heading} is missing");
    }

    #[test]
    fn the_changelog_of_the_api_has_only_its_parts() {
        let all = "# Changelog\n\n## [2]\n\n### Added\n\n#### Agents\n\n- b\n\n#### HTTP API\n\n- a\n\n#### Models\n\n- d\n\n## 1\n\n### Fixed\n\n- c\n";
        let found = api_changes(all);
        assert!(found.ends_with("\n## 2\n\n### Added\n\n- a\n\n"), "{found}");
        assert!(!found.contains("## 1"), "{found}");
        assert!(api_changes(CHANGELOG).contains("\n- "));
    }
}
