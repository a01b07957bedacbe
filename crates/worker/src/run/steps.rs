//! The steps of a run with real git, a real agent and a real code host.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use journeyman_core::egress::Allowlist;
use journeyman_core::ids::{JobId, Sha};
use journeyman_core::job::command::{Kept, Published, TurnBegun};
use journeyman_core::job::{Branch, Job, Token};
use journeyman_core::ports::{BlobError, Forge, FreeSpace, Image};
use journeyman_core::project::{CODE_HOST_TOKEN, Project, SandboxSettings, SecretUse, SecretValue};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::agent::{self, Agent, Stage, Turn};
use crate::branch::choose_branch;
use crate::collect::{About, FILE_BYTES, Work, collect};
use crate::disk_limit::{Counted, Disk};
use crate::executor::{Assignment, Collected, Execution, Executor};
use crate::failure::Stopped;
use crate::mirror::Mirror;
use crate::publish::{Outgoing, Pushed, pull_request, push};
use crate::redaction::Redactor;
use crate::room::Room;
use crate::run::gone;
use crate::setup::workspace::Preparation;
use crate::survey::{Survey, survey};
use crate::worker::Host;
use crate::workspace::{Session, Workspace};
use crate::{archive, bundle, phase, recorded};

#[async_trait]
impl Executor for Host {
    async fn enter(&self, job: JobId) -> OwnedMutexGuard<()> {
        self.doors.enter(job).await
    }

    async fn begin<'a>(&'a self, assignment: &'a Assignment) -> Result<Box<dyn Execution + 'a>, Stopped> {
        // First of all: what fails from here on may name a secret.
        let secrets = secrets(self, assignment).await?;
        let forge = self.forges.of(&assignment.project).await?;
        let mirror = self.mirrors.fetch(forge.remote().await?).await?;
        let room = Room {
            sandbox: Arc::clone(&self.walls.sandbox),
            workspace: Workspace::new(&self.data, &assignment.claimed.job, &self.instance),
            readable: vec![mirror.objects()],
            resources: assignment.project.settings.limits.resources(),
            // It was read when it was stored.
            egress: Allowlist::read(&assignment.project.settings.sandbox.egress).unwrap_or_default(),
            image: image(&assignment.project.settings.sandbox),
            space: Arc::clone(&self.space),
        };
        let project = &assignment.project;
        let [setup, agent] =
            [SecretUse::Setup, SecretUse::Agent].map(|used_by| environment(self, project, &room, &secrets, used_by));
        // Whoever comes behind the door next takes it, or it ends.
        let waiting = Mutex::new(self.warm.take(assignment.claimed.job.id));
        let state = Mutex::default();
        let keys = keys(project, &secrets);
        Ok(Box::new(Hands { host: self, assignment, forge, mirror, room, setup, agent, keys, waiting, state }))
    }

    async fn repair(&self, assignment: &Assignment) -> Result<(), Stopped> {
        let forge = self.forges.of(&assignment.project).await?;
        self.mirrors.repair(&forge.remote().await?).await
    }

    fn low_space(&self) -> Option<FreeSpace> {
        self.space.free().filter(|space| !space.is_enough())
    }

    async fn discard(&self, job: JobId) {
        self.discard_workspace(job).await;
    }

    async fn tidy(&self, job: &Job, token: Token) -> Result<(), BlobError> {
        self.remove_old_blobs(job, token).await
    }
}

/// Variables, by name.
type Environment = BTreeMap<String, String>;

type Secrets = BTreeMap<String, SecretValue>;

struct Hands<'a> {
    host: &'a Host,
    assignment: &'a Assignment,
    forge: Arc<dyn Forge>,
    mirror: Mirror,
    room: Room,
    /// What the setup command gets.
    setup: Environment,
    /// What the agent gets.
    agent: Environment,
    /// What calls of models are made with; no program gets it.
    keys: Secrets,
    /// The agent that has waited since the turn before; after the turn the one that is to wait for the next. Whatever
    /// happens to the run, it is killed with this.
    waiting: Mutex<Option<Agent>>,
    state: Mutex<TreeState>,
}

/// What is known of the tree.
#[derive(Default)]
struct TreeState {
    /// How it looked when it held nothing to commit.
    clean: Option<String>,
    /// Whether it may be used for the next turn.
    usable: bool,
}

#[async_trait]
impl Execution for Hands<'_> {
    async fn has_head(&self) -> Result<bool, Stopped> {
        bundle::fetch(&*self.host.blobs, &self.mirror, &self.room.workspace, self.job()).await
    }

    async fn prepare(&self) -> Result<TurnBegun, Stopped> {
        self.host.walls.check(self.job()).await?;
        let begun = choose_branch(self.job(), &self.assignment.project, &self.mirror, &*self.forge).await?;
        let session = Session { blobs: &*self.host.blobs, archive: self.job().archive.as_deref() };
        let workspace = &self.room.workspace;
        let clean = match workspace.can_be_used(&begun, session.archive).await {
            Some(clean) => clean,
            None => {
                // Its files go.
                if let Some(agent) = self.waiting.lock().await.take() {
                    agent.end().await;
                }
                self.preparation().prepare(&begun, &session).await?;
                let (spares, index) = (&self.host.spares, workspace.index());
                let disk_bytes = self.assignment.project.settings.limits.disk_bytes();
                spares.make(&self.mirror, &begun.base, &index, &self.room.sandbox, disk_bytes).await;
                // What a setup command has made is the first turn's to commit.
                if self.assignment.project.settings.setup.is_none() {
                    Some(self.look().await?.fingerprint)
                } else {
                    None
                }
            }
        };
        self.state.lock().await.clean = clean;
        workspace.take().await?;
        Ok(begun)
    }

    async fn published_before(&self, begun: &TurnBegun) -> Result<Option<(Sha, Vec<Sha>)>, Stopped> {
        recorded::published_before(&self.mirror, self.job(), &self.assignment.claimed.message, begun).await
    }

    async fn prompt(&self) -> Result<Turn, Stopped> {
        let waiting = self.waiting.lock().await.take();
        let Self { host, assignment, room, agent: environment, keys, .. } = self;
        let stage = Stage { host, assignment, room, environment, keys };
        let (turn, agent) = agent::turn(&stage, waiting).await?;
        *self.waiting.lock().await = agent;
        Ok(turn)
    }

    async fn collect(&self, job: &Job, begun: &TurnBegun, turn: &Turn) -> Result<Collected, Stopped> {
        let Assignment { project, claimed, signals, .. } = self.assignment;
        let (room, seen) = (&self.room, self.look().await?);
        self.check_disk().await?;
        let mut state = self.state.lock().await;
        let work = if state.clean.as_ref() == Some(&seen.fingerprint) {
            Work { head: begun.head.clone(), commits: Vec::new(), settled: true }
        } else {
            let limits = &project.settings.limits;
            let about = About { job: self.job(), message: &claimed.message, only_committed: turn.is_stopped(), limits };
            let environment = base_environment(self.host, room);
            let work = collect(room, &environment, signals, &self.mirror, begun, &about, &seen).await?;
            // What is not committed is to be found by the next turn, whether that changes something or not.
            state.clean = if turn.is_stopped() { None } else { Some(self.look().await?.fingerprint) };
            work
        };
        state.usable = work.settled;
        let Work { head, commits, .. } = work;
        let archive = archive::key(job.id, job.token);
        room.workspace.save_session(&*self.host.blobs, &archive).await?;
        let bundle = bundle::keep(&*self.host.blobs, &self.mirror, &room.workspace, job, &head).await?;
        let (session, answer) = (Some(turn.session.clone()), turn.answer.clone());
        let kept = Kept { session, archive: Some(archive), bundle, answer };
        Ok(Collected { head, commits, kept })
    }

    async fn release(&self, head: &Sha, archive: &str) {
        let state = self.state.lock().await;
        if state.usable
            && let Err(error) = self.room.workspace.mark(head, archive, state.clean.clone()).await
        {
            tracing::warn!(job = %self.job().id, %error, "a workspace is not used again");
        }
        // Not before all is read: one that waits may be killed for another, and moves no more.
        if let Some(agent) = self.waiting.lock().await.take() {
            self.host.warm.keep(self.job().id, agent);
        }
    }

    async fn push(&self, job: &Job, branch: &Branch, head: &Sha, commits: &[Sha]) -> Result<Pushed, Stopped> {
        let disk_bytes = self.assignment.project.settings.limits.disk_bytes();
        let outgoing = Outgoing { branch, head, commits, disk_bytes };
        push(self.host, &self.mirror, &self.room.workspace, job, &outgoing).await
    }

    async fn pull_request(&self, job: &Job, branch: &Branch) -> Result<Published, Stopped> {
        let Assignment { project, claimed, .. } = self.assignment;
        pull_request(&*self.forge, job, project, &self.mirror, branch, &claimed.message.prompt).await
    }
}

impl Hands<'_> {
    /// The job as it was claimed.
    const fn job(&self) -> &Job {
        &self.assignment.claimed.job
    }

    fn preparation(&self) -> Preparation<'_> {
        let Self { host, assignment, mirror, room, setup, agent, .. } = self;
        let Assignment { project, reporter, signals, .. } = assignment;
        let (spares, gateway, base) = (&host.spares, &*host.gateway, base_environment(host, room));
        Preparation { project, room, mirror, spares, gateway, reporter, signals, base, setup, agent }
    }

    /// Refuses a turn that has left more on the disk than the limit; files that the idle agent has open count too.
    async fn check_disk(&self) -> Result<(), Stopped> {
        let waiting = self.waiting.lock().await;
        let process = waiting.as_ref().map(Agent::process);
        let disk = Disk::of(&self.room, &self.assignment.project.settings.limits);
        let counted = async { Ok::<_, Stopped>(disk.check(process).await) };
        match phase::within(phase::LOOK, "counting the disk usage of the workspace", counted).await? {
            Counted::Bytes(_) => Ok(()),
            Counted::Stopped(stopped) => Err(stopped),
        }
    }

    async fn look(&self) -> Result<Survey, Stopped> {
        let tree = self.room.workspace.tree.clone();
        let large_from = self.assignment.project.settings.limits.file_bytes.unwrap_or(FILE_BYTES);
        let seen = async { tokio::task::spawn_blocking(move || survey(&tree, large_from)).await? };
        phase::within(phase::LOOK, "scanning the workspace", seen).await
    }
}

fn image(settings: &SandboxSettings) -> Option<Image> {
    settings.image.clone().map(|name| Image { name, pull: settings.pull })
}

/// What every program in the workspace gets: little of the machine's.
fn base_environment(host: &Host, room: &Room) -> Environment {
    let mut environment = host.environment.clone();
    if let Some(path) = environment.get_mut("PATH") {
        *path = room.sandbox.search_path(path);
    }
    environment.insert("HOME".to_owned(), room.layout().home.to_string_lossy().into_owned());
    for role in ["AUTHOR", "COMMITTER"] {
        environment.insert(format!("GIT_{role}_NAME"), "Journeyman".to_owned());
        environment.insert(format!("GIT_{role}_EMAIL"), "journeyman@localhost".to_owned());
    }
    environment
}

/// What a program gets beside that: the project's variables, and the secrets that are for it.
fn environment(host: &Host, project: &Project, room: &Room, secrets: &Secrets, used_by: SecretUse) -> Environment {
    let mut environment = base_environment(host, room);
    environment.extend(project.settings.environment.clone());
    let is_given = |name: &String| project.settings.secret_is_for(name, used_by);
    let given = secrets.iter().filter(|(name, _)| name.as_str() != CODE_HOST_TOKEN && is_given(name));
    environment.extend(given.map(|(name, value)| (name.clone(), value.0.clone())));
    environment
}

/// The project's keys for models, by the names of their variables.
fn keys(project: &Project, secrets: &Secrets) -> Secrets {
    let is_key = |name: &String| project.settings.secret_is_for(name, SecretUse::Model);
    secrets.iter().filter(|(name, _)| is_key(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The project's secrets; from here on they are kept out of what is reported.
async fn secrets(host: &Host, assignment: &Assignment) -> Result<Secrets, Stopped> {
    let project = &assignment.project;
    if project.secret_names.is_empty() {
        return Ok(Secrets::new());
    }
    let secrets = host.store.secrets(project.id.clone()).await.map_err(gone)?;
    assignment.reporter.hide(Redactor::new(&secrets));
    Ok(secrets)
}
