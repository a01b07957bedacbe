//! Styles, scripts and the icon. They are compiled into the program; each has a URL that changes with its content.

pub(crate) mod routes;

use std::io::Write;
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

const STYLES: &str = concat!(
    include_str!("../assets/css/tokens.css"),
    include_str!("../assets/css/base.css"),
    include_str!("../assets/css/controls.css"),
    include_str!("../assets/css/parts.css"),
    include_str!("../assets/css/layout.css"),
    include_str!("../assets/css/dialogs.css"),
    include_str!("../assets/css/conversation.css"),
    include_str!("../assets/css/job.css"),
    include_str!("../assets/css/diff.css"),
    include_str!("../assets/css/lists.css"),
    include_str!("../assets/css/pull.css"),
    include_str!("../assets/css/system.css"),
    include_str!("../assets/css/docs.css"),
);

/// The name, media type and content of each asset.
const FILES: [(&str, &str, &str); 12] = [
    ("journeyman.css", "text/css; charset=utf-8", STYLES),
    ("journeyman.js", "text/javascript; charset=utf-8", include_str!("../assets/journeyman.js")),
    ("job.js", "text/javascript; charset=utf-8", include_str!("../assets/job.js")),
    ("lists.js", "text/javascript; charset=utf-8", include_str!("../assets/lists.js")),
    ("review.js", "text/javascript; charset=utf-8", include_str!("../assets/review.js")),
    ("common.js", "text/javascript; charset=utf-8", include_str!("../assets/common.js")),
    ("keyboard.js", "text/javascript; charset=utf-8", include_str!("../assets/keyboard.js")),
    ("passkeys.js", "text/javascript; charset=utf-8", include_str!("../assets/passkeys.js")),
    ("docs.js", "text/javascript; charset=utf-8", include_str!("../assets/docs.js")),
    ("turbo.js", "text/javascript; charset=utf-8", include_str!("../assets/vendor/turbo/turbo.js")),
    ("icon-dark.svg", "image/svg+xml", include_str!("../assets/icon-dark.svg")),
    ("icon.svg", "image/svg+xml", include_str!("../assets/icon.svg")),
];

/// The assets of this build.
#[derive(Clone)]
pub(crate) struct Assets(Arc<[Asset]>);

struct Asset {
    name: &'static str,
    kind: &'static str,
    plain: &'static str,
    /// The compressed content, from the first request on.
    gzipped: OnceLock<Bytes>,
    query: String,
}

impl Assets {
    /// Returns the assets that are compiled in.
    pub(crate) fn bundled() -> Self {
        let asset = |(name, kind, plain): (&'static str, &'static str, &'static str)| {
            let digest = Sha256::digest(plain);
            let version: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            Asset { name, kind, plain, gzipped: OnceLock::new(), query: format!("v={version}") }
        };
        Self(FILES.into_iter().map(asset).collect())
    }

    /// Returns the URL of an asset, with its version; empty if there is no such asset.
    pub(crate) fn href(&self, name: &str) -> String {
        let found = self.find(name);
        found.map_or_else(String::new, |asset| format!("/assets/{}?{}", asset.name, asset.query))
    }

    fn find(&self, name: &str) -> Option<&Asset> {
        self.0.iter().find(|asset| asset.name == name)
    }
}

fn gzip(plain: &str) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory cannot fail. If it did, the asset would be sent without compression.
    let gzipped = encoder.write_all(plain.as_bytes()).and_then(|()| encoder.finish());
    gzipped.unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vendored_turbo_has_the_checksum_in_its_readme() {
        let digest = Sha256::digest(include_str!("../assets/vendor/turbo/turbo.js"));
        let sum: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(include_str!("../assets/vendor/turbo/README.md").contains(&sum), "{sum}");
    }

    #[test]
    fn no_style_or_script_loads_anything_from_another_host() {
        for (name, _, content) in FILES.into_iter().filter(|(name, ..)| *name != "turbo.js") {
            for bad in ["@import", "url(", "http://", "https://", "eval(", "innerHTML"] {
                let found = content.find(bad).map(|at| &content[at..(at + 60).min(content.len())]);
                assert!(found.is_none_or(|found| found.contains("www.w3.org")), "{name}: {found:?}");
            }
        }
    }
}
