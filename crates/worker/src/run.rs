//! One run as a straight line.

use std::collections::BTreeMap;

use journeyman_core::engine::Claimed;
use journeyman_core::ids::Sha;
use journeyman_core::job::command::{Kept, Outcome, Published, Report};
use journeyman_core::job::{Job, Progress};
use journeyman_core::message::Message;
use journeyman_core::ports::{Exit, Forge};
use journeyman_core::project::{CODE_HOST_TOKEN, Project};
use journeyman_core::run::{ReasonCode, Usage};

use crate::agent::{self, Stage};
use crate::collect::{About, collect, output};
use crate::failure::Stopped;
use crate::lease::Signals;
use crate::mirror::Mirror;
use crate::publish::{Pushed, pull_request, push};
use crate::worker::Host;
use crate::workspace::{Session, Workspace, choose_branch};
use crate::{archive, bundle};

/// Pushes that are tried while people push to the same branch.
const PUSHES: usize = 5;

/// Bytes of a setup command's output that a failure shows.
const SETUP_BYTES: u64 = 64 << 10;

/// What is over, and what it cost.
pub(crate) struct Done {
    pub(crate) outcome: Outcome,
    pub(crate) usage: Usage,
}

/// Carries out a claimed run up to its outcome, which the caller reports.
pub(crate) async fn carry_out(host: &Host, claimed: &Claimed, signals: &Signals) -> Result<Done, Stopped> {
    let project = host.store.project(claimed.job.project.clone()).await.map_err(gone)?;
    let project = project.ok_or(Stopped::LeaseLost)?;
    let delivery = claimed.job.delivery().ok_or(Stopped::LeaseLost)?.clone();
    let mut earlier = host.store.messages(claimed.job.id).await.map_err(gone)?;
    let own = earlier.iter().position(|message| message.id == delivery.message).ok_or(Stopped::LeaseLost)?;
    let message = earlier.remove(own);
    earlier.retain(|message| message.delivered_at.is_some());
    let forge = host.forges.of(&project).await?;
    let mirror = host.mirrors.fetch(forge.remote().await?).await?;
    let run = Run {
        host,
        claimed,
        project,
        message,
        earlier,
        forge: &*forge,
        signals,
        workspace: Workspace::new(&host.data, &claimed.job),
    };

    // A turn that has ended is not repeated: what it led to is published.
    let fetched = bundle::fetch(&*host.blobs, &mirror, &run.workspace, &claimed.job).await?;
    if let Progress::Publishing { head, commits, stopped: _ } = &delivery.progress
        && fetched
    {
        let (job, head, commits) = (claimed.job.clone(), head.clone(), commits.clone());
        let outcome = run.publish(mirror, job, head, commits).await?;
        return Ok(Done { outcome, usage: Usage::default() });
    }
    run.turn(mirror).await
}

struct Run<'a> {
    host: &'a Host,
    claimed: &'a Claimed,
    project: Project,
    message: Message,
    /// Messages that were delivered before this one.
    earlier: Vec<Message>,
    forge: &'a dyn Forge,
    signals: &'a Signals,
    workspace: Workspace,
}

impl Run<'_> {
    async fn report(&self, report: Report) -> Result<Job, Stopped> {
        Ok(self.host.engine.report(self.claimed.job.id, self.claimed.lease.token, report).await?)
    }

    async fn turn(&self, mirror: Mirror) -> Result<Done, Stopped> {
        let begun = choose_branch(&self.claimed.job, &self.project, &mirror, self.forge).await?;
        let session = Session { blobs: &*self.host.blobs, archive: self.claimed.job.archive.as_deref() };
        let fresh = self.workspace.prepare(&mirror, &begun, self.message.id, &session).await?;
        let environment = self.environment().await?;
        if fresh {
            self.set_up(&environment).await?;
        }
        self.workspace.mark(&begun.head, Some(self.message.id)).await?;
        let job = self.report(Report::TurnBegun(begun.clone())).await?;

        let turn = agent::turn(&Stage {
            host: self.host,
            claimed: self.claimed,
            project: &self.project,
            message: &self.message,
            earlier: &self.earlier,
            workspace: &self.workspace,
            environment: &environment,
            signals: self.signals,
        })
        .await?;

        let about = About {
            job: &self.claimed.job,
            message: &self.message,
            only_committed: turn.stopped,
            file_bytes: self.project.settings.limits.file_bytes,
            environment: without_secrets(&environment, &self.project),
        };
        let (head, commits) = collect(&*self.host.sandbox, &self.workspace, &mirror, &begun, &about).await?;
        let archive = archive::key(job.id, job.token);
        self.workspace.save_session(&*self.host.blobs, &archive).await?;
        let bundle = bundle::keep(&*self.host.blobs, &mirror, &self.workspace, &job, &head).await?;
        let kept = Kept { session: Some(turn.session), archive: Some(archive), bundle };
        let ended = Report::TurnEnded { head: head.clone(), commits: commits.clone(), kept, stopped: turn.stopped };
        let job = self.report(ended).await?;
        self.workspace.mark(&head, None).await?;
        let outcome = self.publish(mirror, job, head, commits).await?;
        Ok(Done { outcome, usage: turn.usage })
    }

    /// Push, then pull request. A run that was taken over after its turn begins here.
    async fn publish(
        &self,
        mirror: Mirror,
        mut job: Job,
        mut head: Sha,
        mut commits: Vec<Sha>,
    ) -> Result<Outcome, Stopped> {
        let unpushed = |job: &Job, head: &Sha| {
            job.branch.as_ref().is_some_and(|branch| *head != branch.base && branch.pushed.as_ref() != Some(head))
        };
        let changed = unpushed(&job, &head);
        for attempt in 0.. {
            let Some(branch) = job.branch.clone().filter(|_| unpushed(&job, &head)) else { break };
            self.still_ours()?;
            match push(&self.host.mirrors, &mirror, &self.workspace, &job, &branch, &head, &commits).await? {
                Pushed::Done => break,
                Pushed::Rebased { .. } if attempt == PUSHES => {
                    let text = "people pushed to the branch again and again; try later";
                    return Err(Stopped::may_pass(ReasonCode::PushRefused, text));
                }
                Pushed::Rebased { head: on_top, commits: moved } => {
                    (head, commits) = (on_top, moved);
                    let bundle = bundle::keep(&*self.host.blobs, &mirror, &self.workspace, &job, &head).await?;
                    let (head, commits) = (head.clone(), commits.clone());
                    let stopped = matches!(
                        job.delivery().map(|delivery| &delivery.progress),
                        Some(Progress::Publishing { stopped: true, .. })
                    );
                    let kept = Kept { bundle, ..Kept::default() };
                    job = self.report(Report::TurnEnded { head, commits, kept, stopped }).await?;
                }
            }
        }
        let Some(branch) = &job.branch else { return Err(Stopped::LeaseLost) };
        if !changed && job.pull.is_none() && branch.pushed.is_none() {
            return Ok(Outcome::Published { pushed: None, pull: Published::Nothing });
        }
        if !changed && job.pull.is_some() {
            return Ok(Outcome::Published { pushed: None, pull: Published::Nothing });
        }
        self.still_ours()?;
        let pull = pull_request(self.forge, &job, &self.project, &mirror, branch, &self.message.prompt).await?;
        Ok(Outcome::Published { pushed: changed.then_some(head), pull })
    }

    /// Asked before each effect that others see: a run that was cancelled or taken over makes none. What slips through
    /// in the moment between is harmless: a push is not forced, and a pull request is looked for first.
    fn still_ours(&self) -> Result<(), Stopped> {
        if self.signals.lost.is_cancelled() { Err(Stopped::LeaseLost) } else { Ok(()) }
    }

    /// What the setup command and the agent get: little of the machine's, then the project's.
    async fn environment(&self) -> Result<BTreeMap<String, String>, Stopped> {
        let layout = self.host.sandbox.layout(&self.workspace.tree, &self.workspace.home);
        let mut environment = self.host.environment.clone();
        environment.insert("HOME".to_owned(), layout.home.to_string_lossy().into_owned());
        for role in ["AUTHOR", "COMMITTER"] {
            environment.insert(format!("GIT_{role}_NAME"), "Journeyman".to_owned());
            environment.insert(format!("GIT_{role}_EMAIL"), "journeyman@localhost".to_owned());
        }
        environment.extend(self.project.settings.environment.clone());
        if !self.project.secret_names.is_empty() {
            let secrets = self.host.store.secrets(self.project.id.clone()).await.map_err(gone)?;
            let secrets = secrets.into_iter().filter(|(name, _)| name != CODE_HOST_TOKEN);
            environment.extend(secrets.map(|(name, value)| (name, value.0)));
        }
        Ok(environment)
    }

    async fn set_up(&self, environment: &BTreeMap<String, String>) -> Result<(), Stopped> {
        let Some(command) = &self.project.settings.setup else { return Ok(()) };
        let argv = ["/bin/sh", "-c", command];
        let ran = output(&*self.host.sandbox, &self.workspace, environment.clone(), &argv, SETUP_BYTES);
        let limit = std::time::Duration::from_secs(u64::from(
            self.project.settings.limits.run_seconds.unwrap_or(journeyman_core::project::DEFAULT_RUN_SECONDS),
        ));
        let (exit, printed) = tokio::select! {
            ran = ran => ran?,
            () = self.signals.lost.cancelled() => return Err(Stopped::LeaseLost),
            () = self.signals.shutdown.cancelled() => return Err(Stopped::HandedBack),
            () = tokio::time::sleep(limit) => {
                return Err(Stopped::failed(ReasonCode::TimedOut, "the setup command took longer than a run may"));
            }
        };
        if exit == Exit::Code(0) {
            return Ok(());
        }
        let printed = String::from_utf8_lossy(&printed).replace('\0', "");
        let last: String = printed.chars().skip(printed.chars().count().saturating_sub(2000)).collect();
        let text = format!("the project's setup command failed ({exit:?}); it printed last: {}", last.trim());
        Err(Stopped::failed(ReasonCode::SetupFailed, text))
    }
}

/// Git in the tree needs no secret of the project.
fn without_secrets(environment: &BTreeMap<String, String>, project: &Project) -> BTreeMap<String, String> {
    let mut environment = environment.clone();
    environment.retain(|name, _| !project.secret_names.contains(name));
    environment
}

fn gone(error: journeyman_core::ports::StoreError) -> Stopped {
    Stopped::may_pass(ReasonCode::Internal, error.to_string())
}
