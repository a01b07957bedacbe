//! The code hosts of a configuration file: the tables `[code-hosts.<id>]`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use journeyman_core::code_host::check::{check, normalize_url};
use journeyman_core::code_host::{Access, CodeHost, CodeHostId, DefinedIn, HostKind, HostSecrets};
use journeyman_core::secret::SecretValue;
use serde::Deserialize;

/// A table `[code-hosts.<id>]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct CodeHostTable {
    kind: String,
    url: String,
    api_url: Option<String>,
    app_id: Option<u64>,
    app_slug: Option<String>,
    private_key_file: Option<PathBuf>,
    token_file: Option<PathBuf>,
    username: Option<String>,
    webhook_secret_file: Option<PathBuf>,
    #[serde(default)]
    trusted_bots: BTreeSet<String>,
    #[serde(default)]
    poll: Poll,
}

/// The use of polls for a code host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Poll {
    /// Often where no webhook arrives, and seldom otherwise.
    #[default]
    Auto,
    /// Never.
    Off,
}

/// The tables by ID.
pub(super) type CodeHostTables = BTreeMap<String, CodeHostTable>;

/// Reads the files that the tables name, and checks the code hosts.
///
/// # Errors
/// A setting is missing or invalid, or a file cannot be read; the error names the table and the setting.
pub(super) fn resolve(tables: CodeHostTables) -> anyhow::Result<Vec<(CodeHost, HostSecrets)>> {
    let mut hosts: Vec<(CodeHost, HostSecrets)> = Vec::new();
    for (id, table) in tables {
        let (host, secrets) = one(&id, table).with_context(|| format!("[code-hosts.{id}]"))?;
        if let Some((other, _)) = hosts.iter().find(|(other, _)| other.name() == host.name()) {
            bail!("[code-hosts.{id}] has the same url as [code-hosts.{}]", other.id);
        }
        hosts.push((host, secrets));
    }
    Ok(hosts)
}

fn one(id: &str, table: CodeHostTable) -> anyhow::Result<(CodeHost, HostSecrets)> {
    let id: CodeHostId = id.parse()?;
    let kinds = || HostKind::ALL.map(HostKind::name).join(", ");
    let kind = HostKind::parse(&table.kind).with_context(|| format!("kind must be one of {}", kinds()))?;
    let needs = [
        ("app-slug", table.app_slug.is_some(), "app-id", table.app_id.is_some()),
        ("private-key-file", table.private_key_file.is_some(), "app-id", table.app_id.is_some()),
        ("username", table.username.is_some(), "token-file", table.token_file.is_some()),
    ];
    if let Some((name, _, other, _)) = needs.into_iter().find(|(_, is_set, _, has_other)| *is_set && !has_other) {
        bail!("{name} has no effect without {other}; set {other} too, or remove {name}");
    }
    let access = match (table.app_id, table.token_file.is_some()) {
        (Some(_), true) => bail!("set either app-id or token-file, not both"),
        (Some(app_id), false) => Some(Access::App { app_id, slug: table.app_slug.unwrap_or_default() }),
        (None, true) => Some(Access::Token { username: table.username }),
        // Each project has its own token.
        (None, false) => None,
    };
    let read = |name: &str, path: &Option<PathBuf>| path.as_deref().map(|path| secret(name, path)).transpose();
    let secrets = HostSecrets {
        token: read("token-file", &table.token_file)?,
        private_key: read("private-key-file", &table.private_key_file)?,
        webhook: read("webhook-secret-file", &table.webhook_secret_file)?,
    };
    let host = CodeHost {
        api_url: table.api_url.map(|url| normalize_url("api-url", &url)).transpose()?,
        access,
        trusted_bots: table.trusted_bots,
        polls: table.poll == Poll::Auto,
        defined_in: DefinedIn::Configuration,
        ..CodeHost::of_address(id, kind, normalize_url("url", &table.url)?)
    };
    check(&host, &secrets)?;
    Ok((host, secrets))
}

fn secret(name: &str, path: &Path) -> anyhow::Result<SecretValue> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{name}: {} cannot be read", path.display()))?;
    Ok(SecretValue(text.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(text: &str) -> CodeHostTables {
        let mut table: toml::Table = text.parse().expect("TOML");
        CodeHostTables::deserialize(table.remove("code-hosts").expect("a table")).expect("code hosts")
    }

    #[test]
    fn a_code_host_has_a_token_or_an_app() {
        let dir = tempfile::tempdir().expect("a folder");
        let (token, key) = (dir.path().join("token"), dir.path().join("key"));
        std::fs::write(&token, "glpat-1\n").expect("a file");
        std::fs::write(&key, "-----BEGIN RSA PRIVATE KEY-----\nx\n-----END RSA PRIVATE KEY-----\n").expect("a file");
        let text = format!(
            "[code-hosts.gitlab]\nkind = \"gitlab\"\nurl = \"https://gitlab.example/\"\ntoken-file = {token:?}\n\
             [code-hosts.github]\nkind = \"github\"\nurl = \"https://github.com\"\npoll = \"off\"\napp-id = 7\n\
             private-key-file = {key:?}"
        );
        let hosts = resolve(tables(&text)).expect("two hosts");
        let found: Vec<_> = hosts.iter().map(|(host, _)| (host.id.as_str(), host.url.as_str())).collect();
        assert_eq!(found, [("github", "https://github.com"), ("gitlab", "https://gitlab.example")]);
        assert_eq!((hosts[0].0.polls, hosts[1].0.polls), (false, true));
        assert_eq!(hosts[0].0.access, Some(Access::App { app_id: 7, slug: String::new() }));
        assert_eq!(hosts[1].1.token, Some(SecretValue("glpat-1".to_owned())));
    }

    #[test]
    fn an_error_names_the_table_and_the_setting() {
        for (text, named) in [
            ("kind = \"sourcehut\"\nurl = \"https://a.example\"", "kind must be one of github, gitlab"),
            ("kind = \"github\"\nurl = \"a.example\"", "url must be"),
            ("kind = \"github\"\nurl = \"https://a.example\"\ntoken-file = \"/missing\"", "token-file: /missing"),
            ("kind = \"github\"\nurl = \"https://a.example\"\napp-id = 7", "private-key-file is missing"),
            ("kind = \"gitlab\"\nurl = \"https://a.example\"\napp-id = 7", "only GitHub has apps"),
            ("kind = \"github\"\nurl = \"https://a.example\"\napp-id = 7\ntoken-file = \"/x\"", "not both"),
            ("kind = \"github\"\nurl = \"https://a.example\"\nprivate-key-file = \"/x\"", "set app-id too"),
            ("kind = \"github\"\nurl = \"https://a.example\"\napp-slug = \"x\"", "set app-id too"),
            ("kind = \"gitlab\"\nurl = \"https://a.example\"\nusername = \"x\"", "set token-file too"),
        ] {
            let error = format!("{:#}", resolve(tables(&format!("[code-hosts.x]\n{text}"))).expect_err(named));
            assert!(error.starts_with("[code-hosts.x]") && error.contains(named), "{error}");
        }
    }
}
