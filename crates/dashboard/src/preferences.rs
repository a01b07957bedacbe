//! Preferences of a browser, which cookies keep: the theme, and whether letters are shortcuts. The server renders them,
//! so that a page has its colors from the beginning, and no script has to set them.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};

use crate::{Settings, Shared, cookies};

const THEME_COOKIE: &str = "journeyman-theme";
const LETTERS_COOKIE: &str = "journeyman-letters";

/// The lifetime of a preference: a year, in seconds.
const YEAR: u64 = 365 * 86_400;

/// The colors of the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Theme {
    /// The colors that the system prefers.
    #[default]
    System,
    /// Dark text on a light background.
    Light,
    /// Light text on a dark background.
    Dark,
}

impl Theme {
    /// All themes, in the order of the switch.
    pub(crate) const ALL: [Self; 3] = [Self::System, Self::Light, Self::Dark];

    /// Returns the name in forms, cookies and the attribute `data-theme`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// Returns the text of the switch.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::System => "System",
            Self::Light => "Light",
            Self::Dark => "Dark",
        }
    }

    /// Finds a theme by its [`Theme::name`].
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.name() == name)
    }

    /// Returns the cookie that keeps this theme.
    pub(crate) fn cookie(self, settings: &Settings) -> HeaderValue {
        cookies::set(settings, THEME_COOKIE, self.name(), YEAR)
    }
}

/// The preferences of the browser that sent a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Preferences {
    /// The theme.
    pub(crate) theme: Theme,
    /// True if single letters are not shortcuts.
    pub(crate) without_letters: bool,
}

impl Preferences {
    /// Reads the preferences from the cookies of a request. Unknown values are ignored.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        Self {
            theme: cookies::all(headers, THEME_COOKIE).find_map(Theme::parse).unwrap_or_default(),
            without_letters: cookies::all(headers, LETTERS_COOKIE).any(|value| value == "off"),
        }
    }

    /// Returns the cookie that switches letters as shortcuts on or off.
    pub(crate) fn letters_cookie(settings: &Settings, are_on: bool) -> HeaderValue {
        if are_on {
            cookies::set(settings, LETTERS_COOKIE, "", 0)
        } else {
            cookies::set(settings, LETTERS_COOKIE, "off", YEAR)
        }
    }
}

impl FromRequestParts<Shared> for Preferences {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.headers))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header::COOKIE;

    use super::*;

    #[test]
    fn preferences_are_read_from_cookies() {
        let cases = [
            ("", Theme::System, false),
            ("journeyman-theme=dark", Theme::Dark, false),
            ("journeyman-theme=light; journeyman-letters=off", Theme::Light, true),
            ("journeyman-theme=pink; journeyman-letters=on", Theme::System, false),
        ];
        for (cookie, theme, without_letters) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(COOKIE, cookie.parse().expect("a header"));
            assert_eq!(Preferences::of(&headers), Preferences { theme, without_letters }, "{cookie}");
        }
    }
}
