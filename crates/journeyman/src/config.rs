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
mod models;
mod oidc;
mod otlp;
mod settings;
mod span;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;
use journeyman_core::agent::Agents;

pub(crate) use self::agents::{arch, folder, installed};
pub(crate) use self::connections::ConnectionSettings;
pub(crate) use self::environment::{ClientEnvironment, SCOPE, client as client_environment};
pub(crate) use self::example::example;
pub(crate) use self::layer::{Layer, LogFormat, Role, SandboxKind};
use self::models::ModelTables;
pub(crate) use self::otlp::OtlpSettings;
pub(crate) use self::settings::{BlobPlace, Database, Settings};

/// Returns the settings for these flags, the configuration file and the environment of this process.
pub(crate) fn load(flags: Layer) -> anyhow::Result<Settings> {
    let environment = environment::read(environment::process())?;
    let path = flags.config.clone().or_else(|| environment.config.clone());
    let file = path.as_deref().map(file::read).transpose()?.unwrap_or_default();
    let program = std::env::current_exe().context("the path of this program could not be determined")?;
    let machine = environment::machine(&file.models.key_variables());
    let mut settings =
        Settings::resolve(flags.over(file.settings).over(environment), file.agents, &file.models, machine, &program)?;
    settings.code_hosts = code_hosts::resolve(file.code_hosts)?;
    Ok(settings)
}

/// Returns the settings for these flags alone, without a configuration file, settings from the environment, the master
/// key, or the keys of models. `PATH`, `HOME` and the variables of cloud providers still apply.
pub(crate) fn isolated(flags: Layer) -> anyhow::Result<Settings> {
    let program = std::env::current_exe().context("the path of this program could not be determined")?;
    let machine = environment::MachineEnvironment { master_key: None, ..environment::machine(&BTreeSet::new()) };
    Settings::resolve(flags, Agents::new(), &ModelTables::default(), machine, &program)
}

/// Returns a path as UTF-8 text, the only form in which this program passes paths to agents and git.
pub(crate) fn text(path: &Path) -> anyhow::Result<String> {
    path.to_str().map(str::to_owned).with_context(|| format!("the path {} is not UTF-8", path.display()))
}
