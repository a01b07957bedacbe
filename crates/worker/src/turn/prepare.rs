//! The preparation of an agent: starts it once in an empty home, and keeps what it has unpacked there for the homes of new
//! jobs ([`crate::workspace::prepared_home`]).
//!
//! The agent runs in the sandbox that jobs have, without a repository, a network, a model, and any credential.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use journeyman_core::agent::{AgentSpec, PlaceholderValues};
use journeyman_core::ports::{Sandbox, SandboxError, Spawn, Spawned};
use journeyman_core::project::{DEFAULT_AGENT, LimitSettings};
use journeyman_core::run::ReasonCode;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::{mpsc, watch};

use super::failure;
use super::files::with_files;
use super::models::needs_endpoint;
use crate::acp::{self, Answer, Limits, Policy, Streams};
use crate::claim::deadline::{self, Overdue, WorkLimits};
use crate::error::RunError;
use crate::sandbox::output::last_output;
use crate::workspace::prepared_home::{self, HomeSize, archive_path};
use crate::workspace::remove::remove_folder;

/// The limits of a preparation. They are far above those of a start in a job, which such an agent would exceed.
const LIMITS: WorkLimits = WorkLimits {
    processor: Duration::from_secs(900),
    blocked: Duration::from_secs(120),
    longest: Duration::from_secs(1800),
};

/// A start in a new home that takes longer is worth a preparation.
const SLOW: Duration = Duration::from_secs(5);

/// The bytes of an agent's stderr that explain a failure.
const STDERR_BYTES: usize = 4096;

/// The inputs of a preparation.
pub struct AgentPreparation<'a> {
    /// The ID of the agent.
    pub id: &'a str,
    /// The agent.
    pub spec: &'a AgentSpec,
    /// The sandbox.
    pub sandbox: &'a dyn Sandbox,
    /// The variables of every program in a sandbox: `PATH`, `LANG`.
    pub environment: &'a BTreeMap<String, String>,
    /// The folder of the sandbox in which a temporary workspace is made.
    pub root: &'a Path,
    /// The data directory with the prepared homes.
    pub data: &'a Path,
    /// The maximum size of the home in bytes.
    pub limit: u64,
}

/// An error from the preparation of an agent. Jobs begin with an empty home, as before.
#[derive(Debug, thiserror::Error)]
pub enum PreparationError {
    /// The agent could not be started, or did not answer `initialize`.
    #[error("the agent could not be started in an empty home, without a model: {0}")]
    NotStarted(String),
    /// The home is too large.
    #[error(
        "the agent has unpacked more than {} MiB into its home, which is not kept: each new job waits for it again",
        .0 >> 20
    )]
    TooLarge(u64),
    /// A file could not be read or written.
    #[error("the home of the agent could not be stored: {0}")]
    Files(#[from] io::Error),
}

impl From<RunError> for PreparationError {
    fn from(error: RunError) -> Self {
        Self::NotStarted(error.to_string())
    }
}

impl From<SandboxError> for PreparationError {
    fn from(error: SandboxError) -> Self {
        Self::NotStarted(error.to_string())
    }
}

impl AgentPreparation<'_> {
    /// Starts the agent in an empty home until it has answered `initialize`, and stores the home. Returns its size.
    ///
    /// # Errors
    /// The agent could not be started, or its home could not be stored. Nothing was stored.
    pub async fn prepare(&self) -> Result<HomeSize, PreparationError> {
        // The name has no dots of the ID, because the folders of workspaces have none.
        let folder = self.root.join(format!("agent-{}", self.id.replace('.', "_")));
        remove_folder(&folder).await?;
        let (tree, home) = (folder.join("tree"), folder.join("home"));
        for dir in [&tree, &home] {
            tokio::fs::create_dir_all(dir).await?;
        }
        let started = self.start(&tree, &home).await;
        let stored = match started {
            Ok(()) => self.store(home).await,
            Err(error) => Err(error),
        };
        remove_folder(&folder).await?;
        stored
    }

    async fn store(&self, home: PathBuf) -> Result<HomeSize, PreparationError> {
        let search_path = self.environment.get("PATH").map(String::as_str).unwrap_or_default();
        let archive = archive_path(self.data, self.id, self.spec, search_path);
        let (id, limit) = (self.id.to_owned(), self.limit);
        let stored = tokio::task::spawn_blocking(move || prepared_home::store(&home, &id, &archive, limit)).await;
        match stored.map_err(io::Error::other)? {
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Err(PreparationError::TooLarge(self.limit)),
            stored => Ok(stored?),
        }
    }

    /// Starts the agent, and ends it when it has answered `initialize`.
    async fn start(&self, tree: &Path, home: &Path) -> Result<(), PreparationError> {
        self.sandbox.adopt(&[tree.to_owned(), home.to_owned()]).await?;
        let Spawned { stdin, stdout, stderr, mut process, .. } = self.sandbox.spawn(self.spawn(tree, home)).await?;
        let (stdout, stderr) = (Receiver::from_owned_fd(stdout)?, Receiver::from_owned_fd(stderr)?);
        let stdin = Box::new(Sender::from_owned_fd(stdin)?);
        let stderr = tokio::spawn(last_output(stderr, STDERR_BYTES));
        let streams = Streams { stdin, stdout: Box::new(stdout), tap: None };
        let limits = Limits { initialize_timeout: 2 * LIMITS.longest, ..Limits::default() };
        let policy = Policy { usual: Answer::Refuse, by_tool: BTreeMap::default() };
        let (sender, _updates) = mpsc::channel(256);
        let answered = tokio::select! {
            connected = acp::connect(streams, limits, policy, sender) => match connected {
                Ok(connection) => {
                    // It may write to its home shortly after the answer.
                    tokio::time::sleep(Duration::from_millis(self.spec.flush_millis)).await;
                    drop(connection);
                    Ok(())
                }
                Err(error) => Err(failure::not_started(error, "it answered initialize")),
            },
            overdue = deadline::overdue(&*process, LIMITS) => {
                Err(RunError::failed(ReasonCode::AgentNotStarted, too_slow(overdue)))
            }
        };
        let answered = match answered {
            Err(error) => {
                let exit = failure::exit_of(&mut *process, &error).await;
                process.end().await;
                Err(failure::explain(error, exit, &stderr.await.unwrap_or_default()))
            }
            Ok(()) => {
                process.end().await;
                Ok(())
            }
        };
        Ok(answered?)
    }

    fn spawn(&self, tree: &Path, home: &Path) -> Spawn {
        let layout = self.sandbox.layout(tree, home);
        let values = PlaceholderValues {
            model: "test/scripted".to_owned(),
            dialect: "test".to_owned(),
            model_name: "scripted".to_owned(),
            home: layout.home.to_string_lossy().into_owned(),
            workspace: layout.workspace.to_string_lossy().into_owned(),
            permission: "allow",
            model_calls: "0".to_owned(),
            context_tokens: "0".to_owned(),
            effort: None,
        };
        let mut environment = self.environment.clone();
        if let Some(path) = environment.get_mut("PATH") {
            *path = self.sandbox.search_path(path);
        }
        environment.insert("HOME".to_owned(), values.home.clone());
        let own = self.spec.environment.iter().filter(|(_, value)| !needs_endpoint(value));
        environment.extend(own.filter_map(|(name, value)| Some((name.clone(), values.fill(value)?))));
        let argv = self.spec.command.iter().filter_map(|word| values.fill(word)).collect();
        let argv = with_files(argv, &mut environment, self.spec, &values, false);
        Spawn {
            argv,
            environment,
            workspace: tree.to_owned(),
            home: home.to_owned(),
            readable: self.spec.readable.clone(),
            resources: LimitSettings::default().resources(),
            ..Spawn::default()
        }
    }
}

fn too_slow(overdue: Overdue) -> String {
    match overdue {
        Overdue::Busy => {
            format!("it did not answer initialize after {} s of processor time", LIMITS.processor.as_secs())
        }
        Overdue::Blocked => format!("it did nothing for {} s", LIMITS.blocked.as_secs()),
        Overdue::Long => format!("it did not answer initialize within {} s", LIMITS.longest.as_secs()),
    }
}

/// The prepared homes of a machine. An agent that starts slowly in a new home is prepared in the background, once for each
/// version while this process runs.
pub(crate) struct PreparedHomes {
    sandbox: Arc<dyn Sandbox>,
    environment: BTreeMap<String, String>,
    data: PathBuf,
    /// The archives that this process has tried to make. The sender of each is dropped when the attempt has ended.
    tried: Mutex<HashMap<PathBuf, watch::Receiver<()>>>,
}

impl PreparedHomes {
    pub(crate) fn new(sandbox: Arc<dyn Sandbox>, environment: BTreeMap<String, String>, data: PathBuf) -> Self {
        Self { sandbox, environment, data, tried: Mutex::default() }
    }

    /// Returns the path of an agent's prepared home, which may not exist.
    pub(crate) fn path(&self, id: &str, spec: &AgentSpec) -> PathBuf {
        let search_path = self.environment.get("PATH").map(String::as_str).unwrap_or_default();
        archive_path(&self.data, id, spec, search_path)
    }

    /// Waits while an agent is being prepared: a job that started it meanwhile would only do the same work.
    pub(crate) async fn ready(&self, archive: &Path) {
        let attempt = self.tried.lock().unwrap_or_else(PoisonError::into_inner).get(archive).cloned();
        if let Some(mut attempt) = attempt {
            while attempt.changed().await.is_ok() {}
        }
    }

    /// Begins to prepare an agent whose start in a new home has taken `took`, if that was slow and the agent was not
    /// prepared.
    pub(crate) fn started(&self, id: &str, spec: &AgentSpec, took: Duration) {
        let archive = self.path(id, spec);
        if took < SLOW.min(Duration::from_secs(spec.initialize_seconds)) || id == DEFAULT_AGENT || archive.exists() {
            return;
        }
        let (ended, attempt) = watch::channel(());
        match self.tried.lock().unwrap_or_else(PoisonError::into_inner).entry(archive) {
            Entry::Occupied(_) => return,
            Entry::Vacant(entry) => drop(entry.insert(attempt)),
        }
        tracing::info!(agent = id, seconds = took.as_secs(), "an agent that starts slowly in a new home is prepared");
        let (sandbox, environment) = (Arc::clone(&self.sandbox), self.environment.clone());
        let (data, id, spec) = (self.data.clone(), id.to_owned(), spec.clone());
        tokio::spawn(async move {
            let root = data.join("spares");
            let (sandbox, limit) = (&*sandbox, prepared_home::PREPARED_BYTES);
            let preparation = AgentPreparation {
                id: &id,
                spec: &spec,
                sandbox,
                environment: &environment,
                root: &root,
                data: &data,
                limit,
            };
            match preparation.prepare().await {
                Ok(HomeSize { files, bytes }) => tracing::info!(agent = id, files, bytes, "an agent is prepared"),
                Err(error) => tracing::warn!(agent = id, %error, "an agent could not be prepared"),
            }
            drop(ended);
        });
    }
}

#[cfg(test)]
mod tests {
    use journeyman_testkit::FakeSandbox;

    use super::*;
    use crate::fixtures::start_plainly;

    /// Prepares an agent that runs `script` before it answers; returns the result and the data directory.
    async fn prepared(script: &str, limit: u64) -> (Result<HomeSize, PreparationError>, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let answer = r#"{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":1,"agentCapabilities":{}}}\n"#;
        let script = format!(
            "{script}\nIFS= read -r line; id=$(printf '%s' \"$line\" | sed -n 's/.*\"id\":\\(\"[^\"]*\"\\|[0-9]*\\).*/\\1/p')\n\
             printf '{answer}' \"$id\""
        );
        let table = serde_json::json!({
            "command": ["/bin/sh", "-c", script],
            "environment": { "KEY": "{model_token}", "MODEL": "{model}" },
            "files": { "settings": "{home}", "endpoint": "{model_url}" },
        });
        let spec: AgentSpec = serde_json::from_value(table).unwrap();
        let environment = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
        let sandbox = FakeSandbox::new().on_spawn(start_plainly);
        let (root, data) = (dir.path().join("spares"), dir.path());
        let environment = &environment;
        let preparation =
            AgentPreparation { id: "a.b", spec: &spec, sandbox: &sandbox, environment, root: &root, data, limit };
        (preparation.prepare().await, dir)
    }

    fn names(dir: &tempfile::TempDir, folder: &str) -> Vec<String> {
        let Ok(all) = std::fs::read_dir(dir.path().join(folder)) else { return Vec::new() };
        all.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[tokio::test]
    async fn an_agent_is_started_without_a_model_and_its_home_is_kept() {
        let script =
            "test -z \"$KEY\" && test \"$MODEL\" = test/scripted && echo runtime > \"$HOME/runtime\" || exit 9";
        let (done, dir) = prepared(script, 1 << 20).await;
        assert_eq!(done.unwrap().files, 2, "the runtime and the file without an endpoint");
        assert!(names(&dir, prepared_home::PREPARED_HOMES)[0].starts_with("a.b."));
        assert_eq!(names(&dir, "spares"), [""; 0], "the workspace is removed");
    }

    #[tokio::test]
    async fn a_home_that_is_too_large_is_not_kept_and_the_limit_is_told() {
        let (done, dir) = prepared("head -c 3000000 /dev/urandom > \"$HOME/runtime\"", 2 << 20).await;
        let error = done.unwrap_err().to_string();
        assert!(error.contains("more than 2 MiB"), "{error}");
        assert_eq!([names(&dir, prepared_home::PREPARED_HOMES), names(&dir, "spares")], [[""; 0], [""; 0]]);
    }

    #[tokio::test]
    async fn an_agent_that_ends_is_told_with_its_last_output() {
        let (done, dir) = prepared("echo broken >&2; exit 4", 1 << 20).await;
        let error = done.unwrap_err().to_string();
        assert!(error.contains("exit code 4") && error.contains("broken"), "{error}");
        assert_eq!(names(&dir, "spares"), [""; 0]);
    }
}
