//! Pages in the user's browser.

use std::process::Command;

use anyhow::{Context, bail};

use super::store::print;
use crate::config::ClientEnvironment;

/// Prints the URL of a page, and opens the page if there is a browser: `BROWSER`, or `xdg-open` on a desktop.
///
/// # Errors
/// The browser cannot be started, or fails.
pub(super) fn open(url: &str, environment: &ClientEnvironment) -> anyhow::Result<()> {
    print(url)?;
    // The address of a pull request is from its code host.
    if !["https://", "http://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Ok(());
    }
    let Some(words) = command(url, environment.browser.as_deref(), environment.has_display) else { return Ok(()) };
    let [program, arguments @ ..] = words.as_slice() else { return Ok(()) };
    let status = Command::new(program).args(arguments).status();
    let status = status.with_context(|| format!("{program} could not be started; set BROWSER to your browser"))?;
    if !status.success() {
        bail!("{program} failed ({status}); set BROWSER to your browser");
    }
    Ok(())
}

/// Returns the words of the command that opens a page; `None` if there is no browser.
fn command(url: &str, browser: Option<&str>, has_display: bool) -> Option<Vec<String>> {
    let first = browser.and_then(|browsers| browsers.split(':').find(|browser| !browser.trim().is_empty()));
    let Some(browser) = first else {
        return has_display.then(|| vec!["xdg-open".to_owned(), url.to_owned()]);
    };
    let mut words: Vec<String> = browser.split_whitespace().map(str::to_owned).collect();
    match words.iter_mut().find(|word| word.contains("%s")) {
        Some(word) => *word = word.replace("%s", url),
        None => words.push(url.to_owned()),
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_browser_of_the_variable_comes_before_the_desktop() {
        let url = "http://h/x";
        for (browser, has_display, expected) in [
            (None, false, None),
            (None, true, Some(vec!["xdg-open", url])),
            (Some("firefox"), false, Some(vec!["firefox", url])),
            (Some(":lynx -nocolor:firefox"), true, Some(vec!["lynx", "-nocolor", url])),
            (Some("w3m %s --quiet"), true, Some(vec!["w3m", url, "--quiet"])),
            (Some("::"), false, None),
        ] {
            assert_eq!(command(url, browser, has_display), expected.map(owned), "{browser:?}");
        }
    }

    fn owned(words: Vec<&str>) -> Vec<String> {
        words.into_iter().map(str::to_owned).collect()
    }
}
