//! Settings from a configuration file.

use std::path::Path;

use anyhow::{Context, bail};
use journeyman_core::agent::Agents;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::code_hosts::CodeHostTables;
use super::layer::Layer;
use super::models::ModelTables;
use super::position::{Origins, explained, origins};

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
    /// The positions of settings and tables in the file.
    pub(super) origins: Origins,
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
/// The text is not TOML, or contains an unknown or invalid setting; the error names the position and the setting.
pub(super) fn parse(text: &str) -> anyhow::Result<File> {
    let root = DeTable::parse(text).map_err(|error| explained(text, "", &error))?;
    let (span, mut table) = (root.span(), root.into_inner());
    // Parsed separately, because serde does not support `deny_unknown_fields` together with a flattened field.
    let agents: Agents = take(&mut table, "agents", text)?;
    let models = ModelTables { models: take(&mut table, "models", text)?, prices: take(&mut table, "prices", text)? };
    let code_hosts: CodeHostTables = take(&mut table, "code-hosts", text)?;
    let rest = ValueDeserializer::from(Spanned::new(span, DeValue::Table(table)));
    let settings = Layer::deserialize(rest).map_err(|error| explained(text, "", &error))?;
    let origins = origins(text).map_err(|error| explained(text, "", &error))?;
    for (id, agent) in &agents {
        if agent.command.first().is_none_or(String::is_empty) {
            let header = format!("[agents.{id}]");
            let position = origins.get(&header).map(|origin| format!("{}: ", origin.position)).unwrap_or_default();
            bail!("{position}{header}: command must name a program");
        }
    }
    Ok(File { settings, agents, models, code_hosts, origins })
}

/// Removes a table from the others, and parses it.
fn take<T: DeserializeOwned + Default>(table: &mut DeTable<'_>, name: &str, text: &str) -> anyhow::Result<T> {
    match table.remove(name) {
        Some(value) => T::deserialize(ValueDeserializer::from(value)).map_err(|error| explained(text, name, &error)),
        None => Ok(T::default()),
    }
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
    fn an_error_names_the_position_and_the_setting_and_suggests_a_similar_one() {
        for (text, expected) in [
            ("listen = ", ": listen: "),
            ("workers = 1\nworkers = 2", ": workers: duplicate key"),
            ("lissten = 1", "line 1, column 1: lissten is not a known setting; did you mean listen?"),
            (
                "workers = 1\n  colour = 1",
                "line 2, column 3: colour is not a known setting; `journeyman config example`",
            ),
            ("[agnets.x]\ncommand = [\"a\"]", "line 1, column 2: agnets is not a known setting; did you mean agents?"),
            ("workers = \"many\"", "line 1, column 11: workers: invalid type: string \"many\""),
            ("lease = \"soon\"", "line 1, column 9: lease: "),
            ("role = [\"api\", \"wroker\"]", "line 1, column 16: role: \"wroker\" is not known; did you mean worker?"),
            ("log-format = \"xml\"", "log-format: \"xml\" is not known; the known ones are text, json"),
            ("oidc-networks = [\"here\"]", "line 1, column 18: oidc-networks: "),
            ("webhook-networks = [\"10.0.0.0/99\"]", "line 1, column 21: webhook-networks: "),
            ("[agents.x]\ncommand = []", "line 1, column 9: [agents.x]: command must name a program"),
            ("[agents.x]\nname = \"x\"", "[agents.x]: command is missing"),
            (
                "[agents.x]\ncommand = [\"a\"]\nnmae = 1",
                "line 3, column 1: [agents.x]: nmae is not a known setting; did you mean name?",
            ),
            ("[models.x]\ndialect = \"opnai\"", "line 2, column 11: models.x.dialect: \"opnai\" is not known; did you"),
            ("[models.x]\nurl = \"http://x\"", "[models.x]: url is not a known setting; the known ones are dialect, "),
            ("[code-hosts.x]\nkind = \"github\"\nurll = \"x\"", "line 3, column 1: [code-hosts.x]: urll is not"),
        ] {
            let error = format!("{:#}", parse(text).expect_err(expected));
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn an_error_names_the_file_and_shows_no_line_of_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("journeyman.toml");
        std::fs::write(&path, "workers = 1\ndatabase-ulr = \"postgres://u:s3cret@h/d\"\n").expect("a file");
        let error = format!("{:#}", read(&path).expect_err("refused"));
        let prefix = format!("the configuration file {} is not valid: line 2, column 1: database-ulr", path.display());
        assert!(error.starts_with(&prefix) && error.ends_with("did you mean database-url?"), "{error}");
        assert!(!error.contains("s3cret"), "{error}");
        let missing = format!("{:#}", read(&dir.path().join("none.toml")).expect_err("missing"));
        assert!(missing.contains("none.toml cannot be read"), "{missing}");
    }
}
