//! The answers of code hosts, and the errors that they mean.

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use journeyman_core::ports::ForgeError;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// An answer with a status from 200 to 499.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// Parses the body.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, ForgeError> {
        // The error may quote the answer.
        serde_json::from_slice(&self.body).map_err(|error| {
            tracing::info!(%error, status = self.status.as_u16(), "an answer of a code host cannot be read");
            ForgeError::Unclear("the answer of the code host cannot be read".to_owned())
        })
    }

    /// Returns the message of an error, in all forms in which hosts write it. It is for decisions and for the log:
    /// [`Answer::described`] is for people.
    pub(crate) fn message(&self) -> String {
        let text = match serde_json::from_slice::<Value>(&self.body) {
            Ok(value) => texts(&value).join("; "),
            // A page for people, which says nothing here.
            Err(_) if self.header("content-type").is_some_and(|kind| kind.starts_with("text/html")) => String::new(),
            Err(_) => String::from_utf8_lossy(&self.body).chars().take(300).collect(),
        };
        let status = self.status.as_u16();
        if text.trim().is_empty() { format!("status {status}") } else { format!("{} (status {status})", text.trim()) }
    }

    /// Describes an error by its status. The message of the code host is only in the log of the service, because another
    /// server may have answered in its place.
    pub(crate) fn described(&self) -> String {
        let status = self.status.as_u16();
        tracing::info!(status, text = self.message(), "a code host refused a request");
        format!("status {status}; the message of the code host is in the log of the service")
    }

    /// Returns the answer if it is a success, otherwise its error.
    pub(crate) fn ok(self) -> Result<Self, ForgeError> {
        if self.status.is_success() { Ok(self) } else { Err(self.error()) }
    }

    /// Returns the error of an answer that is not a success.
    pub(crate) fn error(&self) -> ForgeError {
        let text = self.described();
        match self.status {
            StatusCode::UNAUTHORIZED => ForgeError::Credential(text),
            StatusCode::FORBIDDEN => ForgeError::Denied(text),
            StatusCode::NOT_FOUND | StatusCode::GONE => ForgeError::NotFound(text),
            // A redirect that was not followed would lead nowhere again.
            status if status.is_client_error() || status.is_redirection() => ForgeError::Refused(text),
            _ => ForgeError::Unclear(text),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Returns the address of the next page of a list.
    pub(crate) fn next(&self) -> Option<String> {
        self.link("next")
    }

    /// Returns the address of another page of a list, from the header `Link` (RFC 8288), by its relation.
    pub(crate) fn link(&self, relation: &str) -> Option<String> {
        let links = self.headers.get_all(header::LINK).into_iter().filter_map(|value| value.to_str().ok());
        links.flat_map(|line| line.split(',')).find_map(|link| {
            let (address, parameters) = link.split_once(';')?;
            let is_it =
                |one: &str| one.trim().strip_prefix("rel=").is_some_and(|name| name.trim_matches('"') == relation);
            parameters
                .split(';')
                .any(is_it)
                .then(|| address.trim().trim_start_matches('<').trim_end_matches('>').to_owned())
        })
    }
}

/// Returns the texts of an error: `message`, `error`, and those of `errors`, which may be texts, lists or objects.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.chars().take(300).collect()],
        Value::Array(values) => values.iter().take(5).flat_map(texts).collect(),
        Value::Object(fields) => {
            let known = ["message", "error", "error_description", "detail", "errors", "code", "field"];
            let found: Vec<String> = known.iter().filter_map(|name| fields.get(*name)).flat_map(texts).collect();
            if !found.is_empty() {
                return found;
            }
            // GitLab names the fields: {"title": ["can't be blank"]}.
            fields
                .iter()
                .take(5)
                .flat_map(|(name, value)| texts(value).into_iter().map(move |text| format!("{name} {text}")))
                .collect()
        }
        _ => Vec::new(),
    }
}
