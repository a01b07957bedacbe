//! The providers and the prices of models: the tables `[models.<prefix>]` and `[prices."<model>"]`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use journeyman_core::model::price::Price;
use journeyman_core::model::{Dialect, TEST, split};
use journeyman_core::secret::SecretValue;
use journeyman_gateway::{FieldGroup, PriceTable, Provider};
use serde::Deserialize;
use url::Url;

/// The table of one provider in a configuration file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(super) struct ProviderTable {
    dialect: Option<Dialect>,
    base_url: Option<String>,
    key_variable: Option<String>,
    key_file: Option<PathBuf>,
    also: Vec<String>,
    max_output: Option<u64>,
    context_tokens: Option<u64>,
    hosted_tools: bool,
    allow: Vec<String>,
    deny: Vec<String>,
}

/// The prices of a million tokens of a model, in US dollars.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct OwnPrice {
    input: f64,
    output: f64,
    cached: Option<f64>,
    cache_written: Option<f64>,
    cache_written_long: Option<f64>,
}

/// The tables about models, by their names.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ModelTables {
    pub(super) models: BTreeMap<String, ProviderTable>,
    pub(super) prices: BTreeMap<String, OwnPrice>,
}

/// The maximum price of a million tokens in US dollars, which is one dollar for a token.
const MAX_PRICE: f64 = 1e6;

impl ModelTables {
    /// Returns the configured providers, and those with a well-known address.
    fn all(&self) -> BTreeMap<String, ProviderTable> {
        let mut all = self.models.clone();
        // OpenAI serves two interfaces at one address.
        if let Some(openai) = all.get(Dialect::OpenAi.name()).filter(|openai| openai.dialect.is_none()).cloned() {
            all.entry(Dialect::OpenAiResponses.name().to_owned()).or_insert(openai);
        }
        for dialect in Dialect::ALL.iter().filter(|dialect| dialect.public_url().is_some()) {
            all.entry(dialect.name().to_owned()).or_default();
        }
        all
    }

    /// Returns the names of the variables that may contain a key.
    pub(super) fn key_variables(&self) -> BTreeSet<String> {
        let all = self.all();
        all.iter().filter_map(|(prefix, table)| table.key_variable(table.dialect(prefix).ok()?)).collect()
    }

    /// Returns the providers. A provider without a key file gets its key from `keys`, by the name of its variable.
    ///
    /// # Errors
    /// A table is invalid; the error names the table and the reason.
    pub(super) fn providers(&self, keys: &BTreeMap<String, String>) -> anyhow::Result<BTreeMap<String, Provider>> {
        let provider = |(prefix, table): (String, ProviderTable)| {
            let provider = table.provider(&prefix, keys).with_context(|| format!("[models.{prefix}]"))?;
            Ok((prefix, provider))
        };
        self.all().into_iter().map(provider).collect()
    }

    /// Returns the prices, by the name of a model, or by a prefix of it and `*`.
    ///
    /// # Errors
    /// A table is invalid; the error names the table and the reason.
    pub(super) fn prices(&self) -> anyhow::Result<Vec<(String, Price)>> {
        let price = |(model, table): (&String, &OwnPrice)| {
            if split(model).is_none() {
                bail!("[prices.{model:?}]: write the whole name of the model, such as \"anthropic/claude-*\"");
            }
            Ok((model.clone(), table.price().with_context(|| format!("[prices.{model:?}]"))?))
        };
        self.prices.iter().map(price).collect()
    }
}

impl ProviderTable {
    fn dialect(&self, prefix: &str) -> anyhow::Result<Dialect> {
        let named = self.dialect.or_else(|| Dialect::from_name(prefix));
        named.with_context(|| {
            let all: Vec<&str> = Dialect::ALL.iter().map(|dialect| dialect.name()).collect();
            format!("set dialect to the API that the server implements: one of {}", all.join(", "))
        })
    }

    fn key_variable(&self, dialect: Dialect) -> Option<String> {
        self.key_variable.clone().or_else(|| dialect.key_variable().map(str::to_owned))
    }

    /// Returns the groups of fields that are allowed.
    fn groups(&self) -> anyhow::Result<BTreeSet<FieldGroup>> {
        let mut groups = FieldGroup::usual();
        groups.extend(self.allow.iter().filter_map(|name| group(name)));
        for name in &self.deny {
            let known = FieldGroup::ALL.map(FieldGroup::name).join(", ");
            let group = group(name).with_context(|| format!("deny: {name:?} is not a group of fields: {known}"))?;
            groups.remove(&group);
        }
        Ok(groups)
    }

    fn provider(&self, prefix: &str, keys: &BTreeMap<String, String>) -> anyhow::Result<Provider> {
        if prefix == TEST || prefix.contains('/') {
            bail!("{prefix:?} cannot be the name of a provider: {TEST:?} is reserved, and a name contains no slash");
        }
        let dialect = self.dialect(prefix)?;
        let given = self.base_url.as_deref().or(dialect.public_url());
        let base_url = dialect.base_url(given.context("base-url is missing; set it to the address of the server")?)?;
        let base_url: Url = base_url.parse().with_context(|| format!("base-url {base_url:?}"))?;
        if !base_url.username().is_empty() || base_url.password().is_some() {
            bail!("base-url must not contain a user name or a password; set the key with key-file or key-variable");
        }
        let key_variable = self.key_variable(dialect);
        let key = match &self.key_file {
            Some(path) => Some(read_key(path)?),
            None => key_variable.as_ref().and_then(|variable| keys.get(variable)).cloned(),
        };
        Ok(Provider {
            dialect,
            base_url,
            key: key.map(SecretValue),
            key_variable,
            also: self.also.clone(),
            max_output: self.max_output,
            context_tokens: self.context_tokens.or_else(|| dialect.usual_context_tokens()),
            hosted_tools: self.hosted_tools,
            groups: self.groups()?,
            fields: self.allow.iter().filter(|name| group(name).is_none()).cloned().collect(),
        })
    }
}

fn group(name: &str) -> Option<FieldGroup> {
    FieldGroup::ALL.into_iter().find(|group| group.name() == name)
}

/// Reads the table of prices: a file, or else the one in the program.
///
/// # Errors
/// The file cannot be read, or is not a table of prices.
pub(super) fn price_table(file: Option<&Path>) -> anyhow::Result<PriceTable> {
    let Some(file) = file else { return Ok(PriceTable::built_in()?) };
    let text = std::fs::read_to_string(file).with_context(|| format!("prices-file {}", file.display()))?;
    PriceTable::parse(&text).with_context(|| format!("prices-file {}", file.display()))
}

fn read_key(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("key-file {} cannot be read", path.display()))?;
    let key = text.trim();
    if key.is_empty() || key.chars().any(char::is_control) {
        bail!("key-file {} must contain one line, the key", path.display());
    }
    Ok(key.to_owned())
}

impl OwnPrice {
    fn price(&self) -> anyhow::Result<Price> {
        let micros = |name: &str, dollars: f64| {
            if !(0.0..=MAX_PRICE).contains(&dollars) {
                bail!("{name} must be from 0 to {MAX_PRICE} dollars for a million tokens");
            }
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range was checked")]
            Ok((dollars * 1e6).round() as u64)
        };
        let input = micros("input", self.input)?;
        let or_input = |name, dollars: Option<f64>| dollars.map_or(Ok(input), |dollars| micros(name, dollars));
        let cache_written = or_input("cache-written", self.cache_written)?;
        Ok(Price {
            input,
            output: micros("output", self.output)?,
            cached: or_input("cached", self.cached)?,
            cache_written,
            cache_written_long: self
                .cache_written_long
                .map_or(Ok(cache_written), |dollars| micros("cache-written-long", dollars))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(text: &str) -> anyhow::Result<ModelTables> {
        super::super::file::parse(text).map(|file| file.models)
    }

    fn keys() -> BTreeMap<String, String> {
        [("ANTHROPIC_API_KEY", "a"), ("OPENAI_API_KEY", "o"), ("ROUTER_KEY", "r")]
            .map(|(name, key)| (name.to_owned(), key.to_owned()))
            .into()
    }

    #[test]
    fn well_known_providers_need_no_configuration() {
        let all = ModelTables::default().providers(&keys()).expect("providers");
        let names: Vec<&str> = all.keys().map(String::as_str).collect();
        assert_eq!(names, ["anthropic", "gemini", "ollama", "openai", "openai-responses"]);
        let key = |name: &str| all[name].key.as_ref().map(|key| key.0.as_str());
        assert_eq!(
            (key("anthropic"), key("openai-responses"), key("gemini"), key("ollama")),
            (Some("a"), Some("o"), None, None)
        );
        let variables = ModelTables::default().key_variables();
        assert_eq!(Vec::from_iter(variables), ["ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY"]);
    }

    #[test]
    fn other_providers_and_prices_come_from_tables() {
        let given = tables(
            "[models.router]\ndialect = \"compatible\"\nbase-url = \"https://router.example/api\"\n\
             key-variable = \"ROUTER_KEY\"\nalso = [\"small-*\"]\n[models.openai]\nbase-url = \"http://gate:4000\"\n\
             [prices.\"router/*\"]\ninput = 0.075\noutput = 3\n",
        )
        .expect("tables");
        let all = given.providers(&keys()).expect("providers");
        let router = &all["router"];
        assert_eq!((router.base_url.as_str(), router.dialect), ("https://router.example/api/", Dialect::Compatible));
        assert_eq!(router.key, Some(SecretValue("r".to_owned())));
        assert_eq!(all["openai-responses"].base_url.as_str(), "http://gate:4000/v1/", "OpenAI has one address");
        let price = Price {
            input: 75_000,
            output: 3_000_000,
            cached: 75_000,
            cache_written: 75_000,
            cache_written_long: 75_000,
        };
        assert_eq!(given.prices().expect("prices"), [("router/*".to_owned(), price)]);
        assert!(given.key_variables().contains("ROUTER_KEY"));
    }

    #[test]
    fn groups_of_fields_are_allowed_and_denied() {
        let text = "[models.openai]\nallow = [\"service-tiers\", \"logit_processor\"]\ndeny = [\"context-management\"]";
        let openai = tables(text).expect("tables").providers(&keys()).expect("providers")["openai"].clone();
        assert_eq!(openai.groups, [FieldGroup::ServiceTiers].into());
        assert_eq!(openai.fields, ["logit_processor".to_owned()].into());
    }

    #[test]
    fn a_table_of_prices_replaces_the_one_in_the_program() {
        assert!(price_table(None).expect("table").find("anthropic", "claude-opus-5-5").is_some());
        let dir = tempfile::tempdir().expect("folder");
        let file = dir.path().join("prices.json");
        std::fs::write(&file, r#"{"p/m": {"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6}}"#)
            .expect("file");
        let table = price_table(Some(&file)).expect("table");
        assert!(table.find("p", "m").is_some() && table.find("anthropic", "claude-opus-5-5").is_none());
        std::fs::write(&file, "[]").expect("file");
        let error = format!("{:#}", price_table(Some(&file)).expect_err("a list"));
        assert!(error.contains("prices-file") && error.contains("not a JSON object"), "{error}");
        let error = format!("{:#}", price_table(Some(Path::new("/none"))).expect_err("no file"));
        assert!(error.contains("prices-file /none"), "{error}");
    }

    #[test]
    fn an_error_names_the_invalid_table() {
        for (text, words) in [
            ("[models.router]\nbase-url = \"https://x\"", ["models.router", "dialect"]),
            ("[models.compatible]", ["models.compatible", "base-url"]),
            ("[models.openai]\nbase-url = \"ftp://x\"", ["models.openai", "http"]),
            ("[models.openai]\nkey-file = \"/none\"", ["models.openai", "/none"]),
            ("[models.openai]\nkey = \"sk-1\"", ["models", "key"]),
            ("[models.test]\ndialect = \"openai\"\nbase-url = \"http://x\"", ["models.test", "reserved"]),
            ("[models.openai]\ndeny = [\"x\"]", ["models.openai", "service-tiers"]),
            ("[prices.gpt]\ninput = 1\noutput = 1", ["prices", "whole name"]),
            ("[prices.\"a/b\"]\ninput = -1\noutput = 1", ["a/b", "input"]),
            ("[prices.\"a/b\"]\ninput = 1", ["prices", "output"]),
        ] {
            let result = tables(text).and_then(|given| Ok((given.providers(&keys())?, given.prices()?)));
            let error = format!("{:#}", result.expect_err(text));
            assert!(words.iter().all(|word| error.contains(word)), "{text}: {error}");
            assert!(!error.contains("sk-1"), "{error}");
        }
    }
}
