//! Settings from the environment: `JOURNEYMAN_` and the flag's name in capitals.
//!
//! A value is read by the parser of its flag, so both take the same forms.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, FromArgMatches};

use super::layer::Layer;

/// What of the machine's environment is passed on or consulted beside the settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MachineEnvironment {
    /// The search path, for git, agents and setup commands.
    pub(crate) path: Option<String>,
    /// Whether the user is root.
    pub(crate) is_root: bool,
    /// The user ID.
    pub(crate) user: u32,
    /// The home of the user.
    pub(crate) home: Option<PathBuf>,
    /// Where users keep data.
    pub(crate) data_home: Option<PathBuf>,
    /// The key itself, instead of a file with it.
    pub(crate) master_key: Option<String>,
    /// For the blob store.
    pub(crate) provider: ProviderOptions,
    /// Keys for models, by the names of their variables.
    pub(crate) model_keys: ModelKeys,
    /// True if this program was restarted in a scope of the user's systemd, as [`SCOPE`] indicates.
    pub(crate) is_in_scope: bool,
}

/// The environment variable that is set in a program that was restarted in a scope of the user's systemd.
pub(crate) const SCOPE: &str = "JOURNEYMAN_SCOPE";

/// Keys: `Debug` shows none.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct ModelKeys(pub(crate) BTreeMap<String, String>);

impl fmt::Debug for ModelKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Variables of the programs of Amazon, Google and Microsoft, credentials among them: `Debug` shows no value.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct ProviderOptions(pub(crate) Vec<(String, String)>);

impl fmt::Debug for ProviderOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

const PROVIDERS: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

/// The process's variables that are text; others cannot be settings.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
pub(super) fn process() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Beside the settings; `model_keys` are the variables that may hold keys for models.
pub(super) fn machine(model_keys: &BTreeSet<String>) -> MachineEnvironment {
    let mut variables = process();
    let mut take = |name: &str| variables.remove(name).filter(|value| !value.is_empty());
    let model_keys = model_keys.iter().filter_map(|name| Some((name.clone(), take(name)?))).collect();
    MachineEnvironment {
        model_keys: ModelKeys(model_keys),
        is_root: rustix::process::geteuid().is_root(),
        user: rustix::process::geteuid().as_raw(),
        path: take("PATH"),
        home: take("HOME").map(PathBuf::from),
        data_home: take("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute()),
        master_key: take("JOURNEYMAN_MASTER_KEY"),
        is_in_scope: take(SCOPE).is_some(),
        provider: ProviderOptions(
            variables.into_iter().filter(|(name, _)| PROVIDERS.iter().any(|start| name.starts_with(start))).collect(),
        ),
    }
}

/// The settings among some variables.
///
/// # Errors
/// Names the variable that cannot be read.
pub(super) fn read(variables: BTreeMap<String, String>) -> anyhow::Result<Layer> {
    let command = Layer::augment_args(clap::Command::new("environment").no_binary_name(true).disable_help_flag(true));
    let mut layer = Layer::default();
    for flag in command.get_arguments().filter_map(clap::Arg::get_long) {
        let name = variable(flag);
        let Some(value) = variables.get(&name).filter(|value| !value.is_empty()) else { continue };
        let parsed = command.clone().try_get_matches_from([format!("--{flag}={value}")]);
        match parsed.and_then(|matches| Layer::from_arg_matches(&matches)) {
            Ok(one) => layer = layer.over(one),
            Err(error) => {
                let text = error.to_string();
                let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
                bail!("the environment variable {name} cannot be read: {first}");
            }
        }
    }
    Ok(layer)
}

/// The variable of a flag.
pub(crate) fn variable(flag: &str) -> String {
    format!("JOURNEYMAN_{}", flag.replace('-', "_").to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_pairs(pairs: &[(&str, &str)]) -> anyhow::Result<Layer> {
        read(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn a_variable_is_read_as_its_flag_is() {
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
    fn every_setting_is_documented_and_no_other() {
        let documented: Vec<&str> = include_str!("../../../../docs/settings.md")
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name))
            .collect();
        let command = Layer::augment_args(clap::Command::new("x"));
        let settings: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
        assert_eq!(documented, settings, "docs/settings.md and the flags of serve, in their order");
    }

    #[test]
    fn a_variable_that_cannot_be_read_is_named() {
        for (name, value) in [
            ("JOURNEYMAN_LISTEN", "here"),
            ("JOURNEYMAN_WORKERS", "many"),
            ("JOURNEYMAN_LEASE", "soon"),
            ("JOURNEYMAN_LOG_FORMAT", "xml"),
        ] {
            let error = read_pairs(&[(name, value)]).expect_err(name).to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
