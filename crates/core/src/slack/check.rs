//! The rules for the settings and the secrets of a workspace.

use super::{SlackMode, SlackSecret, SlackSecretChanges, SlackSecrets, SlackSettings, SlackWorkspace};
use crate::ids::SlackWorkspaceId;
use crate::refusal::ResourceKind;
use crate::resource::Resource;
use crate::secret::SecretValue;

/// The maximum number of channels of a workspace.
const CHANNELS: usize = 2000;

/// The maximum number of connected people of a workspace.
const PEOPLE: usize = 10_000;

/// The maximum length of a secret, in bytes.
const SECRET_BYTES: usize = 1000;

/// An error in the settings of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSlack {
    /// The name is not valid.
    #[error("name: must have 1 to 100 characters, and no control characters")]
    Name,
    /// An ID of Slack is not valid.
    #[error("{0}: {1:?} is not an ID of Slack, such as {2}")]
    Id(&'static str, String, &'static str),
    /// There are too many channels or people.
    #[error("{0}: a workspace can have at most {1}")]
    TooMany(&'static str, usize),
    /// A secret has a wrong form.
    #[error("{0}: must be {1}; copy it again from the pages of the app")]
    Secret(&'static str, &'static str),
    /// A secret that the mode needs is missing.
    #[error("{0}: is missing; {1}")]
    Missing(&'static str, &'static str),
}

impl Resource for SlackWorkspace {
    const KIND: ResourceKind = ResourceKind::SlackWorkspace;
    type Id = SlackWorkspaceId;
    type Secrets = SlackSecretChanges;
    type Related = ();

    fn id(&self) -> &SlackWorkspaceId {
        &self.id
    }

    fn unique_name(&self) -> String {
        self.settings.team.clone()
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn with_version(self, version: u64) -> Self {
        Self { version, ..self }
    }

    fn check(&self) -> Result<(), String> {
        check_settings(&self.settings).map_err(|error| error.to_string())
    }

    fn exists() -> String {
        "this Slack workspace is connected already".to_owned()
    }
}

/// Returns whether a text has the form of an ID of Slack with one of these first letters.
#[must_use]
pub fn is_slack_id(text: &str, letters: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
    (2..=30).contains(&text.len()) && text.starts_with(|c| letters.contains(c)) && text.chars().all(is_digit)
}

/// Checks the settings of a workspace.
///
/// # Errors
/// Returns an error for the first invalid field.
pub fn check_settings(settings: &SlackSettings) -> Result<(), InvalidSlack> {
    let name = &settings.name;
    if name.trim().is_empty() || name.chars().count() > 100 || name.chars().any(char::is_control) {
        return Err(InvalidSlack::Name);
    }
    check_ids("team", std::iter::once(&settings.team), "TE", "T012AB3CD")?;
    check_ids("botUser", std::iter::once(&settings.bot_user), "UW", "U012AB3CD")?;
    check_ids("channel", settings.channels.keys(), "CGD", "C012AB3CD")?;
    check_ids("user", settings.users.keys(), "UW", "U012AB3CD")?;
    if settings.channels.len() > CHANNELS {
        return Err(InvalidSlack::TooMany("channels", CHANNELS));
    }
    if settings.users.len() > PEOPLE {
        return Err(InvalidSlack::TooMany("users", PEOPLE));
    }
    Ok(())
}

fn check_ids<'a>(
    field: &'static str,
    mut ids: impl Iterator<Item = &'a String>,
    letters: &str,
    example: &'static str,
) -> Result<(), InvalidSlack> {
    match ids.find(|id| !is_slack_id(id, letters)) {
        Some(wrong) => Err(InvalidSlack::Id(field, wrong.chars().take(40).collect(), example)),
        None => Ok(()),
    }
}

/// Checks the form of the secrets that are set.
///
/// # Errors
/// Returns an error for the first invalid secret.
pub fn check_secrets(changes: &SlackSecretChanges) -> Result<(), InvalidSlack> {
    for (name, value) in changes {
        let Some(SecretValue(text)) = value else { continue };
        let (prefix, form) = match name {
            SlackSecret::BotToken => ("xoxb-", "a token that begins with xoxb-"),
            SlackSecret::AppToken => ("xapp-", "a token that begins with xapp-"),
            SlackSecret::SigningSecret => ("", "the signing secret, of at least 8 characters without spaces"),
        };
        let is_plain = text.chars().all(|c| c.is_ascii_graphic());
        if !text.starts_with(prefix) || text.len() < 8 || text.len() > SECRET_BYTES || !is_plain {
            return Err(InvalidSlack::Secret(name.field(), form));
        }
    }
    Ok(())
}

/// Checks that a workspace has the secrets that its mode needs.
///
/// # Errors
/// Returns an error for the first missing secret.
pub fn check_complete(mode: SlackMode, secrets: &SlackSecrets) -> Result<(), InvalidSlack> {
    let needs = |name: SlackSecret, why| match secrets.contains_key(&name) {
        true => Ok(()),
        false => Err(InvalidSlack::Missing(name.field(), why)),
    };
    needs(SlackSecret::BotToken, "the service writes to Slack with it")?;
    match mode {
        SlackMode::Events => needs(SlackSecret::SigningSecret, "Slack signs the requests with it"),
        SlackMode::Socket => needs(SlackSecret::AppToken, "Socket Mode needs it"),
    }
}

/// Returns the secrets after changes.
#[must_use]
pub fn changed_secrets(known: &SlackSecrets, changes: &SlackSecretChanges) -> SlackSecrets {
    let mut secrets = known.clone();
    for (name, value) in changes {
        match value {
            Some(value) => secrets.insert(*name, value.clone()),
            None => secrets.remove(name),
        };
    }
    secrets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_the_form_of_slack() {
        for (text, letters, expected) in [
            ("C012AB3CD", "CGD", true),
            ("U1", "UW", true),
            ("U", "UW", false),
            ("c012", "CGD", false),
            ("C012-", "CGD", false),
            ("T012", "CGD", false),
            ("#general", "CGD", false),
        ] {
            assert_eq!(is_slack_id(text, letters), expected, "{text}");
        }
    }

    #[test]
    fn a_secret_in_the_wrong_field_is_refused() {
        let one = |name, text: &str| check_secrets(&[(name, Some(SecretValue(text.to_owned())))].into());
        assert_eq!(one(SlackSecret::BotToken, "xoxb-12345"), Ok(()));
        assert_eq!(one(SlackSecret::AppToken, "xapp-12345"), Ok(()));
        assert_eq!(one(SlackSecret::SigningSecret, "8f742231b10e8888"), Ok(()));
        for (name, text) in [
            (SlackSecret::BotToken, "xapp-12345"),
            (SlackSecret::AppToken, "xoxb-12345"),
            (SlackSecret::BotToken, "xoxb-123 45"),
            (SlackSecret::SigningSecret, "short"),
        ] {
            let error = one(name, text).unwrap_err().to_string();
            assert!(error.starts_with(name.field()), "{error}");
            assert!(!error.contains(text), "the error must not contain the secret: {error}");
        }
    }

    #[test]
    fn each_mode_names_the_secret_that_is_missing() {
        let value = || SecretValue("x".to_owned());
        let bot: SlackSecrets = [(SlackSecret::BotToken, value())].into();
        let missing = |mode, secrets: &SlackSecrets| check_complete(mode, secrets).unwrap_err().to_string();
        assert!(missing(SlackMode::Events, &SlackSecrets::new()).starts_with("botToken"));
        assert!(missing(SlackMode::Events, &bot).starts_with("signingSecret"));
        assert!(missing(SlackMode::Socket, &bot).starts_with("appToken"));
        let all = SlackSecret::ALL.into_iter().map(|name| (name, value())).collect();
        assert_eq!(check_complete(SlackMode::Socket, &all), Ok(()));
    }
}
