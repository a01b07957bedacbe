//! Opening a session: restoring the earlier one if the agent can, else a new one; then its model and its mode.
//!
//! Invariant: what the agent repeats of an earlier session is never told as news.

use std::path::{Path, PathBuf};

use agent_client_protocol::UntypedMessage;
use agent_client_protocol::v1::schema::{
    LoadSessionRequest, NewSessionRequest, ResumeSessionRequest, SetSessionConfigOptionRequest, SetSessionModeRequest,
};
use serde_json::{Value, json};

use super::connection::Connection;
use super::error::AcpError;
use super::inbound::Phase;
use super::settings::{self, Change, Setting};

/// The session that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRequest {
    /// The directory to work in, as the agent sees it; absolute.
    pub cwd: PathBuf,
    /// The id of the session to continue, if there is one.
    pub previous: Option<String>,
    /// The mode to work in, usually the one in which the agent asks for no permissions.
    pub mode: Option<String>,
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
    /// it cannot, or answers with an error, a new session is made. A mode or a model that the agent does not know is
    /// logged, and the session is used as it is.
    ///
    /// # Errors
    ///
    /// [`AcpError::Exited`], [`AcpError::Timeout`] after `limits.start_timeout` for any one of the requests,
    /// [`AcpError::Protocol`], [`AcpError::Agent`] if the agent refuses a new session.
    pub async fn open(&self, request: &SessionRequest) -> Result<(String, Opened), AcpError> {
        let restored = match &request.previous {
            Some(previous) => self.restore(previous, &request.cwd).await?,
            None => None,
        };
        let session = match restored {
            Some(session) => session,
            None => self.create(&request.cwd).await?,
        };
        // The model first: some agents have modes that depend on it.
        if let Some(model) = &request.model {
            self.set(&session, Setting::Model, model).await?;
        }
        if let Some(mode) = &request.mode {
            self.set(&session, Setting::Mode, mode).await?;
        }
        Ok((session.id, session.opened))
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

    async fn set(&self, session: &Session, setting: Setting, wanted: &str) -> Result<(), AcpError> {
        let id = session.id.clone();
        let answer = match settings::change(&session.state, setting, wanted) {
            Change::None => return Ok(()),
            Change::Unknown => {
                tracing::warn!(setting = setting.name(), wanted, "the agent does not offer this");
                return Ok(());
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
        tolerate(setting.name(), answer).map(|_| ())
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
