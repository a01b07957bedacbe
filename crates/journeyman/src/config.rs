//! The operator's settings: from flags, a configuration file and the environment, in this order of precedence.
//!
//! All three are parsed into the same [`Layer`], so that a setting has one name, one format and one description:
//! `--listen`, `listen = "…"`, `JOURNEYMAN_LISTEN`. The program reads the environment only here; [`ClientEnvironment`] has
//! what the commands for people use.

mod agents;
mod bytes;
mod code_hosts;
mod connections;
mod environment;
mod example;
mod file;
mod layer;
mod limits;
mod models;
mod number;
mod oidc;
mod otlp;
mod position;
mod settings;
mod span;
mod suggest;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use journeyman_core::agent::Agents;

pub(crate) use self::agents::{arch, folder, installed};
pub(crate) use self::connections::ConnectionSettings;
pub(crate) use self::environment::{ClientEnvironment, SCOPE, client as client_environment, home};
pub(crate) use self::example::example;
pub(crate) use self::layer::{Layer, LogFormat, Role, SandboxKind};
use self::models::ModelTables;
pub(crate) use self::number::whole;
pub(crate) use self::otlp::OtlpSettings;
use self::position::{Origins, named};
pub(crate) use self::settings::{BlobLocation, Database, Settings};

/// Returns the settings for these flags, the configuration file and the environment of this process.
pub(crate) fn load(flags: Layer) -> anyhow::Result<Settings> {
    let process = environment::process();
    let variables = environment::read(&process)?;
    let environment = variables.values().cloned().fold(Layer::default(), Layer::over);
    let path = flags.config.clone().or_else(|| environment.config.clone());
    let file = path.as_deref().map(file::read).transpose()?.unwrap_or_default();
    let program = std::env::current_exe().context("the path of this program could not be determined")?;
    let machine = environment::machine(&file.models.key_variables());
    if !machine.is_in_scope {
        for warning in environment::misspelled(&process) {
            // If stderr is closed, the warning cannot be shown.
            let _ = writeln!(std::io::stderr(), "warning: {warning}");
        }
    }
    let with_source = |error| located(error, &flags, path.as_deref().map(|path| (path, &file.origins)), &variables);
    let layer = flags.clone().over(file.settings).over(environment.clone());
    let mut settings = Settings::resolve(layer, file.agents, &file.models, machine, &program).map_err(with_source)?;
    settings.code_hosts = code_hosts::resolve(file.code_hosts).map_err(with_source)?;
    settings.options = options(&flags.over(environment));
    Ok(settings)
}

/// Adds the source of a setting to an error about it: its position in the file, or its variable. For a flag, the error
/// already begins with its name.
fn located(
    error: anyhow::Error,
    flags: &Layer,
    file: Option<(&Path, &Origins)>,
    variables: &BTreeMap<String, Layer>,
) -> anyhow::Error {
    let text = format!("{error:#}");
    let is_flag = |alone: &Layer| *alone != Layer::default() && flags.clone().over(alone.clone()) == *flags;
    if let Some((path, origins)) = file
        && let Some((_, origin)) = named(origins, &text)
    {
        let context = || format!("the configuration file {} is not valid: {}", path.display(), origin.position);
        return if is_flag(&origin.alone) { error } else { error.context(context()) };
    }
    match named(variables, &text) {
        Some((flag, alone)) if !is_flag(alone) => {
            error.context(format!("the environment variable {} is not valid", environment::variable(flag)))
        }
        _ => error,
    }
}

/// Returns the options with which another command finds the installation of these settings. A URL that may contain a
/// password is replaced by `URL`.
fn options(settings: &Layer) -> Vec<String> {
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let joined = |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(",");
    let is_safe = |url: &str| !url.contains('@') && !url.contains("password");
    let database = settings.database_url.as_deref().map(|url| if is_safe(url) { url } else { "URL" }.to_owned());
    let named = [
        ("--config", path(&settings.config)),
        ("--data-dir", path(&settings.data_dir)),
        ("--database-url", database),
        ("--master-key-file", path(&settings.master_key_file)),
        ("--other-master-key-files", settings.other_master_key_files.as_deref().map(joined)),
    ];
    named.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?])).flatten().collect()
}

/// Returns the settings for these flags alone, without a configuration file, settings from the environment, the master
/// key, or the keys of models. `PATH`, `HOME` and the variables of cloud providers still apply.
pub(crate) fn isolated(flags: Layer) -> anyhow::Result<Settings> {
    let program = std::env::current_exe().context("the path of this program could not be determined")?;
    let machine = environment::MachineEnvironment {
        master_key: None,
        other_master_keys: None,
        ..environment::machine(&BTreeSet::new())
    };
    Settings::resolve(flags, Agents::new(), &ModelTables::default(), machine, &program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(flags: Layer, text: &str, variables: &[(&str, &str)]) -> String {
        let file = file::parse(text).expect("a file");
        let pairs = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let variables: BTreeMap<String, String> = pairs.collect();
        let variables = environment::read(&variables).expect("variables");
        let environment = variables.values().cloned().fold(Layer::default(), Layer::over);
        let layer = flags.clone().over(file.settings).over(environment);
        let machine = environment::MachineEnvironment {
            home: Some("/home/me".into()),
            ..environment::MachineEnvironment::default()
        };
        let program = Path::new("/usr/bin/journeyman");
        let error = Settings::resolve(layer, file.agents, &file.models, machine, program).expect_err("refused");
        let file = Some((Path::new("/etc/journeyman.toml"), &file.origins));
        format!("{:#}", located(error, &flags, file, &variables))
    }

    #[test]
    fn an_error_about_a_setting_names_its_source() {
        let none = Layer::default;
        for (flags, text, variables, expected) in [
            (
                none(),
                "grace = \"1s\"\nlease = \"1s\"",
                &[] as &[(&str, &str)],
                "the configuration file /etc/journeyman.toml is not valid: line 2, column 1: lease must be at least 3s",
            ),
            (
                none(),
                "",
                &[("JOURNEYMAN_LEASE", "1s")],
                "the environment variable JOURNEYMAN_LEASE is not valid: lease must be at least 3s",
            ),
            (Layer { lease: "1s".parse().ok(), ..none() }, "lease = \"2s\"", &[], "lease must be at least 3s"),
            (Layer { lease: "1s".parse().ok(), ..none() }, "", &[("JOURNEYMAN_LEASE", "2s")], "lease must be"),
            (
                none(),
                "[models.openai]\nkey-file = \"/none\"",
                &[],
                "the configuration file /etc/journeyman.toml is not valid: line 1, column 9: [models.openai]: key-file",
            ),
            (
                none(),
                "[agents.mine]\ncommand = [\"{model_tokn}\"]",
                &[],
                "the configuration file /etc/journeyman.toml is not valid: line 1, column 9: [agents.mine] has the",
            ),
        ] {
            let error = explained(flags, text, variables);
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn other_commands_find_the_installation_with_the_options() {
        let layer = Layer {
            config: Some("a b.toml".into()),
            data_dir: Some("data".into()),
            database_url: Some("postgres://u:s3cret@h/d".to_owned()),
            ..Layer::default()
        };
        let expected = ["--config", "a b.toml", "--data-dir", "data", "--database-url", "URL"];
        assert_eq!(options(&layer), expected);
        let url = Some("postgres://h/d".to_owned());
        assert_eq!(options(&Layer { database_url: url, ..Layer::default() }), ["--database-url", "postgres://h/d"]);
        assert!(options(&Layer::default()).is_empty());
    }
}
