//! Opens a session: restores the earlier one if the agent can, otherwise creates a new one, and then sets its model, its
//! effort and its mode.
//!
//! Invariant: updates with which the agent repeats an earlier session are never reported as new.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agent_client_protocol::UntypedMessage;
use agent_client_protocol::v1::schema::{
    AuthenticateRequest, LoadSessionRequest, NewSessionRequest, ResumeSessionRequest, SetSessionConfigOptionRequest,
    SetSessionModeRequest,
};
use journeyman_core::model::Effort;
use serde_json::{Value, json};

use super::connection::Connection;
use super::error::AcpError;
use super::inbound::Phase;
use super::settings::{self, Change, Setting};

/// The error code of the Agent Client Protocol with which an agent requires authentication.
const AUTH_REQUIRED: i64 = -32_000;

/// The parameters of a session to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRequest {
    /// The absolute path of the working directory, as the agent sees it.
    pub cwd: PathBuf,
    /// The ID of the session to continue, if there is one.
    pub previous: Option<String>,
    /// The mode of the session, usually the one in which the agent asks for no permissions.
    pub mode: Option<String>,
    /// Makes it an error if the mode cannot be set: the agent must ask for permission.
    pub mode_is_required: bool,
    /// The authentication method to use if the agent requires authentication. `None`: the only method that the agent
    /// offers.
    pub auth_method: Option<String>,
    /// The agent's name for the model to use.
    pub model: Option<String>,
    /// The effort of the model.
    pub effort: Option<Effort>,
}

/// An open session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenSession {
    /// The agent's ID of the session.
    pub id: String,
    /// The way in which it was opened.
    pub opened: Opened,
    /// The settings that the agent does not offer or has refused, with their wanted values: `mode`, `model`, `effort`.
    pub not_set: BTreeMap<&'static str, String>,
}

/// The way in which a session was opened, which determines what the agent remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// The agent continues the earlier session.
    Resumed,
    /// The agent continues the earlier session after it has read the session again.
    Loaded,
    /// The session is new, and the agent remembers nothing: the caller includes the earlier messages in its prompt.
    New,
}

/// A session, and the agent's answer when it was opened, with its modes, models and options.
struct Session {
    id: String,
    opened: Opened,
    state: Value,
}

impl Connection {
    /// Opens a session. If the agent supports it, an earlier session is resumed, or loaded if it cannot be resumed; if
    /// neither is possible, or the agent answers with an error, a new session is created. If the agent requires
    /// authentication, this method authenticates and opens the session again. If the agent does not offer the mode, the
    /// model or the effort, this is logged, and the session is used without it, unless the mode is required.
    ///
    /// # Errors
    ///
    /// Returns [`AcpError::Exited`] if the agent ends, [`AcpError::Timeout`] if a request takes longer than
    /// `limits.start_timeout`, [`AcpError::Protocol`] or [`AcpError::TooMuch`] if the agent violates the protocol,
    /// sends too much, or cannot use the required mode, and [`AcpError::Agent`] if it refuses a new session or the
    /// authentication.
    pub async fn open(&self, request: &SessionRequest) -> Result<OpenSession, AcpError> {
        let mut session = match self.restore_or_create(request).await {
            Err(AcpError::Agent { code: AUTH_REQUIRED, message }) => {
                self.authenticate(request.auth_method.as_deref(), &message).await?;
                self.restore_or_create(request).await?
            }
            opened => opened?,
        };
        let mut not_set = BTreeMap::new();
        // Set the model first: the efforts and the modes of some agents depend on it.
        for (setting, wanted) in [
            (Setting::Model, request.model.as_deref()),
            (Setting::Effort, request.effort.map(Effort::name)),
            (Setting::Mode, request.mode.as_deref()),
        ] {
            if let Some(wanted) = wanted
                && !self.set(&mut session, setting, wanted).await?
            {
                not_set.insert(setting.name(), wanted.to_owned());
            }
        }
        if let Some(mode) = not_set.get(Setting::Mode.name()).filter(|_| request.mode_is_required) {
            let text = format!(
                "the agent cannot use the mode {mode}, in which it asks for permission; set another ask-mode in its table"
            );
            return Err(AcpError::Protocol(text));
        }
        Ok(OpenSession { id: session.id, opened: session.opened, not_set })
    }

    async fn restore_or_create(&self, request: &SessionRequest) -> Result<Session, AcpError> {
        let restored = match &request.previous {
            Some(previous) => self.restore(previous, &request.cwd).await?,
            None => None,
        };
        match restored {
            Some(session) => Ok(session),
            None => self.create(&request.cwd).await,
        }
    }

    /// Sends `authenticate`. `asked` is the text of the error with which the agent required it.
    async fn authenticate(&self, wanted: Option<&str>, asked: &str) -> Result<(), AcpError> {
        let refused = |text: String| Err(AcpError::Agent { code: AUTH_REQUIRED, message: text });
        let offered = self.auth_methods.join(", ");
        let method = match (wanted, self.auth_methods.as_slice()) {
            (Some(wanted), methods) if methods.iter().any(|method| method == wanted) => wanted,
            (None, [only]) => only,
            (_, []) => return refused(format!("{asked}; the agent offers no authentication method: it needs a key")),
            _ => {
                return refused(format!(
                    "{asked}; the agent offers the authentication methods {offered}: set auth-method in its table to one \
                     of them, or give it a key"
                ));
            }
        };
        match self.call(AuthenticateRequest::new(method.to_owned())).await {
            Ok(_) => Ok(()),
            Err(AcpError::Agent { message, .. }) => {
                refused(format!("{asked}; authentication by {method} failed: {message}"))
            }
            Err(error) => Err(error),
        }
    }

    async fn restore(&self, previous: &str, cwd: &Path) -> Result<Option<Session>, AcpError> {
        // The phase lasts until the next turn begins, not only until the answer: some agents repeat the session after
        // their answer.
        self.phase.send_replace(Phase::Restoring);
        if self.can.resume {
            let request = ResumeSessionRequest::new(previous.to_owned(), cwd);
            if let Some(state) = tolerate("session/resume", self.call(request).await)? {
                return Ok(Some(Session { id: previous.to_owned(), opened: Opened::Resumed, state }));
            }
        }
        if self.can.load {
            let request = LoadSessionRequest::new(previous.to_owned(), cwd);
            if let Some(state) = tolerate("session/load", self.call(request).await)? {
                return Ok(Some(Session { id: previous.to_owned(), opened: Opened::Loaded, state }));
            }
        }
        Ok(None)
    }

    async fn create(&self, cwd: &Path) -> Result<Session, AcpError> {
        let state = self.call(NewSessionRequest::new(cwd)).await?;
        let id = state.get("sessionId").and_then(Value::as_str);
        let Some(id) = id.map(str::to_owned) else {
            return Err(AcpError::Protocol("the agent's answer to session/new names no session".to_owned()));
        };
        Ok(Session { id, opened: Opened::New, state })
    }

    /// Changes a setting of the session. Returns whether the session has it afterward.
    async fn set(&self, session: &mut Session, setting: Setting, wanted: &str) -> Result<bool, AcpError> {
        let id = session.id.clone();
        let answer = match settings::change(&session.state, setting, wanted) {
            Change::None => return Ok(true),
            Change::Unknown => {
                tracing::warn!(setting = setting.name(), wanted, "the agent does not offer this value of a setting");
                return Ok(false);
            }
            Change::Option(option) => self.call(SetSessionConfigOptionRequest::new(id, option, wanted)).await,
            Change::Mode => self.call(SetSessionModeRequest::new(id, wanted.to_owned())).await,
            Change::Model => {
                // The crate no longer has this request, but agents that predate the options do.
                let params = json!({ "sessionId": id, "modelId": wanted });
                let request =
                    UntypedMessage::new("session/set_model", params).map_err(|error| AcpError::unwritable(&error))?;
                self.call(request).await
            }
        };
        let Some(mut answer) = tolerate(setting.name(), answer)? else { return Ok(false) };
        // The answer to a change of an option has all options: a change of one may change the others.
        if let Some(options) = answer
            .get_mut("configOptions")
            .filter(|options| options.as_array().is_some_and(|options| !options.is_empty()))
            && let Some(state) = session.state.as_object_mut()
        {
            state.insert("configOptions".to_owned(), options.take());
        }
        Ok(true)
    }
}

/// Logs an agent's refusal and returns `None`, because the caller can do something else. Returns other errors.
fn tolerate(what: &str, answer: Result<Value, AcpError>) -> Result<Option<Value>, AcpError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(AcpError::Agent { code, message }) => {
            tracing::warn!(what, code, error = %message, "the agent refused a request");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
