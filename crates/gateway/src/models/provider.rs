//! Where models are served, and with which key.

use std::collections::BTreeMap;

use journeyman_core::model::Dialect;
use journeyman_core::project::SecretValue;
use url::Url;

/// Where models are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// What it speaks.
    pub dialect: Dialect,
    /// What the dialect's paths are appended to; it ends with a slash, and may have a query.
    pub base_url: Url,
    /// The key of this server, if it has one.
    pub key: Option<SecretValue>,
    /// The name under which a project may have one of its own, which is used instead; `None`: it needs none.
    pub key_variable: Option<String>,
    /// Other models than a job's that its agent may call: names, or their beginnings and `*`.
    pub also: Vec<String>,
    /// The most tokens of an answer, for calls that say nothing about it: what is set aside for one is then enough.
    pub max_output: Option<u64>,
    /// The size of the models' context window in tokens. Agents get this number, and calls to Ollama without `num_ctx`
    /// are sent with it, because Ollama would otherwise truncate the conversation at a much smaller default.
    pub context_tokens: Option<u64>,
    /// Whether tools that the provider runs may be used: they reach beyond the sandbox.
    pub hosted_tools: bool,
}

impl Provider {
    /// The key to call with, the project's before the server's; `None` where it needs none.
    ///
    /// # Errors
    /// There is none, and it needs one: the name of its variable.
    pub(crate) fn key(&self, keys: &BTreeMap<String, SecretValue>) -> Result<Option<SecretValue>, String> {
        let Some(variable) = &self.key_variable else { return Ok(self.key.clone()) };
        let key = keys.get(variable).or(self.key.as_ref());
        key.filter(|key| !key.0.trim().is_empty()).cloned().map(Some).ok_or_else(|| variable.clone())
    }

    /// Where a path of the dialect is there, with the parameters that are passed on.
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
        };
        assert_eq!(provider.url("models", &[]).as_str(), "https://h/api/models?version=2");
        let query = [("alt".to_owned(), "sse".to_owned())];
        assert_eq!(provider.url("a/b:c", &query).as_str(), "https://h/api/a/b:c?version=2&alt=sse");
    }
}
