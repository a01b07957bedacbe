//! Serves repositories of the built-in host over git's smart HTTP protocol, with `git http-backend`.
//!
//! Invariants: only the project's own repository is reachable; git never sees a path or a query that the client wrote;
//! only a few pieces of a body are in memory; no git process outlives the body of its answer.

mod exchange;
mod head;
mod request;

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::code_host::PullRepository;
use journeyman_core::ports::{GitHttpRequest, GitHttpResponse, GitServer, GitServerError};
use journeyman_core::project::{Address, Project, parse_address};
use journeyman_core::pull::compared::MovedBranch;
use journeyman_git::{Folders, GitCommand};

use request::Asked;

use super::{LocalHost, blocking};

/// The longest time in which neither side moves a byte. While git computes, it sends a keepalive every five seconds.
const IDLE: Duration = Duration::from_secs(120);

/// The settings of git for clients. Options of a push mean something to other code hosts only, and are ignored. Refs that
/// code hosts write themselves are refused from clients, with a line for each ref.
///
/// Partial clones fetch missing objects by their IDs. Protocol v2 lets them, whatever the settings say: it sends each
/// object that exists to clients that know its ID. The versions before need `allowReachableSHA1InWant`, which sends no
/// commit that no ref leads to, so it shows less than v2. Refs that are hidden count in both.
const SETTINGS: [&str; 6] = [
    "receive.advertisePushOptions=true",
    "receive.hideRefs=refs/journeyman",
    "receive.hideRefs=refs/pull",
    "uploadpack.allowFilter=true",
    "uploadpack.allowReachableSHA1InWant=true",
    "uploadpack.hideRefs=refs/journeyman",
];

/// The steps after git has received a push, before the response ends.
struct Pushed {
    host: LocalHost,
    project: Project,
    folders: Folders,
}

impl Pushed {
    /// Chooses the default branch if there is none, and syncs the changed folders of the repository to disk.
    async fn finish(self) -> io::Result<()> {
        if let Ok(Address::Local(name)) = parse_address(&self.project.repository) {
            let path = self.host.path(&name);
            self.host.follow_push(&path, &self.project).await.map_err(io::Error::other)?;
            // Before the client is told of its push, so that a crash loses no comparison of it.
            self.host.wake_comparisons(&name).await;
        }
        blocking(move || self.folders.sync()).await
    }
}

impl LocalHost {
    /// Makes the comparisons of the repository's pull requests with their bases due at once. A failure is only logged:
    /// they are compared after a time in any case.
    async fn wake_comparisons(&self, name: &str) {
        let moved = MovedBranch { repository: PullRepository::local(name), branch: None, project: None };
        if let Err(error) = self.comparisons.wake_comparisons(moved).await {
            tracing::warn!(%error, "the comparison of pull requests with their bases could not be made due");
        }
    }

    fn backend(&self, project: &Project, name: &str, asked: &Asked, request: &GitHttpRequest) -> GitCommand {
        let hooks = self.hooks_setting(project);
        let settings = SETTINGS.into_iter().chain(hooks.as_deref());
        let command = self
            .git
            .command(settings.flat_map(|setting| ["-c", setting]).chain(["http-backend"]))
            .env("GIT_PROJECT_ROOT", &self.repositories)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("PATH_INFO", format!("/{name}.git{}", asked.path))
            .env("QUERY_STRING", asked.query)
            .env("REQUEST_METHOD", asked.method)
            .env("REMOTE_USER", &request.user);
        let headers = [
            ("CONTENT_TYPE", &request.content_type),
            ("HTTP_CONTENT_ENCODING", &request.content_encoding),
            ("HTTP_GIT_PROTOCOL", &request.git_protocol),
            // git before 2.36 reads only this variable.
            ("GIT_PROTOCOL", &request.git_protocol),
        ];
        headers.into_iter().fold(command, |command, (name, value)| match value {
            Some(value) => command.env(name, value),
            None => command,
        })
    }
}

#[async_trait]
impl GitServer for LocalHost {
    fn needs_write(&self, path: &str, query: &str) -> bool {
        request::needs_write(path, query)
    }

    async fn serve(&self, project: &Project, request: GitHttpRequest) -> Result<GitHttpResponse, GitServerError> {
        let Ok(Address::Local(name)) = parse_address(&project.repository) else {
            return Err(GitServerError::NotFound);
        };
        let asked = Asked::read(&request.method, &request.path, &request.query).ok_or(GitServerError::NotFound)?;
        if !self.path(&name).join("HEAD").exists() {
            return Err(GitServerError::NotFound);
        }
        // An acknowledged push survives a power failure: the response ends only when its objects and refs are on disk.
        let path = self.path(&name);
        let folders = match request::needs_write(&request.path, &request.query) {
            true => Some(blocking(move || Folders::look(&path)).await),
            false => None,
        };
        let folders = folders.transpose().map_err(|error| GitServerError::Failed(error.to_string()))?;
        let pushed = folders.map(|folders| Pushed { host: self.clone(), project: project.clone(), folders });
        let started = self.backend(project, &name, asked, &request).spawn();
        let process = started.map_err(|error| GitServerError::Failed(error.to_string()))?;
        let mut pieces = exchange::start(process, request.body, IDLE, pushed);
        let (head, rest) = head::receive(&mut pieces).await?;
        Ok(GitHttpResponse { status: head.status, headers: head.headers, body: exchange::body(rest, pieces) })
    }
}
