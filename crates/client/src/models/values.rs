//! Types of single values.

use serde::{Deserialize, Serialize, Serializer};

/// A secret, which `Debug` does not show.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Returns a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text of the secret.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[redacted]")
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

/// A change of a setting.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Change<T> {
    /// Keeps the value; at creation, the setting gets its default.
    #[default]
    Keep,
    /// Restores the default.
    Reset,
    /// Sets the value.
    Set(T),
}

impl<T> Change<T> {
    /// Returns `true` if the value is kept.
    pub fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }
}

impl<T: Serialize> Serialize for Change<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            // The fields of this type are left out if the value is kept.
            Self::Keep | Self::Reset => serializer.serialize_none(),
            Self::Set(value) => value.serialize(serializer),
        }
    }
}

impl<T> From<T> for Change<T> {
    fn from(value: T) -> Self {
        Self::Set(value)
    }
}

impl From<&str> for Change<String> {
    fn from(text: &str) -> Self {
        Self::Set(text.to_owned())
    }
}

impl From<&str> for Change<Secret> {
    fn from(text: &str) -> Self {
        Self::Set(Secret::new(text))
    }
}

impl From<String> for Change<Secret> {
    fn from(text: String) -> Self {
        Self::Set(Secret::new(text))
    }
}

/// A reference to an existing pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum PullRequestRef {
    /// The number of the pull request.
    Number(u64),
    /// The URL of its page.
    Url(String),
}

impl From<u64> for PullRequestRef {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for PullRequestRef {
    fn from(url: &str) -> Self {
        Self::Url(url.to_owned())
    }
}

impl From<String> for PullRequestRef {
    fn from(url: String) -> Self {
        Self::Url(url)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::models::{ProjectChanges, Secret, Status};

    #[test]
    fn a_change_is_left_out_null_or_a_value() {
        let changes = ProjectChanges::new().model("test/scripted").setup(super::Change::Reset);
        let document = serde_json::to_value(&changes).expect("a document");
        assert_eq!(document, json!({"model": "test/scripted", "setup": null}));
    }

    #[test]
    fn a_secret_is_not_in_its_debug_output() {
        let secret = Secret::new("whsec_abc");
        assert_eq!(format!("{secret:?}"), "[redacted]");
        assert_eq!(secret.expose(), "whsec_abc");
    }

    #[test]
    fn a_value_of_a_later_version_of_the_server_is_kept() {
        let status: Status = serde_json::from_value(json!("paused")).expect("a status");
        assert_eq!(status, Status::Unknown("paused".to_owned()));
        assert_eq!(serde_json::to_value(&status).expect("a value"), json!("paused"));
        assert_eq!(Status::from("active"), Status::Active);
    }
}
