//! Values that hosts write in different forms.

use journeyman_core::hook::HostUser;
use journeyman_core::ids::Sha;
use journeyman_core::ports::ForgeError;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// An ID, which is a number on most hosts and a text on others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Id(pub(crate) String);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Value::deserialize(deserializer)? {
            Value::String(text) => Self(text),
            Value::Number(number) => Self(number.to_string()),
            _ => Self::default(),
        })
    }
}

/// Reads `null` as the default.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A user of GitHub, GitLab or Gitea.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct User {
    pub(crate) id: Id,
    /// GitHub and Gitea.
    #[serde(deserialize_with = "or_default")]
    pub(crate) login: String,
    /// GitLab, and Gitea in addition.
    #[serde(deserialize_with = "or_default")]
    pub(crate) username: String,
    /// GitHub: `User`, `Bot` or `Organization`.
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub(crate) kind: String,
    /// GitLab, in the answers about one user (`Entities::User`): bots of projects and groups, and service accounts.
    #[serde(deserialize_with = "or_default")]
    pub(crate) bot: bool,
    /// The same for service accounts, in case a version says so on its own.
    #[serde(deserialize_with = "or_default")]
    pub(crate) service_account: bool,
}

impl User {
    /// Returns the name to mention.
    pub(crate) fn name(&self) -> &str {
        if self.login.is_empty() { &self.username } else { &self.login }
    }
}

impl From<User> for HostUser {
    fn from(user: User) -> Self {
        let is_bot = user.kind == "Bot" || user.bot || user.service_account;
        Self { name: user.name().to_owned(), is_bot, id: user.id.0 }
    }
}

/// Parses a full commit hash; hosts that shorten hashes give none.
pub(crate) fn sha(text: &str) -> Option<Sha> {
    text.parse().ok()
}

/// Returns a time as the version of a comment: in whole seconds, because a host may write it differently in a webhook
/// (`2017-12-10 17:06:00 UTC`) and in an answer (`2017-12-10T17:06:00.123Z`). A text that is no time stays as it is.
pub(crate) fn version(text: &str) -> String {
    let iso = match text.strip_suffix(" UTC") {
        Some(rest) => format!("{}Z", rest.replacen(' ', "T", 1)),
        None => text.to_owned(),
    };
    iso.parse().map_or_else(|_| text.to_owned(), crate::feed::seconds)
}

/// Returns the ID of a comment as the number that Bitbucket expects in the body of a request.
pub(crate) fn number_of_comment(id: &str) -> Result<u64, ForgeError> {
    id.parse().map_err(|_| ForgeError::Refused(format!("{id:?} is not the ID of a comment on Bitbucket")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_does_not_depend_on_the_form_of_the_time() {
        for (text, expected) in [
            ("2017-12-10 17:06:00 UTC", "2017-12-10T17:06:00Z"),
            ("2017-12-10T17:06:00.123Z", "2017-12-10T17:06:00Z"),
            ("2017-12-10T18:06:00+01:00", "2017-12-10T17:06:00Z"),
            ("7", "7"),
            ("", ""),
        ] {
            assert_eq!(version(text), expected);
        }
    }
}
