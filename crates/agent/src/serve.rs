//! Routes the messages of the connection.
//!
//! Invariant: a handler runs in the dispatch loop of the connection, so it starts work and returns; work that may take
//! time is spawned as a task and takes the responder with it. The protocol crate answers methods without a handler with
//! "method not found".

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    CancelNotification, InitializeRequest, InitializeResponse, LoadSessionRequest, LoadSessionResponse,
    NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse, ResumeSessionRequest, ResumeSessionResponse,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Agent, ByteStreams, Client, Error, JsonRpcResponse, on_receive_notification, on_receive_request,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use crate::model::ModelError;
use crate::options::Options;
use crate::server::{Server, StartError};

/// An error that ended the agent before the end of its input.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The model of the options cannot be used.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The directory for sessions cannot be used.
    #[error("the directory for sessions `{path}` cannot be used: {source}")]
    StateDir {
        /// The directory.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// The connection broke.
    #[error("the connection to the client failed: {0}")]
    Connection(Error),
}

/// Runs the agent on a pair of byte streams, with one JSON-RPC message per line, until the input ends. Turns that are
/// then still running are dropped together with their processes; their sessions can be loaded again.
///
/// # Errors
///
/// Returns an error if the options cannot be used or the connection fails.
pub async fn serve<R, W>(options: Options, input: R, output: W) -> Result<(), ServeError>
where
    R: AsyncRead + Send + 'static,
    W: AsyncWrite + Send + 'static,
{
    let path = options.state_dir.clone();
    let server = Server::new(options).map_err(|error| match error {
        StartError::Model(error) => ServeError::Model(error),
        StartError::StateDir(source) => ServeError::StateDir { path, source },
    })?;
    let streams = ByteStreams::new(output.compat_write(), input.compat());
    connect(Arc::new(server), streams).await.map_err(ServeError::Connection)
}

async fn connect<O, I>(server: Arc<Server>, streams: ByteStreams<O, I>) -> Result<(), Error>
where
    O: futures::AsyncWrite + Send + 'static,
    I: futures::AsyncRead + Send + 'static,
{
    let (initializing, creating, loading) = (Arc::clone(&server), Arc::clone(&server), Arc::clone(&server));
    let (resuming, prompting, cancelling) = (Arc::clone(&server), Arc::clone(&server), server);
    Agent
        .v1()
        .name("journeyman-agent")
        .on_receive_request(
            async move |_request: InitializeRequest,
                        responder: Responder<InitializeResponse>,
                        _connection: ConnectionTo<Client>| responder.respond(initializing.initialize()),
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: NewSessionRequest,
                        responder: Responder<NewSessionResponse>,
                        connection: ConnectionTo<Client>| {
                let server = Arc::clone(&creating);
                connection.spawn(async move { answer(responder, server.create(request).await) })
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: LoadSessionRequest,
                        responder: Responder<LoadSessionResponse>,
                        connection: ConnectionTo<Client>| {
                let server = Arc::clone(&loading);
                let replay = connection.clone();
                connection.spawn(async move { answer(responder, server.load(request, replay).await) })
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ResumeSessionRequest,
                        responder: Responder<ResumeSessionResponse>,
                        connection: ConnectionTo<Client>| {
                let server = Arc::clone(&resuming);
                connection.spawn(async move { answer(responder, server.resume(request).await) })
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest,
                        responder: Responder<PromptResponse>,
                        connection: ConnectionTo<Client>| {
                spawn_turn(&prompting, request, responder, &connection)
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |notification: CancelNotification, _connection: ConnectionTo<Client>| {
                cancelling.cancel(&notification.session_id);
                Ok(())
            },
            on_receive_notification!(),
        )
        .connect_to(streams)
        .await
}

/// Claims the turn in the dispatch loop, so that a cancellation right after the prompt finds it, and runs the turn in a
/// separate task.
fn spawn_turn(
    server: &Arc<Server>,
    request: PromptRequest,
    responder: Responder<PromptResponse>,
    connection: &ConnectionTo<Client>,
) -> Result<(), Error> {
    let running = match server.begin(&request.session_id) {
        Ok(running) => running,
        Err(error) => return responder.respond_with_error(error),
    };
    let server = Arc::clone(server);
    let peer = connection.clone();
    connection.spawn(async move {
        let withdrawn = responder.cancellation();
        let result = server.prompt(running, request, peer, withdrawn).await;
        answer(responder, result)
    })
}

/// Answers a request. If the answer cannot be sent, the connection is already closing, so the failure is only logged.
fn answer<T: JsonRpcResponse>(responder: Responder<T>, result: Result<T, Error>) -> Result<(), Error> {
    if let Err(error) = responder.respond_with_result(result) {
        tracing::debug!(code = ?error.code, "an answer could not be sent");
    }
    Ok(())
}
