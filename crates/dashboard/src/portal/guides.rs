//! The guides. To add one, add a line to [`GUIDES`].

/// A guide: a Markdown file of this repository.
pub(super) struct Guide {
    /// The last part of its path.
    pub(super) slug: &'static str,
    /// The path of the file in the repository.
    pub(super) file: &'static str,
    pub(super) text: &'static str,
}

macro_rules! guides {
    ($($slug:literal: $file:literal,)*) => {
        [$(Guide { slug: $slug, file: $file, text: include_str!(concat!("../../../../", $file)) }),*]
    };
}

/// The guides, in the order of the navigation.
pub(super) static GUIDES: [Guide; 16] = guides![
    "quickstart": "docs/guides/quickstart.md",
    "authentication": "docs/guides/authentication.md",
    "jobs": "docs/guides/jobs.md",
    "errors": "docs/guides/errors.md",
    "idempotency": "docs/guides/idempotency.md",
    "lists": "docs/guides/lists.md",
    "events": "docs/guides/events.md",
    "webhooks": "docs/webhooks.md",
    "reports": "docs/guides/reports.md",
    "limits": "docs/guides/limits.md",
    "client-libraries": "docs/sdks.md",
    "command-line": "docs/cli.md",
    "ci": "docs/ci.md",
    "slack": "docs/slack.md",
    "mcp": "docs/mcp.md",
    "a2a": "docs/a2a.md",
];

impl Guide {
    /// Returns the path of the page.
    pub(super) fn path(&self) -> String {
        format!("/docs/guides/{}", self.slug)
    }

    /// Returns the title, which is the first line of the text.
    pub(super) fn title(&self) -> &'static str {
        self.text.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or(self.slug)
    }
}

/// The page of the repository, for links to files that are not part of the documentation.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// Returns the URL for a link in a file of the repository. `file` is the path of that file.
pub(super) fn target(file: &str, link: &str) -> String {
    if link.starts_with('#') || link.contains("://") || link.starts_with("mailto:") {
        return link.to_owned();
    }
    let (path, section) = link.split_once('#').map_or((link, String::new()), |(path, id)| (path, format!("#{id}")));
    let path = resolved(file, path);
    let guide = GUIDES.iter().find(|guide| guide.file == path);
    match (guide, path.as_str()) {
        (Some(guide), _) => format!("{}{section}", guide.path()),
        (None, "docs/http.md") => "/docs".to_owned(),
        (None, "docs/openapi.json") => "/docs/openapi.json".to_owned(),
        (None, path) => format!("{REPOSITORY}/blob/main/{path}{section}"),
    }
}

/// Returns the path in the repository of a relative link.
fn resolved(file: &str, link: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages_of_the_documentation_or_to_the_repository() {
        for (file, link, expected) in [
            ("docs/webhooks.md", "#failures", "#failures"),
            ("docs/webhooks.md", "guides/events.md#cursors", "/docs/guides/events#cursors"),
            ("docs/guides/events.md", "../webhooks.md", "/docs/guides/webhooks"),
            ("docs/sdks.md", "http.md", "/docs"),
            ("docs/sdks.md", "openapi.json", "/docs/openapi.json"),
            ("docs/sdks.md", "https://x.example/", "https://x.example/"),
        ] {
            assert_eq!(target(file, link), expected, "{file}: {link}");
        }
        assert!(target("docs/sdks.md", "../sdk/python/README.md").ends_with("/blob/main/sdk/python/README.md"));
    }
}
