//! Providers of models, and their keys.

use std::collections::{BTreeMap, BTreeSet};

use journeyman_core::model::Dialect;
use journeyman_core::secret::SecretValue;
use url::Url;

use super::fields::FieldGroup;

/// A provider of models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// The wire format that the provider's server speaks.
    pub dialect: Dialect,
    /// The URL to which the paths of the dialect are appended; it ends with a slash, and may have a query.
    pub base_url: Url,
    /// The key of this service, if it has one.
    pub key: Option<SecretValue>,
    /// The name of the project's secret with a key, which takes precedence; `None` if the provider needs no key.
    pub key_variable: Option<String>,
    /// The models that an agent may call in addition to its job's: names, or prefixes and `*`.
    pub also: Vec<String>,
    /// The output limit in tokens for calls that do not set one, so that the money that is set aside for them is
    /// enough.
    pub max_output: Option<u64>,
    /// The size of the models' context window in tokens. Agents get this number, and calls to Ollama without `num_ctx`
    /// are sent with it, because Ollama would otherwise truncate the conversation at a much smaller default.
    pub context_tokens: Option<u64>,
    /// `true` if tools that the provider runs are allowed: they reach beyond the sandbox.
    pub hosted_tools: bool,
    /// The groups of fields that are passed on.
    pub groups: BTreeSet<FieldGroup>,
    /// More fields that are passed on, at the top of a body.
    pub fields: BTreeSet<String>,
}

impl Provider {
    /// Returns the key for calls: the project's, or else the service's. If the provider needs no key, returns the
    /// service's key if it has one.
    ///
    /// # Errors
    /// The provider needs a key and there is none. The error is the name of its variable.
    pub(crate) fn key(&self, keys: &BTreeMap<String, SecretValue>) -> Result<Option<SecretValue>, String> {
        let Some(variable) = &self.key_variable else { return Ok(self.key.clone()) };
        let key = keys.get(variable).or(self.key.as_ref());
        key.filter(|key| !key.0.trim().is_empty()).cloned().map(Some).ok_or_else(|| variable.clone())
    }

    /// Returns the URL of a path of the dialect, with query parameters.
    pub(crate) fn url(&self, path: &str, query: &[(String, String)]) -> Url {
        let mut url = self.base_url.clone();
        let whole = format!("{}{path}", url.path());
        url.set_path(&whole);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_calls_with_its_own_key() {
        let key = |text: &str| Some(SecretValue(text.to_owned()));
        let provider = Provider {
            dialect: Dialect::OpenAi,
            base_url: Url::parse("https://h/v1/").unwrap(),
            key: key("server"),
            key_variable: Some("K".to_owned()),
            also: Vec::new(),
            max_output: None,
            context_tokens: None,
            hosted_tools: false,
            groups: FieldGroup::usual(),
            fields: BTreeSet::new(),
        };
        let own = BTreeMap::from([("K".to_owned(), SecretValue("own".to_owned()))]);
        assert_eq!(provider.key(&own), Ok(key("own")));
        assert_eq!(provider.key(&BTreeMap::new()), Ok(key("server")));
        let without = Provider { key: None, ..provider.clone() };
        assert_eq!(without.key(&BTreeMap::new()), Err("K".to_owned()));
        assert_eq!(Provider { key_variable: None, ..without }.key(&own), Ok(None));
    }

    #[test]
    fn a_path_is_appended_and_queries_are_kept() {
        let provider = Provider {
            dialect: Dialect::Compatible,
            base_url: Url::parse("https://h/api/?version=2").unwrap(),
            key: None,
            key_variable: None,
            also: Vec::new(),
            max_output: None,
            context_tokens: None,
            hosted_tools: false,
            groups: FieldGroup::usual(),
            fields: BTreeSet::new(),
        };
        assert_eq!(provider.url("models", &[]).as_str(), "https://h/api/models?version=2");
        let query = [("alt".to_owned(), "sse".to_owned())];
        assert_eq!(provider.url("a/b:c", &query).as_str(), "https://h/api/a/b:c?version=2&alt=sse");
    }
}
