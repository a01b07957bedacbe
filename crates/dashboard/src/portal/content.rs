//! The content of pages, apart from the header and the navigation.

use askama::Template;

use super::guides::{self, GUIDES, Guide};
use super::reference;
use super::sources::{Kind, Sources};
use super::writer::{Code, Content, Writer, section};
use crate::fragment::Fragment;
use crate::highlight::{Budget, Highlighter};
use crate::icons::Icon;
use crate::markdown::{self, Markup};

/// Renders the content of a page.
pub(super) fn render(
    sources: &Sources,
    kind: Kind,
    highlighter: &Highlighter,
    budget: Budget,
) -> askama::Result<Content> {
    let mut writer = Writer { spec: &sources.spec, highlighter, budget };
    match kind {
        Kind::Overview => overview(&mut writer, sources),
        Kind::Guide(guide) => text(&mut writer, guide.file, guide.text),
        Kind::Changelog => text(&mut writer, "CHANGELOG.md", &api_changes(CHANGELOG)),
        Kind::Reference => reference::index(&writer),
        Kind::Events => reference::events(&mut writer),
        Kind::Errors => reference::errors(&mut writer),
        Kind::Operation(number) => match sources.spec.operations.get(number) {
            Some(operation) => reference::operation(&mut writer, &sources.python, &sources.typescript, operation),
            None => Ok(Content { body: Fragment::default(), sections: Vec::new() }),
        },
    }
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

fn overview(writer: &mut Writer<'_>, sources: &Sources) -> askama::Result<Content> {
    let samples = reference::samples(writer, &sources.python, &sources.typescript, "createJob");
    let page = Overview { guides: &GUIDES, public_url: &sources.public_url, samples };
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
