//! The configuration file that `journeyman config example` prints. Every setting is a comment, with its description and a
//! value. The packages install the file, and `deploy/journeyman.toml` is a copy of it.

use clap::{Args, Command};

use self::Value::{IsDefault, Sample};
use super::layer::Layer;

/// The value of a setting in the file, as TOML.
#[derive(Debug, Clone, Copy)]
enum Value {
    /// The default: the setting has no effect.
    IsDefault(&'static str),
    /// A value other than the default, or one that depends on the machine or needs another setting.
    Sample(&'static str),
}

const VALUES: [(&str, Value); 71] = [
    ("role", IsDefault(r#"["api", "worker"]"#)),
    ("data-dir", Sample(r#""/var/lib/journeyman""#)),
    ("database-url", Sample(r#""postgres://journeyman:PASSWORD@db.example.com/journeyman?sslmode=verify-full""#)),
    ("database-connections", IsDefault("10")),
    ("auto-migrate", IsDefault("true")),
    ("repositories", Sample(r#""/srv/journeyman/repositories""#)),
    ("master-key-file", Sample(r#""/etc/journeyman/master.key""#)),
    ("other-master-key-files", Sample(r#"["/etc/journeyman/old.key"]"#)),
    ("blob-url", Sample(r#""s3://journeyman-blobs""#)),
    ("session-keep", IsDefault(r#""90days""#)),
    ("transcript-keep", IsDefault(r#""180days""#)),
    ("job-keep", Sample(r#""2years""#)),
    ("audit-keep", IsDefault(r#""730days""#)),
    ("listen", IsDefault(r#""127.0.0.1:8080""#)),
    ("public-url", Sample(r#""https://journeyman.example.com""#)),
    ("trusted-proxies", Sample(r#"["127.0.0.0/8", "::1/128"]"#)),
    ("max-connections", Sample("16384")),
    ("max-connections-per-address", Sample("4096")),
    ("header-timeout", IsDefault(r#""15s""#)),
    ("idle-timeout", IsDefault(r#""75s""#)),
    ("request-timeout", IsDefault(r#""1m""#)),
    ("write-timeout", IsDefault(r#""30s""#)),
    ("max-git-requests", IsDefault("32")),
    ("max-git-requests-per-key", IsDefault("6")),
    ("max-streams", IsDefault("1024")),
    ("max-streams-per-key", IsDefault("128")),
    ("max-calls", IsDefault("256")),
    ("max-calls-per-key", IsDefault("64")),
    ("max-response-memory", IsDefault(r#""256MiB""#)),
    ("max-response-memory-per-key", IsDefault(r#""64MiB""#)),
    ("workers", Sample("8")),
    ("lease", IsDefault(r#""30s""#)),
    ("outage-patience", IsDefault(r#""24h""#)),
    ("refusal-patience", IsDefault(r#""30m""#)),
    ("grace", IsDefault(r#""30s""#)),
    ("workspace-idle", IsDefault(r#""1day""#)),
    ("disk-reserve", Sample(r#""5GiB""#)),
    ("warm-agents", Sample("8")),
    ("warm-time", IsDefault(r#""5m""#)),
    ("create-per-hour", IsDefault("100")),
    ("message-per-hour", IsDefault("100")),
    ("sandbox", IsDefault(r#""bubblewrap""#)),
    ("sandbox-allow-degraded", Sample(r#"["memory", "process-count", "cpu"]"#)),
    ("sandbox-readable", Sample(r#"["/opt/toolchains"]"#)),
    ("sandbox-users", IsDefault("2000000000")),
    ("egress-private", Sample(r#"["10.0.0.0/8"]"#)),
    ("code-host-networks", Sample(r#"["10.0.0.0/8"]"#)),
    ("webhook-networks", Sample(r#"["10.0.0.0/8"]"#)),
    ("oidc-networks", Sample(r#"["10.0.0.0/8"]"#)),
    ("slack-api-url", IsDefault(r#""https://slack.com/api/""#)),
    ("container-engine", Sample(r#""/run/podman/podman.sock""#)),
    ("container-image", Sample(r#""registry.example.com/build:1""#)),
    ("container-selinux", IsDefault("true")),
    ("model-timeout", Sample(r#""10m""#)),
    ("prices-file", Sample(r#""/etc/journeyman/prices.json""#)),
    ("oidc-issuer", Sample(r#""https://login.example.com""#)),
    ("oidc-client-id", Sample(r#""journeyman""#)),
    ("oidc-secret-file", Sample(r#""/etc/journeyman/oidc-secret""#)),
    ("oidc-domains", Sample(r#"["example.com"]"#)),
    ("oidc-role", Sample(r#""viewer""#)),
    ("oidc-label", Sample(r#""Sign in with Example""#)),
    ("second-factor", IsDefault(r#""none""#)),
    ("bwrap", IsDefault(r#""bwrap""#)),
    ("git", IsDefault(r#""git""#)),
    ("commits-sign-key-file", Sample(r#""/etc/journeyman/commits-key""#)),
    ("commits-email", Sample(r#""journeyman@example.com""#)),
    ("log", IsDefault(r#""info""#)),
    ("log-format", IsDefault(r#""text""#)),
    ("otlp-endpoint", Sample(r#""http://localhost:4318""#)),
    ("otlp-headers-file", Sample(r#""/etc/journeyman/otlp-headers""#)),
    ("otlp-sample", Sample("0.1")),
];

const HEAD: &str = "\
# The settings of journeyman serve. Every setting is a comment here; remove the # before its name to set it. A flag
# takes precedence over this file, which takes precedence over the environment (JOURNEYMAN_LISTEN for listen). The
# service reads this file at startup; journeyman config check --config FILE checks it. docs/settings.md describes the
# settings.
";

const TABLES: &str = r#"
# Tables must come after all settings. The service reads the key of a provider of models from the environment variable
# that its table names; anthropic, openai and gemini are configured already (docs/models.md).
#[models.openrouter]
#dialect = "compatible"
#base-url = "https://openrouter.ai/api/v1"
#key-variable = "OPENROUTER_API_KEY"

# Prices in US dollars for a million tokens, for budgets (docs/models.md).
#[prices."openrouter/qwen/*"]
#input = 0.3
#output = 1.2

# A code host; administrators can also add code hosts in the dashboard (docs/code-hosts.md).
#[code-hosts.gitlab]
#kind = "gitlab"
#url = "https://gitlab.example.com"
#token-file = "/etc/journeyman/gitlab-token"
#webhook-secret-file = "/etc/journeyman/gitlab-webhook-secret"

# An agent that speaks the Agent Client Protocol; journeyman agent install needs no table (docs/agents.md).
#[agents.mine]
#command = ["mine-acp", "--model", "{model_name}"]
"#;

/// The maximum length of a line of a description.
const WIDTH: usize = 118;

/// Returns the example of a configuration file.
pub(crate) fn example() -> String {
    let command = Layer::augment_args(Command::new("example"));
    let mut text = HEAD.to_owned();
    for argument in command.get_arguments() {
        let named = argument.get_long().and_then(|name| VALUES.iter().find(|(known, _)| *known == name));
        // The setting `config` cannot be in the file.
        let Some((name, IsDefault(value) | Sample(value))) = named else { continue };
        text.push('\n');
        for line in lines(&argument.get_help().map(ToString::to_string).unwrap_or_default()) {
            text.push_str(&format!("# {line}\n"));
        }
        text.push_str(&format!("#{name} = {value}\n"));
    }
    text.push_str(TABLES);
    text
}

/// Breaks a text into lines.
fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use journeyman_core::agent::Agents;

    use super::*;
    use crate::config::environment::MachineEnvironment;
    use crate::config::file;
    use crate::config::models::ModelTables;
    use crate::config::settings::Settings;

    fn resolve(layer: Layer) -> Settings {
        let machine = MachineEnvironment { home: Some("/home/me".into()), ..MachineEnvironment::default() };
        let program = Path::new("/usr/bin/journeyman");
        Settings::resolve(layer, Agents::new(), &ModelTables::default(), machine, program).expect("settings")
    }

    #[test]
    fn the_example_has_every_setting_in_order() {
        let command = Layer::augment_args(Command::new("x"));
        let settings: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
        let values: Vec<&str> = std::iter::once("config").chain(VALUES.iter().map(|(name, _)| *name)).collect();
        assert_eq!(values, settings, "the values of the example and the flags of serve, in their order");
    }

    #[test]
    fn the_example_sets_nothing() {
        let file = file::parse(&example()).expect("a file");
        assert_eq!(file, file::File::default());
    }

    #[test]
    fn the_example_is_valid_without_the_comment_signs() {
        let is_value = |line: &&str| line.starts_with('#') && !line.starts_with("# ");
        let text: String = example().lines().filter(is_value).map(|line| format!("{}\n", &line[1..])).collect();
        let file = file::parse(&text).unwrap_or_else(|error| panic!("{error:#}"));
        assert_eq!(file.settings.otlp_sample, Some(0.1), "the last setting");
        assert!(file.agents.contains_key("mine") && !file.code_hosts.is_empty());
        assert!(!file.models.models.is_empty() && !file.models.prices.is_empty());
    }

    #[test]
    fn the_defaults_in_the_example_are_the_defaults_of_the_service() {
        for (name, value) in VALUES {
            let IsDefault(value) = value else { continue };
            let file = file::parse(&format!("{name} = {value}\n")).unwrap_or_else(|error| panic!("{name}: {error:#}"));
            assert_ne!(file.settings, Layer::default(), "{name}");
            assert_eq!(resolve(file.settings), resolve(Layer::default()), "{name}");
        }
    }

    #[test]
    fn the_copy_in_deploy_is_current() {
        let copy = include_str!("../../../../deploy/journeyman.toml");
        assert_eq!(copy, example(), "run: journeyman config example > deploy/journeyman.toml");
    }

    #[test]
    fn no_line_is_longer_than_the_limit() {
        for line in example().lines() {
            assert!(line.len() <= WIDTH + 2, "{line}");
        }
        assert!(lines("").is_empty());
    }
}
