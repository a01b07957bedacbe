//! Icons: SVG images of 16 by 16 pixels in the color of the surrounding text.

use std::fmt;

use askama::filters::HtmlSafe;

/// An inline SVG image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Icon(&'static str);

impl fmt::Display for Icon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<svg class=\"icon\" viewBox=\"0 0 16 16\" aria-hidden=\"true\">{}</svg>", self.0)
    }
}

/// Safe because the markup comes only from [`ICONS`].
impl HtmlSafe for Icon {}

/// Returns the icon with that name, or an empty one if there is none. A test checks the names in the templates.
pub(crate) fn icon(name: &str) -> Icon {
    ICONS.iter().find(|(known, _)| *known == name).map_or(Icon(""), |(_, drawing)| Icon(drawing))
}

const ICONS: &[(&str, &str)] = &[
    (
        "brand",
        r#"<path d="M10.5 2.5v6.8a3.3 3.3 0 0 1-6.6 0"/><circle cx="10.5" cy="2.9" r="1.4"/><circle cx="3.9" cy="9.3" r="1.4"/><path d="M10.5 9.5v4"/>"#,
    ),
    ("chevron", r#"<path d="m4.5 6.5 3.5 3.5 3.5-3.5"/>"#),
    ("plus", r#"<path d="M8 3.5v9M3.5 8h9"/>"#),
    ("check", r#"<path d="m3.5 8.5 3 3 6-7"/>"#),
    ("cross", r#"<path d="m4.5 4.5 7 7m0-7-7 7"/>"#),
    (
        "copy",
        r#"<rect x="5.5" y="5.5" width="7.5" height="7.5" rx="1.5"/><path d="M10.5 5.5v-1A1.5 1.5 0 0 0 9 3H4.5A1.5 1.5 0 0 0 3 4.5V9a1.5 1.5 0 0 0 1.5 1.5h1"/>"#,
    ),
    ("search", r#"<circle cx="7" cy="7" r="4"/><path d="m10 10 3 3"/>"#),
    ("key", r#"<circle cx="5.5" cy="10.5" r="2.5"/><path d="m7.3 8.7 5.2-5.2M10.5 5.5l1.8 1.8"/>"#),
    ("folder", r#"<path d="M2.5 12V4.5h4l1.5 2h5.5V12a1 1 0 0 1-1 1h-9a1 1 0 0 1-1-1Z"/>"#),
    ("jobs", r#"<path d="M6.5 4h7M6.5 8h7M6.5 12h7"/><path d="M2.8 4h.4M2.8 8h.4M2.8 12h.4"/>"#),
    (
        "pull",
        r#"<circle cx="4.5" cy="3.8" r="1.6"/><circle cx="4.5" cy="12.2" r="1.6"/><circle cx="11.5" cy="12.2" r="1.6"/><path d="M4.5 5.4v5.2M11.5 10.6V6.5A2 2 0 0 0 9.5 4.5H8"/>"#,
    ),
    (
        "merge",
        r#"<circle cx="4.5" cy="3.8" r="1.6"/><circle cx="4.5" cy="12.2" r="1.6"/><circle cx="11.5" cy="8" r="1.6"/><path d="M4.5 5.4v5.2M4.5 5.4c0 2 2.5 2.6 5.4 2.6"/>"#,
    ),
    (
        "settings",
        r#"<circle cx="8" cy="8" r="2"/><path d="M8 2.5v2M8 11.5v2M2.5 8h2M11.5 8h2M4.1 4.1l1.4 1.4M10.5 10.5l1.4 1.4M4.1 11.9l1.4-1.4M10.5 5.5l1.4-1.4"/>"#,
    ),
    ("user", r#"<circle cx="8" cy="5.5" r="2.5"/><path d="M3 13.5c.5-2.5 2.5-4 5-4s4.5 1.5 5 4"/>"#),
    (
        "users",
        r#"<circle cx="6" cy="5.5" r="2.3"/><path d="M1.8 13c.4-2.3 2-3.7 4.2-3.7s3.8 1.4 4.2 3.7M10.5 3.4a2.3 2.3 0 0 1 0 4.2M12 9.7c1.3.6 2 1.7 2.2 3.3"/>"#,
    ),
    ("log", r#"<path d="M4 2.5h8v11H4zM6 5.5h4M6 8h4M6 10.5h2.5"/>"#),
    (
        "system",
        r#"<rect x="2.5" y="3" width="11" height="4" rx="1"/><rect x="2.5" y="9" width="11" height="4" rx="1"/><path d="M5 5h.4M5 11h.4"/>"#,
    ),
    ("leave", r#"<path d="M6.5 3h-3v10h3M7 8h6.5M11 5.5 13.5 8 11 10.5"/>"#),
    ("clock", r#"<circle cx="8" cy="8" r="5.5"/><path d="M8 5v3l2 1.5"/>"#),
    ("play", r#"<path d="m5 3.5 7 4.5-7 4.5Z"/>"#),
    ("stop", r#"<rect x="4" y="4" width="8" height="8" rx="1"/>"#),
    ("archive", r#"<rect x="2.5" y="3" width="11" height="3" rx="1"/><path d="M3.5 6v6.5h9V6M6.5 8.5h3"/>"#),
    ("commit", r#"<circle cx="8" cy="8" r="2.5"/><path d="M2 8h3.5M10.5 8H14"/>"#),
    (
        "branch",
        r#"<circle cx="4.5" cy="3.8" r="1.6"/><circle cx="4.5" cy="12.2" r="1.6"/><circle cx="11.5" cy="5" r="1.6"/><path d="M4.5 5.4v5.2M11.5 6.6c0 2.4-4 2.2-6.5 4"/>"#,
    ),
    (
        "thought",
        r#"<path d="M8 2.5a4 4 0 0 1 2.5 7.1c-.4.4-.5.9-.5 1.4H6c0-.5-.1-1-.5-1.4A4 4 0 0 1 8 2.5ZM6.5 13.5h3"/>"#,
    ),
    ("shell", r#"<path d="m3 5 3 3-3 3M8 11.5h5"/>"#),
    ("read", r#"<path d="M2.5 8S4.5 4 8 4s5.5 4 5.5 4-2 4-5.5 4-5.5-4-5.5-4Z"/><circle cx="8" cy="8" r="1.5"/>"#),
    ("edit", r#"<path d="m3 13 .6-2.8L10.5 3.3l2.2 2.2-6.9 6.9ZM9.3 4.5l2.2 2.2"/>"#),
    ("globe", r#"<circle cx="8" cy="8" r="5.5"/><path d="M2.5 8h11M8 2.5c2 2 2 9 0 11M8 2.5c-2 2-2 9 0 11"/>"#),
    (
        "tool",
        r#"<path d="M9.5 6.5 4 12a1.2 1.2 0 0 1-1.7-1.7l5.5-5.5a3 3 0 0 1 4-3.2L10 3.4l.3 2.3 2.3.3 1.8-1.8a3 3 0 0 1-3.9 3.6"/>"#,
    ),
    ("shield", r#"<path d="M8 2.5 3.5 4v4c0 2.8 1.9 4.7 4.5 5.5 2.6-.8 4.5-2.7 4.5-5.5V4Z"/>"#),
    ("warning", r#"<path d="M8 2.8 14 13H2ZM8 6.5v3M8 11.3v.2"/>"#),
    ("info", r#"<circle cx="8" cy="8" r="5.5"/><path d="M8 7.5V11M8 5.2v.2"/>"#),
    ("model", r#"<path d="M8 2.5 9.4 6.6 13.5 8 9.4 9.4 8 13.5 6.6 9.4 2.5 8 6.6 6.6Z"/>"#),
    ("up", r#"<path d="M8 13V3.5M4 7.5l4-4 4 4"/>"#),
    ("down", r#"<path d="M8 3v9.5M4 8.5l4 4 4-4"/>"#),
    ("message", r#"<path d="M2.5 3.5h11v7.5H7l-3 2.5V11H2.5Z"/>"#),
    (
        "webhook",
        r#"<circle cx="8" cy="4.2" r="1.7"/><circle cx="4" cy="11.6" r="1.7"/><circle cx="12" cy="11.6" r="1.7"/><path d="m7.2 5.7-2.4 4.4M8.8 5.7l2.4 4.4M5.7 11.6h4.6"/>"#,
    ),
    ("inbox", r#"<path d="M2.5 9.5 4.5 3.5h7l2 6v3h-11ZM2.5 9.5h3.2l1 1.5h2.6l1-1.5h3.2"/>"#),
    ("file", r#"<path d="M4 2.5h5l3 3v8H4ZM9 2.5v3h3"/>"#),
    (
        "link",
        r#"<path d="M6.5 9.5a2.5 2.5 0 0 0 3.6 0l2-2a2.5 2.5 0 0 0-3.6-3.6l-.8.8M9.5 6.5a2.5 2.5 0 0 0-3.6 0l-2 2a2.5 2.5 0 0 0 3.6 3.6l.8-.8"/>"#,
    ),
    ("home", r#"<path d="M2.5 7.5 8 3l5.5 4.5M4 6.5V13h8V6.5M6.5 13V9.5h3V13"/>"#),
    ("chart", r#"<path d="M3 13V8M6.5 13V4M10 13V6.5M13.5 13V9.5"/>"#),
    ("message", r#"<path d="M2.5 3.5h11v7.5H7l-3 2.5V11H2.5Z"/>"#),
    ("more", r#"<path d="M3.5 8h.1M8 8h.1M12.5 8h.1" stroke-width="2"/>"#),
    ("download", r#"<path d="M8 2.5v7M5 7l3 3 3-3M3 13h10"/>"#),
    (
        "attach",
        r#"<path d="m12.6 7.6-4.9 4.9a2.7 2.7 0 0 1-3.8-3.8l5.2-5.2a1.8 1.8 0 0 1 2.5 2.5L6.5 11.1a.9.9 0 0 1-1.3-1.2l4.5-4.6"/>"#,
    ),
    ("refresh", r#"<path d="M13 8a5 5 0 1 1-1.5-3.6L13 6M13 2.8V6H9.8"/>"#),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names in all calls `icon("…")` of a text.
    fn named(text: &str) -> impl Iterator<Item = &str> {
        text.split("icon(\"").skip(1).filter_map(|rest| rest.split('"').next())
    }

    #[test]
    fn templates_name_only_existing_icons() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        for entry in std::fs::read_dir(root.join("templates")).expect("the templates") {
            let path = entry.expect("a template").path();
            let text = std::fs::read_to_string(&path).expect("a template");
            for name in named(&text) {
                assert_ne!(icon(name), Icon(""), "{name} in {}", path.display());
            }
        }
    }
}
