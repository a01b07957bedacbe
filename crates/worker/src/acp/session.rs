//! Opening a session: restoring the earlier one if the agent can, else a new one; then its model and its mode.
//!
//! Invariant: what the agent repeats of an earlier session is never told as news.

use std::path::{Path, PathBuf};

use agent_client_protocol::UntypedMessage;
use agent_client_protocol::v1::schema::{
    AuthenticateRequest, LoadSessionRequest, NewSessionRequest, ResumeSessionRequest, SetSessionConfigOptionRequest,
    SetSessionModeRequest,
};
use serde_json::{Value, json};

use super::connection::Connection;
use super::error::AcpError;
use super::inbound::Phase;
use super::settings::{self, Change, Setting};

/// The error code of the Agent Client Protocol with which an agent requires authentication.
const AUTH_REQUIRED: i64 = -32_000;

/// The session that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRequest {
    /// The directory to work in, as the agent sees it; absolute.
    pub cwd: PathBuf,
    /// The id of the session to continue, if there is one.
    pub previous: Option<String>,
    /// The mode to work in, usually the one in which the agent asks for no permissions.
    pub mode: Option<String>,
    /// Makes it an error if the mode cannot be set: the agent must ask for permission.
    pub mode_is_required: bool,
    /// The authentication method to use if the agent requires authentication. `None`: the only method that the agent
    /// offers.
    pub auth_method: Option<String>,
    /// The model to use, by the agent's name for it.
    pub model: Option<String>,
}

/// How a session was opened, and so what the agent remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// The earlier session goes on.
    Resumed,
    /// The earlier session goes on, after the agent has read it again.
    Loaded,
    /// The agent remembers nothing: the caller sends its own transcript.
    New,
}

/// A session, and what the agent answered when it was opened: its modes, models and options.
struct Session {
    id: String,
    opened: Opened,
    state: Value,
}

impl Connection {
    /// Opens a session. An earlier one is resumed if the agent says that it can do that, else loaded if it says so; if
    /// it cannot, or answers with an error, a new session is made. If the agent requires authentication, this method
    /// authenticates and opens the session again. A mode or a model that the agent does not know is logged, and the
    /// session is used without it, unless the mode is required.
    ///
    /// # Errors
    ///
    /// [`AcpError::Exited`], [`AcpError::Timeout`] after `limits.start_timeout` for any one of the requests,
    /// [`AcpError::Protocol`], [`AcpError::Agent`] if the agent refuses a new session.
    pub async fn open(&self, request: &SessionRequest) -> Result<(String, Opened), AcpError> {
        let session = match self.restore_or_create(request).await {
            Err(AcpError::Agent { code: AUTH_REQUIRED, message }) => {
                self.authenticate(request.auth_method.as_deref(), &message).await?;
                self.restore_or_create(request).await?
            }
            opened => opened?,
        };
        // The model first: some agents have modes that depend on it.
        if let Some(model) = &request.model {
            self.set(&session, Setting::Model, model).await?;
        }
        if let Some(mode) = &request.mode {
            let is_set = self.set(&session, Setting::Mode, mode).await?;
            if request.mode_is_required && !is_set {
                let text = format!(
                    "the agent cannot use the mode {mode}, in which it asks for permission; set another ask-mode in \
                     its table"
                );
                return Err(AcpError::Protocol(text));
            }
        }
        Ok((session.id, session.opened))
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
        // Until the next turn begins, and not only until the answer: some agents repeat the session after it.
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
    async fn set(&self, session: &Session, setting: Setting, wanted: &str) -> Result<bool, AcpError> {
        let id = session.id.clone();
        let answer = match settings::change(&session.state, setting, wanted) {
            Change::None => return Ok(true),
            Change::Unknown => {
                tracing::warn!(setting = setting.name(), wanted, "the agent does not offer this");
                return Ok(false);
            }
            Change::Option(option) => self.call(SetSessionConfigOptionRequest::new(id, option, wanted)).await,
            Change::Mode => self.call(SetSessionModeRequest::new(id, wanted.to_owned())).await,
            Change::Model => {
                // The crate no longer has this request; agents that are older than the options do.
                let params = json!({ "sessionId": id, "modelId": wanted });
                let request =
                    UntypedMessage::new("session/set_model", params).map_err(|error| AcpError::unwritable(&error))?;
                self.call(request).await
            }
        };
        tolerate(setting.name(), answer).map(|answer| answer.is_some())
    }
}

/// An agent's refusal is logged and becomes `None`: there is something else to try. Other errors end the attempt.
fn tolerate(what: &str, answer: Result<Value, AcpError>) -> Result<Option<Value>, AcpError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(AcpError::Agent { code, message }) => {
            tracing::warn!(what, code, error = %message, "the agent refused");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
