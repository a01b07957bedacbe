//! Settings from the environment: `JOURNEYMAN_` and the flag's name in capitals.
//!
//! The parser of the flag parses the value, so both accept the same formats.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as _;
use std::fmt;
use std::path::PathBuf;

use anyhow::bail;
use clap::error::{ContextKind, ContextValue};
use clap::{Args, FromArgMatches};

use super::layer::Layer;
use super::suggest::{among, nearest, or_similar};

/// The values from the process's environment that the service uses in addition to the settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MachineEnvironment {
    /// The search path, for git, agents and setup commands.
    pub(crate) path: Option<String>,
    /// True if the effective user is root.
    pub(crate) is_root: bool,
    /// The effective user ID.
    pub(crate) user: u32,
    /// The home folder of the user.
    pub(crate) home: Option<PathBuf>,
    /// The user's data folder (`XDG_DATA_HOME`), if its path is absolute.
    pub(crate) data_home: Option<PathBuf>,
    /// The master key itself, which takes precedence over a key file.
    pub(crate) master_key: Option<String>,
    /// Further master keys, separated by commas, in addition to those in files.
    pub(crate) other_master_keys: Option<String>,
    /// The proxies for git, which the HTTP client reads itself.
    pub(crate) proxies: Proxies,
    /// The variables for the provider of the blob store.
    pub(crate) provider: ProviderOptions,
    /// The keys of models, by the names of their variables.
    pub(crate) model_keys: ModelKeys,
    /// True if this program was restarted in a scope of the user's systemd, as [`SCOPE`] indicates.
    pub(crate) is_in_scope: bool,
}

/// The environment variable that is set in a program that was restarted in a scope of the user's systemd.
pub(crate) const SCOPE: &str = "JOURNEYMAN_SCOPE";

/// The keys of models, by the names of their variables. `Debug` shows only the names.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct ModelKeys(pub(crate) BTreeMap<String, String>);

impl fmt::Debug for ModelKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The variables that the tools of Amazon, Google and Microsoft use, credentials included. `Debug` shows only names.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct ProviderOptions(pub(crate) Vec<(String, String)>);

impl fmt::Debug for ProviderOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// The variables that name proxies, in lowercase: git ignores `HTTP_PROXY` in uppercase. A proxy's URL may contain a
/// password, so `Debug` shows only names.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Proxies(pub(crate) Vec<(String, String)>);

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// The names of the variables in [`Proxies`].
const PROXIES: [&str; 4] = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"];

/// Returns the proxies. Of a variable in both cases, the one in lowercase counts.
fn proxies(mut take: impl FnMut(&str) -> Option<String>) -> Proxies {
    let mut read = |name: &str| {
        let upper = take(&name.to_ascii_uppercase());
        take(name).or(upper).map(|value| (name.to_owned(), value))
    };
    Proxies(PROXIES.iter().filter_map(|name| read(name)).collect())
}

/// The prefixes of the variables in [`ProviderOptions`].
const PROVIDERS: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

/// Returns the environment variables of this process that are valid UTF-8; others cannot be settings.
#[expect(clippy::disallowed_methods, reason = "only this function reads the environment")]
pub(super) fn process() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Returns the home directory of the user (`HOME`).
pub(crate) fn home() -> Option<PathBuf> {
    process().remove("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}

/// Reads the values other than settings. `model_keys` are the names of the variables that may contain keys of models.
pub(super) fn machine(model_keys: &BTreeSet<String>) -> MachineEnvironment {
    let mut variables = process();
    let mut take = |name: &str| variables.remove(name).filter(|value| !value.is_empty());
    let model_keys = model_keys.iter().filter_map(|name| Some((name.clone(), take(name)?))).collect();
    MachineEnvironment {
        model_keys: ModelKeys(model_keys),
        proxies: proxies(&mut take),
        is_root: rustix::process::geteuid().is_root(),
        user: rustix::process::geteuid().as_raw(),
        path: take("PATH"),
        home: take("HOME").map(PathBuf::from),
        data_home: take("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute()),
        master_key: take("JOURNEYMAN_MASTER_KEY"),
        other_master_keys: take("JOURNEYMAN_OTHER_MASTER_KEYS"),
        is_in_scope: take(SCOPE).is_some(),
        provider: ProviderOptions(
            variables.into_iter().filter(|(name, _)| PROVIDERS.iter().any(|start| name.starts_with(start))).collect(),
        ),
    }
}

/// The values from the process's environment that the commands for people use. It has no `Debug`: one is a key.
#[derive(Default)]
pub(crate) struct ClientEnvironment {
    /// The URL of the server (`JOURNEYMAN_URL`).
    pub(crate) url: Option<String>,
    /// The API key (`JOURNEYMAN_KEY`).
    pub(crate) key: Option<String>,
    /// The ID of the project (`JOURNEYMAN_PROJECT`).
    pub(crate) project: Option<String>,
    /// The user's folder for configuration: `XDG_CONFIG_HOME` if its path is absolute, or else `~/.config`.
    pub(crate) config_home: Option<PathBuf>,
    /// The browsers, separated by colons (`BROWSER`).
    pub(crate) browser: Option<String>,
    /// True if the process can open windows.
    pub(crate) has_display: bool,
    /// The search path (`PATH`).
    pub(crate) path: String,
    /// True if cargo has started this process or one above it.
    pub(crate) is_below_cargo: bool,
    /// The number of columns of the terminal (`COLUMNS`).
    pub(crate) columns: Option<usize>,
}

/// Reads the values for the commands for people.
pub(crate) fn client() -> ClientEnvironment {
    let mut variables = process();
    let mut take = |name: &str| variables.remove(name).filter(|value| !value.is_empty());
    let home = take("HOME").map(|home| PathBuf::from(home).join(".config"));
    let config_home = take("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute()).or(home);
    ClientEnvironment {
        url: take("JOURNEYMAN_URL"),
        key: take("JOURNEYMAN_KEY"),
        project: take("JOURNEYMAN_PROJECT"),
        config_home,
        browser: take("BROWSER"),
        has_display: take("DISPLAY").is_some() || take("WAYLAND_DISPLAY").is_some(),
        path: take("PATH").unwrap_or_default(),
        is_below_cargo: take("CARGO").is_some(),
        columns: take("COLUMNS").and_then(|columns| columns.trim().parse().ok()),
    }
}

/// Parses the settings among `variables`, and returns each of them by the name of its flag.
///
/// # Errors
/// A variable is not valid; the error names it.
pub(super) fn read(variables: &BTreeMap<String, String>) -> anyhow::Result<BTreeMap<String, Layer>> {
    let command = command();
    let mut layers = BTreeMap::new();
    for flag in command.get_arguments().filter_map(clap::Arg::get_long) {
        let name = variable(flag);
        let Some(value) = variables.get(&name).filter(|value| !value.is_empty()) else { continue };
        let parsed = command.clone().try_get_matches_from([format!("--{flag}={value}")]);
        match parsed.and_then(|matches| Layer::from_arg_matches(&matches)) {
            Ok(one) => drop(layers.insert(flag.to_owned(), one)),
            Err(error) => bail!("the environment variable {name} is not valid: {}", reason(&error)),
        }
    }
    Ok(layers)
}

fn command() -> clap::Command {
    Layer::augment_args(clap::Command::new("environment").no_binary_name(true).disable_help_flag(true))
}

/// Returns the reason of an error without the name of a flag, which its reader did not use.
fn reason(error: &clap::Error) -> String {
    let value = match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(value)) => value.as_str(),
        _ => "",
    };
    let known: Vec<&str> = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(known)) => known.iter().map(String::as_str).collect(),
        _ => Vec::new(),
    };
    match error.source() {
        _ if !known.is_empty() => format!("{value:?} is not known; {}", or_similar(value, &known, || among(&known))),
        Some(cause) => format!("{value:?}: {cause}"),
        None => error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned(),
    }
}

/// The variables of this program that are not settings.
const OTHERS: [&str; 7] = [
    "JOURNEYMAN_COMPLETE",
    "JOURNEYMAN_KEY",
    "JOURNEYMAN_MASTER_KEY",
    "JOURNEYMAN_OTHER_MASTER_KEYS",
    "JOURNEYMAN_PROJECT",
    SCOPE,
    "JOURNEYMAN_URL",
];

/// The beginning of the names of variables with settings.
const PREFIX: &str = "JOURNEYMAN_";

/// Returns a warning for each variable whose name is similar to that of a setting. Other programs may have variables with
/// this prefix too, so an unknown name is not an error.
pub(super) fn misspelled(variables: &BTreeMap<String, String>) -> Vec<String> {
    let command = command();
    let settings: Vec<String> = command.get_arguments().filter_map(clap::Arg::get_long).map(variable).collect();
    let known: Vec<&str> = settings.iter().filter_map(|name| name.strip_prefix(PREFIX)).collect();
    let warning = |name: &String| {
        let own = name.strip_prefix(PREFIX)?;
        if settings.contains(name) || OTHERS.contains(&name.as_str()) {
            return None;
        }
        let near = nearest(own, &known)?;
        Some(format!("the environment variable {name} is not a setting; did you mean {PREFIX}{near}?"))
    };
    variables.keys().filter_map(warning).collect()
}

/// Returns the name of the environment variable for a flag.
pub(crate) fn variable(flag: &str) -> String {
    format!("{PREFIX}{}", flag.replace('-', "_").to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn read_pairs(pairs: &[(&str, &str)]) -> anyhow::Result<Layer> {
        Ok(read(&variables(pairs))?.into_values().fold(Layer::default(), Layer::over))
    }

    #[test]
    fn a_variable_is_parsed_like_its_flag() {
        let layer = read_pairs(&[
            ("JOURNEYMAN_LISTEN", "0.0.0.0:80"),
            ("JOURNEYMAN_GRACE", "5m"),
            ("JOURNEYMAN_TRUSTED_PROXIES", "10.0.0.0/8,192.0.2.0/24"),
            ("JOURNEYMAN_WORKERS", ""),
            ("JOURNEYMAN_KEY", "of the client"),
        ])
        .expect("settings");
        assert_eq!(layer.listen, Some("0.0.0.0:80".parse().expect("an address")));
        assert_eq!(layer.grace.map(|span| span.0.as_secs()), Some(300));
        assert_eq!(layer.trusted_proxies.map(|nets| nets.len()), Some(2));
        assert_eq!(layer.workers, None);
    }

    #[test]
    fn the_documentation_lists_exactly_the_existing_settings() {
        let documented: Vec<&str> = include_str!("../../../../docs/settings.md")
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name))
            .collect();
        let command = Layer::augment_args(clap::Command::new("x"));
        let settings: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
        assert_eq!(documented, settings, "docs/settings.md and the flags of serve, in their order");
    }

    #[test]
    fn proxies_are_read_in_both_cases() {
        let mut variables: BTreeMap<&str, &str> =
            [("HTTP_PROXY", "http://a"), ("https_proxy", "http://b"), ("HTTPS_PROXY", "http://c"), ("NO_PROXY", "d")]
                .into();
        let found = proxies(|name| variables.remove(name).map(str::to_owned));
        let expected = [("http_proxy", "http://a"), ("https_proxy", "http://b"), ("no_proxy", "d")];
        assert_eq!(found.0, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(!format!("{found:?}").contains("http://a"), "{found:?}");
    }

    #[test]
    fn an_error_names_the_variable_that_cannot_be_parsed() {
        for (name, value) in [
            ("JOURNEYMAN_LISTEN", "here"),
            ("JOURNEYMAN_WORKERS", "many"),
            ("JOURNEYMAN_LEASE", "soon"),
            ("JOURNEYMAN_LOG_FORMAT", "xml"),
            ("JOURNEYMAN_OIDC_NETWORKS", "10.0.0.0/99"),
        ] {
            let error = read_pairs(&[(name, value)]).expect_err(name).to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
            assert!(!error.contains("--"), "the reader used no flag: {error}");
        }
        let error = read_pairs(&[("JOURNEYMAN_LOG_FORMAT", "jsn")]).expect_err("refused").to_string();
        assert!(error.ends_with("is not valid: \"jsn\" is not known; did you mean json?"), "{error}");
        let error = read_pairs(&[("JOURNEYMAN_WORKERS", "many")]).expect_err("refused").to_string();
        assert!(error.ends_with("is not valid: \"many\": write a whole number"), "{error}");
    }

    #[test]
    fn a_misspelled_variable_is_noticed_and_others_are_not() {
        let given = variables(&[
            ("JOURNEYMAN_LISTNE", "x"),
            ("JOURNEYMAN_PUBLICURL", "x"),
            ("JOURNEYMAN_LISTEN", "x"),
            ("JOURNEYMAN_KEY", "x"),
            ("JOURNEYMAN_WEATHER", "x"),
            ("LISTNE", "x"),
        ]);
        let text = "the environment variable JOURNEYMAN_LISTNE is not a setting; did you mean JOURNEYMAN_LISTEN?";
        let found = misspelled(&given);
        assert_eq!((found.len(), found[0].as_str()), (2, text), "{found:?}");
        assert!(found[1].ends_with("did you mean JOURNEYMAN_PUBLIC_URL?"), "{found:?}");
    }
}
