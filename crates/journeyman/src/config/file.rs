//! Settings from a configuration file.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use journeyman_core::agent::Agents;
use serde::Deserialize;

use super::code_hosts::CodeHostTables;
use super::layer::Layer;
use super::models::ModelTables;

/// The content of a configuration file.
#[derive(Debug, Default, PartialEq)]
pub(super) struct File {
    /// The settings outside the tables.
    pub(super) settings: Layer,
    /// The tables `[agents.<id>]`.
    pub(super) agents: Agents,
    /// The tables `[models.<prefix>]` and `[prices."<model>"]`.
    pub(super) models: ModelTables,
    /// The tables `[code-hosts.<id>]`.
    pub(super) code_hosts: CodeHostTables,
}

/// Reads and parses a configuration file.
///
/// # Errors
/// The file cannot be read, is not TOML, or contains an unknown setting.
pub(super) fn read(path: &Path) -> anyhow::Result<File> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("the configuration file {} cannot be read", path.display()))?;
    parse(&text).with_context(|| format!("the configuration file {} is not valid", path.display()))
}

/// Parses the content of a configuration file.
///
/// # Errors
/// The text is not TOML, or contains an unknown setting.
pub(super) fn parse(text: &str) -> anyhow::Result<File> {
    let mut table: toml::Table = text.parse()?;
    // Parsed separately, because serde does not support `deny_unknown_fields` together with a flattened field.
    let agents = match table.remove("agents") {
        Some(agents) => Agents::deserialize(agents).context("[agents]")?,
        None => Agents::new(),
    };
    for (id, agent) in &agents {
        if agent.command.first().is_none_or(String::is_empty) {
            bail!("[agents.{id}]: command must name a program");
        }
    }
    let models = take_models(&mut table)?;
    let code_hosts = table.remove("code-hosts").map(CodeHostTables::deserialize).transpose().context("[code-hosts]")?;
    let code_hosts = code_hosts.unwrap_or_default();
    Ok(File { settings: Layer::deserialize(table)?, agents, models, code_hosts })
}

/// Removes the tables about models from `table`, and parses them.
pub(super) fn take_models(table: &mut toml::Table) -> anyhow::Result<ModelTables> {
    let models = table.remove("models").map(BTreeMap::deserialize).transpose().context("[models]")?;
    let prices = table.remove("prices").map(BTreeMap::deserialize).transpose().context("[prices]")?;
    Ok(ModelTables { models: models.unwrap_or_default(), prices: prices.unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_contains_settings_and_agents() {
        let text = r#"
            listen = "127.0.0.1:9000"
            workers = 4
            lease = "1m"
            [agents.claude]
            command = ["claude-code-acp"]
            mode = "bypassPermissions"
        "#;
        let file = parse(text).expect("a file");
        assert_eq!((file.settings.workers, file.agents["claude"].command.len()), (Some(4), 1));
    }

    #[test]
    fn an_error_names_the_invalid_part_of_a_file() {
        for (text, named) in [
            ("listen = ", "TOML"),
            ("lissten = \"127.0.0.1:80\"", "lissten"),
            ("workers = \"many\"", "workers"),
            ("lease = \"soon\"", "lease"),
            ("oidc-networks = [\"here\"]", "oidc-networks"),
            ("webhook-networks = [\"10.0.0.0/99\"]", "webhook-networks"),
            ("[agents.x]\ncommand = []", "agents.x"),
            ("[agents.x]\nname = \"x\"", "command"),
            ("[agents.x]\ncommand = [\"a\"]\ncolour = 1", "colour"),
        ] {
            let error = format!("{:#}", parse(text).expect_err(named));
            assert!(error.contains(named) || named == "TOML", "{text}: {error}");
        }
    }
}
