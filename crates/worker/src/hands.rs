//! The steps of a run with real git, a real agent and a real code host.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ids::{JobId, Sha};
use journeyman_core::job::command::{Kept, Published, TurnBegun};
use journeyman_core::job::{Branch, Job, Token};
use journeyman_core::ports::{BlobError, Exit, Forge};
use journeyman_core::project::{CODE_HOST_TOKEN, DEFAULT_RUN_SECONDS};
use journeyman_core::run::ReasonCode;
use tokio::sync::OwnedMutexGuard;

use crate::agent::{self, Agent, Stage, Turn};
use crate::branch::choose_branch;
use crate::collect::{About, Inside, collect};
use crate::executor::{Assignment, Collected, Execution, Executor};
use crate::failure::Stopped;
use crate::mirror::Mirror;
use crate::publish::{Pushed, pull_request, push};
use crate::run::gone;
use crate::worker::Host;
use crate::workspace::{Session, Workspace};
use crate::{archive, bundle};

/// How long git may take to settle a workspace.
const SETTLE_TIME: Duration = Duration::from_secs(10);

/// Bytes of a setup command's output that a failure shows.
const SETUP_BYTES: usize = 64 << 10;

#[async_trait]
impl Executor for Host {
    async fn enter(&self, job: JobId) -> OwnedMutexGuard<()> {
        self.doors.enter(job).await
    }

    async fn begin<'a>(&'a self, assignment: &'a Assignment) -> Result<Box<dyn Execution + 'a>, Stopped> {
        let forge = self.forges.of(&assignment.project).await?;
        let mirror = self.mirrors.fetch(forge.remote().await?).await?;
        let workspace = Workspace::new(&self.data, &assignment.claimed.job);
        let environment = environment(self, assignment, &workspace).await?;
        // Whoever comes behind the door next takes it, or it ends.
        let waiting = tokio::sync::Mutex::new(self.warm.take(assignment.claimed.job.id));
        Ok(Box::new(Hands { host: self, assignment, forge, mirror, workspace, environment, waiting }))
    }

    async fn tidy(&self, job: &Job, token: Token) -> Result<(), BlobError> {
        self.remove_old_blobs(job, token).await
    }
}

struct Hands<'a> {
    host: &'a Host,
    assignment: &'a Assignment,
    forge: Arc<dyn Forge>,
    mirror: Mirror,
    workspace: Workspace,
    /// What the setup command and the agent get.
    environment: BTreeMap<String, String>,
    /// The agent that has waited since the turn before; after the turn the one that is to wait for the next. Whatever
    /// happens to the run, it is killed with this.
    waiting: tokio::sync::Mutex<Option<Agent>>,
}

#[async_trait]
impl Execution for Hands<'_> {
    async fn has_head(&self) -> Result<bool, Stopped> {
        bundle::fetch(&*self.host.blobs, &self.mirror, &self.workspace, self.job()).await
    }

    async fn prepare(&self) -> Result<TurnBegun, Stopped> {
        let begun = choose_branch(self.job(), &self.assignment.project, &self.mirror, &*self.forge).await?;
        let session = Session { blobs: &*self.host.blobs, archive: self.job().archive.as_deref() };
        if !self.workspace.can_be_used(&begun, session.archive).await {
            // Its files go.
            if let Some(agent) = self.waiting.lock().await.take() {
                agent.end().await;
            }
            self.workspace.build(&self.mirror, &self.host.spares, &begun, &session).await?;
            self.set_up().await?;
            self.host.spares.make(&self.mirror, &begun.base, &self.workspace.index).await;
        }
        self.workspace.take().await?;
        Ok(begun)
    }

    async fn prompt(&self) -> Result<Turn, Stopped> {
        let waiting = self.waiting.lock().await.take();
        let stage = Stage {
            host: self.host,
            assignment: self.assignment,
            workspace: &self.workspace,
            environment: &self.environment,
        };
        let (turn, agent) = agent::turn(&stage, waiting).await?;
        *self.waiting.lock().await = agent;
        Ok(turn)
    }

    async fn collect(&self, job: &Job, begun: &TurnBegun, turn: &Turn) -> Result<Collected, Stopped> {
        let project = &self.assignment.project;
        let about = About {
            job: self.job(),
            message: &self.assignment.claimed.message,
            only_committed: turn.stopped,
            file_bytes: project.settings.limits.file_bytes,
        };
        let environment = self.without_secrets();
        let (head, commits) = collect(&self.inside(&environment), &self.mirror, begun, &about).await?;
        let archive = archive::key(job.id, job.token);
        self.workspace.save_session(&*self.host.blobs, &archive).await?;
        let bundle = bundle::keep(&*self.host.blobs, &self.mirror, &self.workspace, job, &head).await?;
        let kept = Kept { session: Some(turn.session.clone()), archive: Some(archive), bundle };
        Ok(Collected { head, commits, kept })
    }

    async fn release(&self, head: &Sha, commits: &[Sha], archive: &str) {
        let released = async {
            let environment = self.without_secrets();
            // What the host has committed is not committed yet for the agent.
            if commits.is_empty() || self.inside(&environment).settle(head).await? {
                self.workspace.mark(head, archive).await?;
            }
            Ok::<(), Stopped>(())
        };
        // The run is not over before this is.
        match tokio::time::timeout(SETTLE_TIME, released).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(job = %self.job().id, %error, "a workspace is not used again"),
            Err(_) => tracing::warn!(job = %self.job().id, "git does not end in a workspace; it is not used again"),
        }
        // Not before all is read: one that waits may be killed for another, and moves no more.
        if let Some(agent) = self.waiting.lock().await.take() {
            self.host.warm.keep(self.job().id, agent);
        }
    }

    async fn push(&self, job: &Job, branch: &Branch, head: &Sha, commits: &[Sha]) -> Result<Pushed, Stopped> {
        push(self.host, &self.mirror, &self.workspace, job, branch, head, commits).await
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

    fn inside<'b>(&'b self, environment: &'b BTreeMap<String, String>) -> Inside<'b> {
        let (sandbox, signals) = (&*self.host.sandbox, &self.assignment.signals);
        Inside { sandbox, workspace: &self.workspace, environment, signals }
    }

    /// For git in the tree, which needs no secret of the project.
    fn without_secrets(&self) -> BTreeMap<String, String> {
        let mut environment = self.environment.clone();
        environment.retain(|name, _| !self.assignment.project.secret_names.contains(name));
        environment
    }

    async fn set_up(&self) -> Result<(), Stopped> {
        let (settings, signals) = (&self.assignment.project.settings, &self.assignment.signals);
        let Some(command) = &settings.setup else { return Ok(()) };
        let argv = ["/bin/sh", "-c", command];
        let inside = self.inside(&self.environment);
        let ran = inside.run(&argv, SETUP_BYTES);
        let seconds = settings.limits.run_seconds.unwrap_or(DEFAULT_RUN_SECONDS);
        let (exit, printed) = tokio::select! {
            ran = ran => ran?,
            () = signals.lost.cancelled() => return Err(Stopped::LeaseLost),
            () = signals.shutdown.cancelled() => return Err(Stopped::HandedBack),
            () = tokio::time::sleep(Duration::from_secs(u64::from(seconds))) => {
                return Err(Stopped::failed(ReasonCode::TimedOut, "the setup command took longer than a run may"));
            }
        };
        if exit == Exit::Code(0) {
            return Ok(());
        }
        let printed = String::from_utf8_lossy(&printed.last).replace('\0', "");
        let last: String = printed.chars().skip(printed.chars().count().saturating_sub(2000)).collect();
        let text = format!("the project's setup command failed ({exit:?}); it printed last: {}", last.trim());
        Err(Stopped::failed(ReasonCode::SetupFailed, text))
    }
}

/// What programs in the workspace get: little of the machine's, then the project's.
async fn environment(
    host: &Host,
    assignment: &Assignment,
    workspace: &Workspace,
) -> Result<BTreeMap<String, String>, Stopped> {
    let project = &assignment.project;
    let layout = host.sandbox.layout(&workspace.tree, &workspace.home);
    let mut environment = host.environment.clone();
    environment.insert("HOME".to_owned(), layout.home.to_string_lossy().into_owned());
    for role in ["AUTHOR", "COMMITTER"] {
        environment.insert(format!("GIT_{role}_NAME"), "Journeyman".to_owned());
        environment.insert(format!("GIT_{role}_EMAIL"), "journeyman@localhost".to_owned());
    }
    environment.extend(project.settings.environment.clone());
    if !project.secret_names.is_empty() {
        let secrets = host.store.secrets(project.id.clone()).await.map_err(gone)?;
        let secrets = secrets.into_iter().filter(|(name, _)| name != CODE_HOST_TOKEN);
        environment.extend(secrets.map(|(name, value)| (name, value.0)));
    }
    Ok(environment)
}
