//! A client for Docker and Podman, through the API that both serve.

use std::collections::HashMap;
use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bollard::errors::Error;
use bollard::query_parameters::{
    ListContainersOptionsBuilder, LogsOptionsBuilder, RemoveContainerOptionsBuilder, StartContainerOptions,
    WaitContainerOptions,
};
use bollard::{API_DEFAULT_VERSION, Docker};
use futures::StreamExt;
use journeyman_core::ports::SandboxError;
use rustix::process::Pid;

use super::info::EngineInfo;
use super::order::{LABEL, Order, body};

/// The number of times that a removal is retried if the engine is busy with the container, and the pause before each.
const REMOVAL_ATTEMPTS: u32 = 50;
const REMOVAL_PAUSE: Duration = Duration::from_millis(100);

/// The time that the engine may take to answer, in seconds.
const ANSWER_SECONDS: u64 = 120;

/// The time that pausing or resuming a container may take. Docker takes 15 ms, Podman somewhat more.
const PAUSE_TIME: Duration = Duration::from_secs(10);

/// The time that a caller waits for the removal of a container before the removal continues in the background.
const REMOVAL_TIME: Duration = Duration::from_secs(15);

/// The time for which the removal of a container is retried on an engine that does not answer, and the longest pause
/// between attempts.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(600);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A container engine.
#[derive(Clone)]
pub(super) struct Engine {
    pub(super) docker: Docker,
    socket: PathBuf,
    owner: String,
    pub(super) info: EngineInfo,
    /// The time at which each image was last pulled.
    pub(super) fetched: Arc<Mutex<HashMap<String, Instant>>>,
}

/// A container. When dropped, it is killed and removed in the background.
pub(super) struct Started {
    pub(super) engine: Engine,
    pub(super) id: String,
}

impl Started {
    /// Kills and removes the container; if the engine does not answer, later in the background.
    pub(super) async fn remove(mut self) {
        match tokio::time::timeout(REMOVAL_TIME, self.engine.remove(&self.id)).await {
            Ok(Err(SandboxError::EngineUnreachable(_))) | Err(_) => return,
            Ok(Err(error)) => {
                tracing::warn!(
                    container = self.id, %error,
                    "a container could not be removed; the next start removes it"
                );
            }
            Ok(Ok(())) => {}
        }
        self.id.clear();
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if !self.id.is_empty() {
            self.engine.remove_later(std::mem::take(&mut self.id));
        }
    }
}

impl Engine {
    pub(super) async fn connect(socket: &Path, owner: &str) -> Result<Self, SandboxError> {
        let failed = |error: Error| failed(socket, "the container engine did not report its version", &error);
        let docker = Docker::connect_with_unix(&socket.to_string_lossy(), ANSWER_SECONDS, API_DEFAULT_VERSION);
        let docker = docker.map_err(failed)?.negotiate_version().await.map_err(failed)?;
        let info = EngineInfo::ask(socket).await.map_err(|error| unreachable(socket, &error))?;
        Ok(Self { docker, socket: socket.to_owned(), owner: owner.to_owned(), info, fetched: Arc::default() })
    }

    /// Removes all containers with this owner's label: dead services have left them behind.
    pub(super) async fn remove_all(&self) -> Result<(), SandboxError> {
        let filters = HashMap::from([("label".to_owned(), vec![format!("{LABEL}={}", self.owner)])]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let all = self.docker.list_containers(Some(options)).await;
        let all = all.map_err(|error| self.failed("containers could not be listed", &error))?;
        for container in all.into_iter().filter_map(|container| container.id) {
            self.remove(&container).await?;
        }
        Ok(())
    }

    /// Starts a container whose first process is the shim.
    pub(super) async fn start(&self, order: &Order<'_>) -> Result<Started, SandboxError> {
        let text = "the container could not be started";
        let made = self.docker.create_container(None, body(&self.owner, &self.info, order)).await;
        let id = made.map_err(|error| self.failed(text, &error))?.id;
        let started = Started { engine: self.clone(), id };
        match self.docker.start_container(&started.id, None::<StartContainerOptions>).await {
            Ok(()) => Ok(started),
            Err(error) => {
                started.remove().await;
                Err(self.failed(text, &error))
            }
        }
    }

    /// Waits for a container to end before its program has begun, and returns the reason.
    pub(super) async fn ended(&self, container: &str) -> SandboxError {
        let mut ended = std::pin::pin!(self.docker.wait_container(container, None::<WaitContainerOptions>));
        // An exit code other than 0 is an error there.
        if let Some(Err(error)) = ended.next().await
            && is_unreachable(&error)
        {
            return unreachable(&self.socket, &chain(&error));
        }
        let logs = self.logs(container).await;
        SandboxError::Unavailable(if logs.is_empty() { "the container exited during startup".to_owned() } else { logs })
    }

    /// Returns the last lines that the container's first process has printed.
    pub(super) async fn logs(&self, container: &str) -> String {
        let options = LogsOptionsBuilder::new().stdout(true).stderr(true).tail("20").build();
        let lines: Vec<_> = self.docker.logs(container, Some(options)).take(20).collect().await;
        let text: String = lines.into_iter().flatten().map(|line| line.to_string()).collect();
        text.trim().to_owned()
    }

    /// Returns the ID of the container's first process on the host.
    pub(super) async fn first_process(&self, container: &str) -> Result<Pid, SandboxError> {
        let found = self.docker.inspect_container(container, None).await;
        let state = found.map_err(|error| self.failed("a container could not be inspected", &error))?.state;
        let pid = state.and_then(|state| state.pid).and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        pid.ok_or_else(|| SandboxError::Unavailable("the container has already exited".to_owned()))
    }

    /// Kills and removes a container; succeeds if the container does not exist. An engine that is busy with the
    /// container answers 409, and Podman also 500. The container may then be about to go or may stay, so the request is
    /// repeated.
    async fn remove(&self, container: &str) -> Result<(), SandboxError> {
        let mut patience = REMOVAL_ATTEMPTS;
        loop {
            let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
            match self.docker.remove_container(container, Some(options)).await {
                Ok(()) | Err(Error::DockerResponseServerError { status_code: 404, .. }) => return Ok(()),
                Err(Error::DockerResponseServerError { status_code: 409 | 500..=599, message }) if patience > 0 => {
                    tracing::debug!(container, message, "the container is not removed yet; retrying");
                    patience -= 1;
                }
                Err(error) => return Err(self.failed("a container could not be removed", &error)),
            }
            tokio::time::sleep(REMOVAL_PAUSE).await;
        }
    }

    /// Freezes all processes of a container with the kernel's freezer. Returns false if the engine cannot do so:
    /// rootless engines need control groups of version 2 that are delegated to their user.
    pub(super) async fn pause(&self, container: &str) -> bool {
        self.try_call("pause", container, self.docker.pause_container(container)).await
    }

    /// Resumes the processes of a paused container.
    pub(super) async fn unpause(&self, container: &str) -> bool {
        self.try_call("unpause", container, self.docker.unpause_container(container)).await
    }

    async fn try_call(&self, what: &str, container: &str, call: impl Future<Output = Result<(), Error>>) -> bool {
        match tokio::time::timeout(PAUSE_TIME, call).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::debug!(container, error = chain(&error), "the container engine did not {what} a container");
                false
            }
            Err(_) => {
                tracing::warn!(container, "the container engine did not {what} a container in time");
                false
            }
        }
    }

    /// Removes a container in the background. If the engine stays unreachable, the next start removes the container.
    fn remove_later(&self, container: String) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (engine, begun) = (self.clone(), Instant::now());
        runtime.spawn(async move {
            let mut pause = REMOVAL_PAUSE;
            loop {
                match engine.remove(&container).await {
                    Ok(()) => return,
                    Err(SandboxError::EngineUnreachable(_)) if begun.elapsed() < REMOVAL_PATIENCE => {}
                    Err(error) => {
                        tracing::warn!(
                            container, %error,
                            "a container could not be removed; the next start removes it"
                        );
                        return;
                    }
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        });
    }

    /// Returns the error for a request that the engine did not carry out.
    pub(super) fn failed(&self, what: &str, error: &Error) -> SandboxError {
        failed(&self.socket, what, error)
    }
}

fn failed(socket: &Path, what: &str, error: &Error) -> SandboxError {
    if is_unreachable(error) {
        unreachable(socket, &chain(error))
    } else {
        SandboxError::Unavailable(format!("{what}: {}", chain(error)))
    }
}

/// Returns the error for an engine that does not answer.
pub(super) fn unreachable(socket: &Path, detail: &dyn std::fmt::Display) -> SandboxError {
    let detail = detail.to_string();
    let remedy = if detail.contains("Permission denied") {
        "let the user of the service write to this socket (for Docker, add the user to the group docker) and restart \
         the service"
    } else {
        "start it"
    };
    SandboxError::EngineUnreachable(format!(
        "the container engine at {} does not answer: {detail}; {remedy}, or set container-engine to the socket of a \
         running engine",
        socket.display()
    ))
}

/// Returns whether an error means only that the engine did not answer. This includes the statuses with which a proxy in
/// between reports that.
const fn is_unreachable(error: &Error) -> bool {
    matches!(
        error,
        Error::HyperResponseError { .. }
            | Error::HyperLegacyError { .. }
            | Error::IOError { .. }
            | Error::RequestTimeoutError
            | Error::SocketNotFoundError(_)
            | Error::DockerResponseServerError { status_code: 502..=504, .. }
    )
}

/// Returns the text of an error and of its sources: the client's own text lacks the system's error.
fn chain(error: &Error) -> String {
    let mut all = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let text = inner.to_string();
        if !all.contains(&text) {
            all = format!("{all}: {text}");
        }
        source = inner.source();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_the_service_may_not_use_has_its_own_remedy() {
        let text = |detail: &str| unreachable(Path::new("/run/docker.sock"), &detail).to_string();
        let refused = text("Permission denied (os error 13)");
        assert!(refused.contains("group docker") && !refused.contains("start it"), "{refused}");
        let missing = text("No such file or directory (os error 2)");
        assert!(missing.contains("start it") && !missing.contains("group docker"), "{missing}");
    }

    #[tokio::test]
    async fn an_unreachable_engine_is_distinguished_from_one_that_refuses() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("engine.sock");
        let Err(error) = Engine::connect(&socket, "x").await else { panic!("no engine listens") };
        let SandboxError::EngineUnreachable(text) = &error else { panic!("{error:?}") };
        assert!(text.contains("engine.sock does not answer") && text.contains("container-engine"), "{text}");
        // The engine has died and left its socket behind.
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        let Err(error) = Engine::connect(&socket, "x").await else { panic!("no engine listens") };
        let SandboxError::EngineUnreachable(text) = &error else { panic!("{error:?}") };
        assert!(text.contains("Connection refused"), "{text}");
        let answer = |status_code| Error::DockerResponseServerError { status_code, message: "no".into() };
        for (status, expected) in [(404, false), (409, false), (500, false), (502, true), (503, true), (504, true)] {
            let error = failed(&socket, "x", &answer(status));
            assert_eq!(matches!(error, SandboxError::EngineUnreachable(_)), expected, "{status}");
        }
    }
}
