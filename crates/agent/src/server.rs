//! Handles the requests of the agent's client.
//!
//! Invariant: the server knows every session that was created, loaded or resumed, and refuses prompts for others.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    self, AgentCapabilities, ContentBlock, EmbeddedResourceResource, Implementation, InitializeResponse,
    LoadSessionRequest, LoadSessionResponse, NewSessionRequest, NewSessionResponse, PromptCapabilities, PromptRequest,
    PromptResponse, ResumeSessionRequest, ResumeSessionResponse, SessionCapabilities, SessionId,
    SessionResumeCapabilities,
};
use agent_client_protocol::{Client, Error, ErrorCode, RequestCancellation};

use crate::brain::Brain;
use crate::model::ModelError;
use crate::options::Options;
use crate::replay;
use crate::report::Reporter;
use crate::session::{Running, Session, lock};
use crate::store::{SessionFile, SessionKey, SessionStore, StoreError};
use crate::turn::{Turn, TurnError};
use crate::workspace::{Workspace, WorkspaceError};

/// An error that keeps the agent from starting.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// The model of the options cannot be used.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The directory for sessions cannot be used.
    #[error(transparent)]
    StateDir(#[from] io::Error),
}

/// The agent on one connection.
pub(crate) struct Server {
    options: Arc<Options>,
    store: SessionStore,
    brain: Brain,
    sessions: Mutex<HashMap<SessionKey, Arc<Session>>>,
}

impl Server {
    /// Prepares the agent; no session is open yet.
    pub(crate) fn new(options: Options) -> Result<Self, StartError> {
        let options = Arc::new(options);
        Ok(Self {
            store: SessionStore::open(options.state_dir.clone())?,
            brain: Brain::new(&options)?,
            sessions: Mutex::new(HashMap::new()),
            options,
        })
    }

    /// Returns the capabilities of the agent. It always speaks version 1, even if the client prefers another one.
    pub(crate) fn initialize(&self) -> InitializeResponse {
        let sessions = SessionCapabilities::new().resume(SessionResumeCapabilities::new());
        let prompts = PromptCapabilities::new().embedded_context(true);
        InitializeResponse::new(ProtocolVersion::V1)
            .agent_capabilities(
                AgentCapabilities::new().load_session(true).prompt_capabilities(prompts).session_capabilities(sessions),
            )
            .agent_info(Implementation::new("journeyman", self.options.version.clone()).title("Journeyman"))
    }

    /// Creates a session. It is stored at once, so that it can be loaded even if the process ends before its first
    /// turn. MCP servers in the request are ignored: the agent has only its own tools.
    pub(crate) async fn create(&self, request: NewSessionRequest) -> Result<NewSessionResponse, Error> {
        let workspace = Workspace::open(&request.cwd).map_err(refused_cwd)?;
        let id = (self.options.new_session_id)();
        let key = SessionKey::parse(&id).map_err(|error| failed(&error))?;
        let file = SessionFile::new(&self.options.model);
        self.store.save(&key, &file).await.map_err(|error| failed(&error))?;
        self.insert(Session::new(key, workspace, file));
        Ok(NewSessionResponse::new(id))
    }

    /// Opens a stored session and sends its whole conversation to the client again.
    pub(crate) async fn load(
        &self,
        request: LoadSessionRequest,
        connection: ConnectionTo<Client>,
    ) -> Result<LoadSessionResponse, Error> {
        let session = self.reopen(&request.session_id, &request.cwd).await?;
        let reporter = Reporter::new(connection, request.session_id);
        let file = session.file.lock().await;
        for update in replay::updates(&file, &session.workspace) {
            reporter.send(update);
        }
        Ok(LoadSessionResponse::new())
    }

    /// Opens a stored session without sending its conversation.
    pub(crate) async fn resume(&self, request: ResumeSessionRequest) -> Result<ResumeSessionResponse, Error> {
        self.reopen(&request.session_id, &request.cwd).await?;
        Ok(ResumeSessionResponse::new())
    }

    /// Claims the right to run a turn in the session. Never waits, because it is called in the dispatch loop.
    pub(crate) fn begin(&self, id: &SessionId) -> Result<Running, Error> {
        let session = self.find(id).ok_or_else(|| unknown(id))?;
        session.begin().ok_or_else(already_running)
    }

    /// Runs a turn to its end. `withdrawn` is the cancellation of the request itself, in addition to `session/cancel`.
    pub(crate) async fn prompt(
        &self,
        running: Running,
        request: PromptRequest,
        connection: ConnectionTo<Client>,
        withdrawn: RequestCancellation,
    ) -> Result<PromptResponse, Error> {
        let prompt = prompt_text(&request.prompt);
        if prompt.trim().is_empty() {
            return Err(Error::invalid_params().data("the prompt has no text"));
        }
        let session = Arc::clone(&running.session);
        let reporter = Reporter::new(connection, request.session_id);
        let mut file = session.file.lock().await;
        let turn = Turn {
            key: &session.key,
            workspace: &session.workspace,
            reporter: &reporter,
            store: &self.store,
            asks: self.options.asks,
            cancel: &running.cancel,
        };
        let work = self.brain.turn(&turn, &mut file, &prompt);
        tokio::pin!(work);
        let end = tokio::select! {
            end = &mut work => end,
            () = withdrawn.cancelled() => {
                running.cancel.cancel();
                work.await
            }
        };
        match end {
            Ok(end) => Ok(PromptResponse::new(end.stop).usage(end.usage)),
            Err(error) => Err(turn_failed(&error)),
        }
    }

    /// Stops the turn of the session, if one is running.
    pub(crate) fn cancel(&self, id: &SessionId) {
        if let Some(session) = self.find(id) {
            session.cancel();
        }
    }

    async fn reopen(&self, id: &SessionId, cwd: &Path) -> Result<Arc<Session>, Error> {
        let key = SessionKey::parse(&id.0).map_err(|error| Error::invalid_params().data(error.to_string()))?;
        let workspace = Workspace::open(cwd).map_err(refused_cwd)?;
        if self.find(id).is_some_and(|session| session.is_running()) {
            return Err(already_running());
        }
        let mut file = match self.store.load(&key).await {
            Ok(file) => file,
            Err(StoreError::Unknown(_)) => return Err(unknown(id)),
            Err(error) => return Err(failed(&error)),
        };
        self.brain.adopt(&mut file, &self.options.model);
        Ok(self.insert(Session::new(key, workspace, file)))
    }

    fn insert(&self, session: Session) -> Arc<Session> {
        let session = Arc::new(session);
        lock(&self.sessions).insert(session.key.clone(), Arc::clone(&session));
        session
    }

    fn find(&self, id: &SessionId) -> Option<Arc<Session>> {
        let key = SessionKey::parse(&id.0).ok()?;
        lock(&self.sessions).get(&key).cloned()
    }
}

/// Joins the prompt into one text. Parts that the agent does not support, such as images, are named but not used.
fn prompt_text(blocks: &[ContentBlock]) -> String {
    let texts: Vec<String> = blocks.iter().map(block_text).collect();
    texts.join("\n\n")
}

fn block_text(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::ResourceLink(link) => format!("{}: {}", link.name, link.uri),
        ContentBlock::Resource(resource) => match &resource.resource {
            EmbeddedResourceResource::TextResourceContents(text) => format!("{}:\n{}", text.uri, text.text),
            EmbeddedResourceResource::BlobResourceContents(blob) => {
                format!("[A file that cannot be read: {}]", blob.uri)
            }
            _ => "[A resource that cannot be read]".to_owned(),
        },
        ContentBlock::Image(_) => "[An image that cannot be read]".to_owned(),
        ContentBlock::Audio(_) => "[A recording that cannot be read]".to_owned(),
        _ => "[A part that cannot be read]".to_owned(),
    }
}

fn refused_cwd(error: WorkspaceError) -> Error {
    Error::invalid_params().data(error.to_string())
}

fn unknown(id: &SessionId) -> Error {
    schema::Error::session_not_found(id.clone()).into()
}

fn already_running() -> Error {
    Error::new(ErrorCode::INVALID_REQUEST, "a turn is already running in this session")
}

fn failed(error: &StoreError) -> Error {
    Error::new(ErrorCode::INTERNAL_ERROR, error.to_string())
}

fn turn_failed(error: &TurnError) -> Error {
    let code = match error {
        TurnError::KeyMissing(_) => ErrorCode::AUTH_REQUIRED,
        TurnError::Failed(_) | TurnError::Store(_) => ErrorCode::INTERNAL_ERROR,
    };
    Error::new(code, error.to_string())
}

#[cfg(test)]
mod tests {
    use agent_client_protocol::v1::schema::{EmbeddedResource, ImageContent, ResourceLink, TextResourceContents};

    use super::*;

    #[test]
    fn a_prompt_of_several_parts_becomes_one_text() {
        let resource =
            EmbeddedResourceResource::TextResourceContents(TextResourceContents::new("fn a() {}", "file:///a"));
        let blocks = [
            ContentBlock::from("do this"),
            ContentBlock::ResourceLink(ResourceLink::new("b", "file:///b")),
            ContentBlock::Resource(EmbeddedResource::new(resource)),
            ContentBlock::Image(ImageContent::new("", "image/png")),
        ];
        assert_eq!(
            prompt_text(&blocks),
            "do this\n\nb: file:///b\n\nfile:///a:\nfn a() {}\n\n[An image that cannot be read]"
        );
    }
}
