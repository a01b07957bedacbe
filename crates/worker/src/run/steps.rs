//! The steps of a run on a real machine, with git, an agent, and a code host.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use journeyman_core::egress::Allowlist;
use journeyman_core::ids::{JobId, Sha};
use journeyman_core::job::command::Published;
use journeyman_core::job::turn::{TurnArtifacts, TurnBegun};
use journeyman_core::job::{Branch, Job};
use journeyman_core::ports::{Forge, ForgeError, FreeSpace, Image};
use journeyman_core::project::{CODE_HOST_TOKEN, Project, SandboxSettings, SecretUse, SecretValue};
use journeyman_repository::branch::{base_of, choose_branch};
use journeyman_repository::diff_stat::turn_diff;
use journeyman_repository::import::FILE_BYTES;
use journeyman_repository::push::{Outgoing, Push, Pushed};
use journeyman_repository::{Mirror, RepositoryError, bundle, published};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::check_logs::CheckLogs;
use super::port::{Collected, Machine, Steps};
use super::publish::Publishing;
use super::setup::preparation::Preparation;
use crate::claim::assignment::Assignment;
use crate::claim::deadline;
use crate::claim::redaction::Redactor;
use crate::cleanup::discard::discard_workspace;
use crate::commit::{CollectedCommits, CommitContext, collect};
use crate::error::RunError;
use crate::host::Host;
use crate::sandbox::disk_limit::{Counted, Disk};
use crate::sandbox::job_sandbox::JobSandbox;
use crate::turn::agent::Agent;
use crate::turn::context::{Turn, TurnContext};
use crate::turn::turn;
use crate::workspace::scan::{TreeScan, scan};
use crate::workspace::session::Session;
use crate::workspace::{Workspace, home_archive};

#[async_trait]
impl Machine for Host {
    async fn lock_workspace(&self, job: JobId) -> OwnedMutexGuard<()> {
        self.locks.lock(job).await
    }

    async fn begin<'a>(&'a self, assignment: &'a Assignment) -> Result<Box<dyn Steps + 'a>, RunError> {
        // Redaction comes first: the error of any later step may contain a secret.
        let secrets = secrets(self, assignment).await?;
        let project = &assignment.project;
        let forge = self.forges.of(project).await.map_err(not_used)?;
        let mirror = self.mirrors.fetch(forge.remote().await.map_err(not_used)?).await?;
        let sandbox = JobSandbox {
            sandbox: Arc::clone(&self.containment.sandbox),
            workspace: Workspace::new(&self.data, assignment.claimed.job.id, &self.instance),
            readable: vec![mirror.objects()],
            resources: project.settings.limits.resources(),
            // The list was checked when it was stored.
            egress: Allowlist::read(&project.settings.sandbox.egress).unwrap_or_default(),
            image: image(&project.settings.sandbox),
            space: Arc::clone(&self.space),
        };
        let [setup, agent] =
            [SecretUse::Setup, SecretUse::Agent].map(|used_by| environment(self, project, &sandbox, &secrets, used_by));
        let idle = Mutex::new(self.idle_agents.take(assignment.claimed.job.id));
        let (tree, keys) = (Mutex::default(), model_keys(project, &secrets));
        Ok(Box::new(HostSteps { host: self, assignment, forge, mirror, sandbox, setup, agent, keys, idle, tree }))
    }

    async fn repair_mirror(&self, assignment: &Assignment) -> Result<(), RunError> {
        let forge = self.forges.of(&assignment.project).await.map_err(not_used)?;
        Ok(self.mirrors.repair(&forge.remote().await.map_err(not_used)?).await?)
    }

    fn low_space(&self) -> Option<FreeSpace> {
        self.space.free().filter(|space| !space.is_enough())
    }

    async fn discard_workspace(&self, job: JobId) {
        discard_workspace(&self.data, job).await;
    }
}

/// Environment variables by name.
type Environment = BTreeMap<String, String>;

type Secrets = BTreeMap<String, SecretValue>;

struct HostSteps<'a> {
    host: &'a Host,
    assignment: &'a Assignment,
    forge: Arc<dyn Forge>,
    mirror: Mirror,
    sandbox: JobSandbox,
    /// The variables of the setup command.
    setup: Environment,
    /// The variables of the agent.
    agent: Environment,
    /// The project's keys for models. No program gets them.
    keys: Secrets,
    /// Before the turn, the idle agent of the previous turn; after the turn, the agent to keep for the next. It is
    /// killed when the steps are dropped.
    idle: Mutex<Option<Agent>>,
    tree: Mutex<TreeState>,
}

/// The state of the tree.
#[derive(Default)]
struct TreeState {
    /// The fingerprint when there was nothing to commit, if it is known.
    clean: Option<String>,
    /// True if the tree may be reused for the next turn.
    reusable: bool,
}

#[async_trait]
impl Steps for HostSteps<'_> {
    async fn fetch_head(&self) -> Result<bool, RunError> {
        Ok(bundle::fetch(&*self.host.blobs, &self.mirror, &self.sandbox.workspace.scratch, self.job()).await?)
    }

    async fn prepare(&self) -> Result<TurnBegun, RunError> {
        self.host.containment.check(self.job()).await?;
        let begun = choose_branch(self.job(), &self.assignment.project, &self.mirror, &*self.forge).await?;
        let session = Session { blobs: &*self.host.blobs, archive: self.job().archive.as_deref() };
        let workspace = &self.sandbox.workspace;
        let clean = match workspace.can_be_reused(&self.mirror, &begun, session.archive).await {
            Some(clean) => clean,
            None => self.rebuild(&begun, &session).await?,
        };
        self.tree.lock().await.clean = clean;
        workspace.remove_marker().await?;
        Ok(begun)
    }

    async fn published_before(&self, begun: &TurnBegun) -> Result<Option<(Sha, Vec<Sha>)>, RunError> {
        let message = &self.assignment.claimed.message;
        Ok(published::published_before(&self.mirror, self.job(), message, begun).await?)
    }

    async fn prompt(&self) -> Result<Turn, RunError> {
        let idle = self.idle.lock().await.take();
        self.write_logs().await?;
        let Self { host, assignment, sandbox, agent: environment, keys, .. } = self;
        let context = TurnContext {
            store: &*host.store,
            gateway: &*host.gateway,
            agents: &host.agents,
            ids: &*host.ids,
            tap: host.tap.get(),
            keeps_agents: host.idle_agents.keeps_agents(),
            assignment,
            sandbox,
            environment,
            keys,
        };
        let (turn, agent) = turn(&context, idle).await?;
        *self.idle.lock().await = agent;
        Ok(turn)
    }

    async fn collect(&self, job: &Job, begun: &TurnBegun, turn: &Turn) -> Result<Collected, RunError> {
        let scanned = self.scan().await?;
        self.check_disk().await?;
        let mut tree = self.tree.lock().await;
        let collected = if tree.clean.as_ref() == Some(&scanned.fingerprint) {
            CollectedCommits { head: begun.head.clone(), commits: Vec::new(), settled: true }
        } else {
            let collected = self.commit(begun, turn, &scanned).await?;
            // After an interrupted turn, uncommitted changes stay in the tree, and the next turn must find them.
            tree.clean = if turn.is_stopped() { None } else { Some(self.scan().await?.fingerprint) };
            collected
        };
        tree.reusable = collected.settled;
        let CollectedCommits { head, commits, .. } = collected;
        let (blobs, workspace) = (&*self.host.blobs, &self.sandbox.workspace);
        let archive = home_archive::key(job.id, job.token);
        workspace.save_session(blobs, &archive).await?;
        let bundle = bundle::store(blobs, &self.mirror, &workspace.scratch, job, &head).await?;
        let (session, answer) = (Some(turn.session.clone()), turn.answer.clone());
        let diff = turn_diff(&self.mirror, &begun.base, &begun.head, &head).await;
        let artifacts = TurnArtifacts { session, archive: Some(archive), bundle, answer, diff };
        Ok(Collected { head, commits, artifacts })
    }

    async fn keep_workspace(&self, head: &Sha, archive: &str) {
        let tree = self.tree.lock().await;
        if tree.reusable
            && let Err(error) = self.sandbox.workspace.mark(&self.mirror, head, archive, tree.clean.clone()).await
        {
            tracing::warn!(job = %self.job().id, %error, "a workspace cannot be reused: its marker could not be written");
        }
        // Only after everything was read: an idle agent may be killed to make space for another.
        if let Some(agent) = self.idle.lock().await.take() {
            self.host.idle_agents.keep(self.job().id, agent);
        }
    }

    async fn push(&self, job: &Job, branch: &Branch, head: &Sha, commits: &[Sha]) -> Result<Pushed, RunError> {
        let workspace = &self.sandbox.workspace;
        // The credential of the fetch may have expired during the turn.
        let remote = self.forge.remote().await.map_err(not_used)?;
        let push = Push {
            mirrors: &self.host.mirrors,
            mirror: &self.mirror,
            remote: &remote,
            blobs: &*self.host.blobs,
            scratch: &workspace.scratch,
            rebase_tree: &workspace.rebase_tree(),
        };
        let project = &self.assignment.project;
        let disk_bytes = project.settings.limits.disk_bytes();
        let base = &base_of(job, project, &self.mirror);
        let ci_files = project.settings.pull_request.ci_files;
        Ok(push.run(job, &Outgoing { branch, head, commits, disk_bytes, base, ci_files }).await?)
    }

    async fn pull_request(&self, job: &Job, branch: &Branch) -> Result<Published, RunError> {
        let Assignment { project, claimed, .. } = self.assignment;
        let publishing = Publishing {
            forge: &*self.forge,
            store: &*self.host.store,
            clock: self.host.engine.clock(),
            ids: &*self.host.ids,
            project,
            history: &self.mirror,
            message: &claimed.message,
            public_url: &self.host.public_url,
        };
        publishing.pull_request(job, branch).await
    }
}

impl HostSteps<'_> {
    /// Returns the job as it was claimed.
    const fn job(&self) -> &Job {
        &self.assignment.claimed.job
    }

    /// Rebuilds the workspace, and returns the fingerprint of its tree if there is nothing to commit.
    async fn rebuild(&self, begun: &TurnBegun, session: &Session<'_>) -> Result<Option<String>, RunError> {
        // The idle agent's files are about to be removed.
        if let Some(agent) = self.idle.lock().await.take() {
            agent.end().await;
        }
        self.preparation().prepare(begun, session).await?;
        let (prebuilt, index) = (&self.host.prebuilt, self.sandbox.workspace.index());
        let disk_bytes = self.assignment.project.settings.limits.disk_bytes();
        prebuilt.make(&self.mirror, &begun.base, &index, &self.sandbox.sandbox, disk_bytes).await;
        // The first turn commits the files of a setup command.
        if self.assignment.project.settings.setup.is_some() {
            return Ok(None);
        }
        Ok(Some(self.scan().await?.fingerprint))
    }

    /// Gives the logs of failed checks to the agent, if the message asks for their repair.
    async fn write_logs(&self) -> Result<(), RunError> {
        let source = self.assignment.claimed.message.source.as_ref();
        let Some(source) = source.filter(|source| !source.logs.is_empty()) else { return Ok(()) };
        let redactor = self.assignment.reporter.redactor();
        let logs = CheckLogs { forge: &*self.forge, redactor, home: &self.sandbox.workspace.home };
        logs.write(&source.logs).await?;
        self.sandbox.adopt_folders().await
    }

    fn preparation(&self) -> Preparation<'_> {
        let Self { host, assignment, mirror, sandbox, setup, agent, .. } = self;
        let Assignment { project, reporter, signals, .. } = assignment;
        let (prebuilt, gateway, base) = (&host.prebuilt, &*host.gateway, base_environment(host, sandbox));
        Preparation { project, sandbox, mirror, prebuilt, gateway, reporter, signals, base, setup, agent }
    }

    async fn commit(&self, begun: &TurnBegun, turn: &Turn, scanned: &TreeScan) -> Result<CollectedCommits, RunError> {
        let Assignment { project, claimed, signals, .. } = self.assignment;
        let context = CommitContext {
            job: self.job(),
            message: &claimed.message,
            only_committed: turn.is_stopped(),
            limits: &project.settings.limits,
        };
        let environment = base_environment(self.host, &self.sandbox);
        collect(&self.sandbox, &environment, signals, &self.mirror, begun, &context, scanned).await
    }

    /// Fails if the turn has left more on the disk than the limit. Files that the idle agent has open count too.
    async fn check_disk(&self) -> Result<(), RunError> {
        let idle = self.idle.lock().await;
        let process = idle.as_ref().map(Agent::process);
        let disk = Disk::of(&self.sandbox, &self.assignment.project.settings.limits);
        let counted = async { Ok::<_, RunError>(disk.check(process).await) };
        match deadline::within(deadline::SCAN, "counting the disk usage of the workspace", counted).await? {
            Counted::Bytes(_) => Ok(()),
            Counted::Exceeded(error) => Err(error),
        }
    }

    async fn scan(&self) -> Result<TreeScan, RunError> {
        let tree = self.sandbox.workspace.tree.clone();
        let large_from = self.assignment.project.settings.limits.file_bytes.unwrap_or(FILE_BYTES);
        let scanned = async { tokio::task::spawn_blocking(move || scan(&tree, large_from)).await? };
        deadline::within(deadline::SCAN, "scanning the workspace", scanned).await
    }
}

/// Converts an error of the code host before anything was published.
fn not_used(error: ForgeError) -> RunError {
    RepositoryError::from_forge("the repository cannot be used", error).into()
}

fn image(settings: &SandboxSettings) -> Option<Image> {
    settings.image.clone().map(|name| Image { name, pull: settings.pull })
}

/// Returns the variables of every program in the workspace. Few of them come from the machine.
fn base_environment(host: &Host, sandbox: &JobSandbox) -> Environment {
    let mut environment = host.environment.clone();
    if let Some(path) = environment.get_mut("PATH") {
        *path = sandbox.sandbox.search_path(path);
    }
    environment.insert("HOME".to_owned(), sandbox.layout().home.to_string_lossy().into_owned());
    for role in ["AUTHOR", "COMMITTER"] {
        environment.insert(format!("GIT_{role}_NAME"), "Journeyman".to_owned());
        environment.insert(format!("GIT_{role}_EMAIL"), "journeyman@localhost".to_owned());
    }
    environment
}

/// Returns the variables of a program: the base, the project's variables, and the secrets that the program may use.
fn environment(
    host: &Host,
    project: &Project,
    sandbox: &JobSandbox,
    secrets: &Secrets,
    used_by: SecretUse,
) -> Environment {
    let mut environment = base_environment(host, sandbox);
    environment.extend(project.settings.environment.clone());
    let is_given = |name: &String| project.settings.secret_is_for(name, used_by);
    let given = secrets.iter().filter(|(name, _)| name.as_str() != CODE_HOST_TOKEN && is_given(name));
    environment.extend(given.map(|(name, value)| (name.clone(), value.0.clone())));
    environment
}

/// Returns the project's keys for models, by the names of their variables.
fn model_keys(project: &Project, secrets: &Secrets) -> Secrets {
    let is_key = |name: &String| project.settings.secret_is_for(name, SecretUse::Model);
    secrets.iter().filter(|(name, _)| is_key(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns the project's secrets, and redacts them from all later reports.
async fn secrets(host: &Host, assignment: &Assignment) -> Result<Secrets, RunError> {
    let project = &assignment.project;
    if project.secret_names.is_empty() {
        return Ok(Secrets::new());
    }
    let secrets = host.store.secrets(project.id.clone()).await?;
    assignment.reporter.hide(Redactor::new(&secrets));
    Ok(secrets)
}
