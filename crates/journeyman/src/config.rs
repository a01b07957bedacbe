//! What an operator sets: by flags, by a configuration file, by environment, in that order of strength.
//!
//! All three are read into the same [`Layer`], so that a setting has one name, one form and one description: `--listen`,
//! `listen = "…"`, `JOURNEYMAN_LISTEN`. Nothing else in the program reads the environment.

mod agents;
mod bytes;
mod connections;
mod environment;
mod file;
mod layer;
mod models;
mod oidc;
mod settings;
mod span;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;
use journeyman_core::agent::Agents;

pub(crate) use self::agents::{arch, folder};
pub(crate) use self::connections::ConnectionSettings;
pub(crate) use self::environment::SCOPE;
pub(crate) use self::layer::{Layer, LogFormat, Role, SandboxKind};
use self::models::ModelTables;
pub(crate) use self::settings::{BlobPlace, Database, Settings};

/// The settings that hold for these flags, in this process.
pub(crate) fn load(flags: Layer) -> anyhow::Result<Settings> {
    let environment = environment::read(environment::process())?;
    let path = flags.config.clone().or_else(|| environment.config.clone());
    let file = path.as_deref().map(file::read).transpose()?.unwrap_or_default();
    let program = std::env::current_exe().context("the program's own path could not be found")?;
    let machine = environment::machine(&file.models.key_variables());
    Settings::resolve(flags.over(file.settings).over(environment), file.agents, &file.models, machine, &program)
}

/// The settings of these flags alone, whatever the environment and its configuration file say.
pub(crate) fn isolated(flags: Layer) -> anyhow::Result<Settings> {
    let program = std::env::current_exe().context("the program's own path could not be found")?;
    let machine = environment::MachineEnvironment { master_key: None, ..environment::machine(&BTreeSet::new()) };
    Settings::resolve(flags, Agents::new(), &ModelTables::default(), machine, &program)
}

/// A path as text for agents and git, which take no other.
pub(crate) fn text(path: &Path) -> anyhow::Result<String> {
    path.to_str().map(str::to_owned).with_context(|| format!("the path {} is not UTF-8", path.display()))
}
