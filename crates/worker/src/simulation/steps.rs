//! The steps of a run on a simulated machine, in place of git, the sandbox, the agent and the code host.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::code_host::{HostName, HostRepository, PullState};
use journeyman_core::ids::{JobId, MessageId, Sha};
use journeyman_core::job::command::Published;
use journeyman_core::job::effect::Effect;
use journeyman_core::job::turn::{Ending, TurnArtifacts, TurnBegun};
use journeyman_core::job::{Branch, Job};
use journeyman_core::message::MessageStatus;
use journeyman_core::ports::{
    Checks, CreatedPull, Discussion, EffectError, EffectHandler, Forge, ForgeError, JobStore, Remote,
};
use journeyman_core::pull::{HostPull, NewPull, PullChange};
use journeyman_core::run::ReasonCode;
use journeyman_core::worker::FreeSpace;
use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;

use journeyman_repository::branch::choose_branch;
use journeyman_repository::push::Pushed;
use journeyman_repository::{History, RepositoryError, bundle};

use super::machine::{Disk, MachineProcess, Workspace};
use super::world::{Line, MAIN};
use crate::acp::Update;
use crate::claim::assignment::Assignment;
use crate::cleanup::blobs::is_removable;
use crate::error::RunError;
use crate::run::port::{Collected, Machine, Steps};
use crate::run::publish::Publishing;
use crate::turn::answer::Answer;
use crate::turn::result::Turn;
use crate::turn::transcript;
use crate::workspace::home_archive;
use crate::workspace::lock::WorkspaceLocks;

pub(super) struct SimulatedMachine {
    process: Arc<MachineProcess>,
    locks: WorkspaceLocks,
}

impl SimulatedMachine {
    pub(super) fn new(process: Arc<MachineProcess>) -> Self {
        Self { process, locks: WorkspaceLocks::default() }
    }
}

#[async_trait]
impl Machine for SimulatedMachine {
    async fn lock_workspace(&self, job: JobId) -> OwnedMutexGuard<()> {
        self.locks.lock(job).await
    }

    async fn begin<'a>(&'a self, assignment: &'a Assignment) -> Result<Box<dyn Steps + 'a>, RunError> {
        let heads = fetch(&self.process).await?;
        let steps = SimulatedSteps { process: &self.process, assignment, heads };
        Ok(Box::new(steps))
    }

    async fn repair_mirror(&self, _: &Assignment) -> Result<(), RunError> {
        Err(RunError::may_pass(ReasonCode::Internal, "no mirror is damaged here"))
    }

    fn low_space(&self) -> Option<FreeSpace> {
        None
    }

    async fn discard_workspace(&self, _job: JobId) {}
}

#[async_trait]
impl EffectHandler for SimulatedMachine {
    fn kinds(&self) -> &'static [&'static str] {
        &[Effect::REMOVE_BLOBS, Effect::SET_STATUS]
    }

    async fn carry_out(&self, effect: &Effect) -> Result<(), EffectError> {
        let Effect::RemoveBlobs { job: id, up_to } = effect else {
            self.process.crash_point("before the status of a commit is set").await;
            return Ok(());
        };
        self.process.crash_point("before old blobs are removed").await;
        let job = self.process.world.store.job(*id).await.unwrap();
        let mut blobs = self.process.world.blobs();
        let of_job = format!("/{id}/");
        let stays = |key: &str| !key.contains(&of_job) || !is_removable(job.as_ref(), *up_to, key);
        blobs.sessions.retain(|key, _| stays(key));
        blobs.bundles.retain(|key, _| stays(key));
        Ok(())
    }
}

struct SimulatedSteps<'a> {
    process: &'a MachineProcess,
    assignment: &'a Assignment,
    /// The code host's branches when the run began.
    heads: BTreeMap<String, Sha>,
}

/// Fetches the code host's branches and their commits to the machine, and returns the branches.
async fn fetch(process: &MachineProcess) -> Result<BTreeMap<String, Sha>, RunError> {
    process.crash_point("before a fetch").await;
    if process.world.fails(60) {
        return Err(RunError::may_pass(ReasonCode::RepositoryUnreachable, "the code host does not answer"));
    }
    let host = process.world.host();
    let mut disk = process.disk.lock().unwrap();
    for head in host.branches.values() {
        disk.mirror.extend(host.history(head));
    }
    Ok(host.branches.clone())
}

impl SimulatedSteps<'_> {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.process.disk.lock().unwrap()
    }

    const fn job(&self) -> &Job {
        &self.assignment.claimed.job
    }

    /// Records a missing blob as a violation, unless the run was taken over: the blobs that it needs may then have been
    /// removed.
    async fn missing(&self, what: &str) {
        let (job, token) = (self.job().id, self.assignment.claimed.lease.token);
        if self.process.world.leased(job).await == Some(token) {
            self.process.world.violation(format!("{job}: {what} is missing"));
        }
    }

    async fn session(&self, key: &str) -> Vec<MessageId> {
        let stored = self.process.world.blobs().sessions.get(key).cloned();
        if stored.is_none() {
            self.missing(key).await;
        }
        stored.unwrap_or_default()
    }

    /// Returns the workspace of the job.
    fn workspace(&self) -> Workspace {
        self.disk().workspaces[&self.job().id].clone()
    }

    fn change(&self, change: impl FnOnce(&mut Workspace)) {
        change(self.disk().workspaces.get_mut(&self.job().id).unwrap());
    }

    fn commit(&self, parent: &Sha, lines: Vec<Line>) -> Sha {
        let commit = self.process.world.host().commit(vec![parent.clone()], lines);
        self.disk().mirror.insert(commit.clone());
        commit
    }

    fn store_bundle(&self, job: &Job, head: &Sha) -> Option<String> {
        let branch = job.branch.as_ref()?;
        let key = bundle::key(job.id, job.token, head);
        (branch.pushed.as_ref().unwrap_or(&branch.base) != head).then(|| {
            self.process.world.blobs().bundles.insert(key.clone(), head.clone());
            key
        })
    }

    /// Does the agent's work: writes the lines one by one, and sometimes commits them.
    async fn work(&self) -> Result<(), RunError> {
        let message = &self.assignment.claimed.message;
        let steps: u32 = message.prompt.parse().unwrap();
        let world = &self.process.world;
        for step in 0..steps {
            tokio::time::sleep(world.up_to(Duration::from_secs(20))).await;
            self.process.crash_point("while the agent works").await;
            if world.fails(40) {
                return Err(RunError::may_pass(ReasonCode::AgentExited, "the agent exited"));
            }
            if world.fails(50) {
                return Err(RunError::failed(ReasonCode::AgentRefused, "the agent refused"));
            }
            self.change(|workspace| workspace.tree.push(Line::Work(message.id, step)));
            if world.happens(4) {
                let Workspace { own, tree, .. } = self.workspace();
                let commit = self.commit(&own, tree);
                self.change(|workspace| workspace.own = commit);
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Steps for SimulatedSteps<'_> {
    async fn fetch_head(&self) -> Result<bool, RunError> {
        let Some(branch) = &self.job().branch else { return Ok(false) };
        self.process.crash_point("before a bundle is fetched").await;
        if self.disk().mirror.contains(&branch.head) {
            return Ok(true);
        }
        let Some(key) = &self.job().bundle else { return Ok(false) };
        let stored = self.process.world.blobs().bundles.get(key).cloned();
        let Some(head) = stored else {
            self.missing(key).await;
            return Ok(false);
        };
        let history = self.process.world.host().history(&head);
        self.disk().mirror.extend(history);
        Ok(head == branch.head)
    }

    async fn prepare(&self) -> Result<TurnBegun, RunError> {
        let repository = FetchedRepository { process: self.process, heads: &self.heads };
        let forge = SimulatedForge(self.process);
        let begun = choose_branch(self.job(), &self.assignment.project, &repository, &forge).await?;
        self.process.crash_point("before the workspace is prepared").await;
        let job = self.job();
        let message = self.assignment.claimed.message.id;
        let has_work = self.disk().workspaces.get(&job.id).is_some_and(|workspace| {
            workspace.answered == Some(message) && workspace.head == begun.head && workspace.archive == job.archive
        });
        if has_work {
            self.process.world.violation(format!("{message}: the work of an ended turn is discarded"));
        }
        let is_usable = self.disk().workspaces.get(&job.id).is_some_and(|workspace| {
            workspace.is_marked && workspace.head == begun.head && workspace.archive == job.archive
        });
        if !is_usable {
            self.disk().workspaces.remove(&job.id);
            self.process.crash_point("while the workspace is prepared").await;
            let session = match &job.archive {
                None => Vec::new(),
                Some(key) => self.session(key).await,
            };
            let tree = self.process.world.host().lines(&begun.head).to_vec();
            let (head, own) = (begun.head.clone(), begun.head.clone());
            let archive = job.archive.clone();
            self.disk()
                .workspaces
                .insert(job.id, Workspace { head, is_marked: false, archive, own, tree, session, answered: None });
        }
        self.change(|workspace| (workspace.is_marked, workspace.answered) = (false, None));
        Ok(begun)
    }

    async fn published_before(&self, _: &TurnBegun) -> Result<Option<(Sha, Vec<Sha>)>, RunError> {
        // The simulation does not restore databases.
        Ok(None)
    }

    async fn prompt(&self, _: Option<&str>) -> Result<Turn, RunError> {
        self.process.crash_point("before the agent is prompted").await;
        let message = self.assignment.claimed.message.id;
        self.process.world.prompted(message);
        if self.workspace().session.contains(&message) {
            self.process.world.violation(format!("{message}: the session remembers an attempt that was not finished"));
        }
        let earlier = self.process.world.store.messages(self.job().id).await.unwrap();
        for message in earlier.iter().filter(|message| message.status == MessageStatus::Finished) {
            if !self.workspace().session.contains(&message.id) {
                self.missing(&format!("{} in the session", message.id)).await;
            }
        }
        self.change(|workspace| workspace.session.push(message));
        let (sender, mut updates) = tokio::sync::mpsc::channel(16);
        let over = CancellationToken::new();
        let mut answer = Answer::default();
        let log = transcript::write(&self.assignment.reporter, &mut updates, &over, &mut answer);
        let signals = &self.assignment.signals;
        let conversation = async {
            let _ = sender.send(Update::Message("I begin.".to_owned())).await;
            let worked = tokio::select! {
                biased;
                () = signals.lost.cancelled() => Err(RunError::LeaseLost),
                () = signals.stop.cancelled() => Ok(true),
                () = signals.shutdown.cancelled() => Err(RunError::HandedBack),
                worked = self.work() => worked.map(|()| false),
            };
            over.cancel();
            worked
        };
        let (logged, was_stopped) = tokio::join!(log, conversation);
        let was_stopped = was_stopped?;
        logged?;
        let ending = if was_stopped { Ending::Stopped } else { Ending::Done };
        Ok(Turn { session: "one".to_owned(), ending, answer: None })
    }

    async fn keep_answered(&self, begun: &TurnBegun, turn: &Turn) -> bool {
        self.process.crash_point("before the answer is kept").await;
        if turn.is_stopped() {
            return false;
        }
        let (message, archive) = (self.assignment.claimed.message.id, self.job().archive.clone());
        self.change(|workspace| {
            (workspace.head, workspace.archive) = (begun.head.clone(), archive);
            workspace.answered = Some(message);
        });
        true
    }

    async fn stop_agent(&self, turn: &Turn) -> Result<(), RunError> {
        self.process.crash_point("before the agent is stopped").await;
        let is_kept = self.workspace().answered == Some(self.assignment.claimed.message.id);
        if !turn.is_stopped() && !is_kept {
            self.process.world.violation("the agent is stopped before the end of its turn is kept".to_owned());
        }
        if self.process.world.fails(40) {
            return Err(RunError::may_pass(ReasonCode::SandboxUnavailable, "the processes of the agent did not end"));
        }
        Ok(())
    }

    async fn sync_answered(&self) {}

    async fn resume(&self, begun: &TurnBegun) -> Result<Option<Turn>, RunError> {
        self.process.crash_point("before a kept answer is looked for").await;
        let (message, archive) = (self.assignment.claimed.message.id, &self.job().archive);
        let is_kept = self.disk().workspaces.get(&self.job().id).is_some_and(|workspace| {
            workspace.answered == Some(message) && workspace.head == begun.head && workspace.archive == *archive
        });
        Ok(is_kept.then(|| Turn { session: "one".to_owned(), ending: Ending::Done, answer: None }))
    }

    async fn collect(&self, job: &Job, begun: &TurnBegun, turn: &Turn) -> Result<Collected, RunError> {
        self.process.crash_point("before the turn is collected").await;
        let Workspace { own, tree, session, .. } = self.workspace();
        let differs = self.process.world.host().lines(&own) != tree;
        let head = if differs && !turn.is_stopped() { self.commit(&own, tree) } else { own };
        let commits = between(&self.process.world.host(), &begun.head, &head);
        self.change(|workspace| workspace.own = head.clone());
        let archive = home_archive::key(job.id, job.token);
        if self.process.world.blobs_are_away() {
            return Err(RunError::may_pass(ReasonCode::StorageUnavailable, "the blob store does not answer"));
        }
        self.process.world.blobs().sessions.insert(archive.clone(), session);
        self.process.crash_point("while the turn is collected").await;
        let bundle = self.store_bundle(job, &head);
        self.process.crash_point("after the turn was collected").await;
        let (session, answer) = (Some(turn.session.clone()), turn.answer.clone());
        let artifacts = TurnArtifacts { session, archive: Some(archive), bundle, answer, diff: None };
        Ok(Collected { head, commits, artifacts, refused: None, unfinished: None })
    }

    async fn keep_workspace(&self, head: &Sha, archive: &str) {
        self.process.crash_point("before the workspace is marked").await;
        self.change(|workspace| {
            workspace.head = head.clone();
            workspace.own = head.clone();
            workspace.archive = Some(archive.to_owned());
            (workspace.is_marked, workspace.answered) = (true, None);
        });
    }

    async fn push(&self, job: &Job, branch: &Branch, head: &Sha, commits: &[Sha]) -> Result<Pushed, RunError> {
        self.process.crash_point("before a push").await;
        let world = &self.process.world;
        if !self.disk().mirror.contains(head) {
            world.violation(format!("{}: {head} is pushed from a machine that does not have it", job.id));
        }
        let pushed = world.host().push(&branch.name, head);
        self.process.crash_point("after a push").await;
        if world.fails(40) {
            return Err(RunError::may_pass(ReasonCode::RepositoryUnreachable, "the answer was lost"));
        }
        if pushed {
            return Ok(Pushed::Done);
        }
        let heads = fetch(self.process).await?;
        let theirs = &heads[&branch.name];
        let rebased = {
            let mut host = world.host();
            if host.contains(theirs, head) {
                return Ok(Pushed::Done);
            }
            let own = match commits {
                [] => between(&host, &branch.base, head),
                commits => commits.to_vec(),
            };
            let mut rebased = theirs.clone();
            for commit in own {
                let mut lines = host.lines(&rebased).to_vec();
                lines.extend(host.added(&commit).into_iter().filter(|line| !host.lines(&rebased).contains(line)));
                rebased = host.commit(vec![rebased], lines);
            }
            rebased
        };
        let commits = between(&world.host(), theirs, &rebased);
        self.disk().mirror.extend(commits.iter().cloned());
        let bundle = self.store_bundle(job, &rebased);
        world.log(format!("{} is rebased onto the commits of people", job.id));
        self.process.rare_crash_point("after a rebase").await;
        Ok(Pushed::Rebased { head: rebased, commits, bundle, diff: None })
    }

    async fn pull_request(&self, job: &Job, branch: &Branch) -> Result<Published, RunError> {
        let repository = FetchedRepository { process: self.process, heads: &self.heads };
        let Assignment { project, claimed, .. } = self.assignment;
        let publishing = Publishing {
            forge: &SimulatedForge(self.process),
            store: &*self.process.world.store,
            clock: self.process,
            ids: &*self.process.world,
            project,
            history: &repository,
            message: &claimed.message,
            left_out: &[],
            public_url: "https://journeyman.example",
        };
        publishing.pull_request(job, branch).await
    }
}

/// Returns the commits from `base` to `head`, oldest first.
fn between(host: &super::world::CodeHost, base: &Sha, head: &Sha) -> Vec<Sha> {
    // The names of commits ascend, so the set is sorted by age.
    host.history(head).difference(&host.history(base)).cloned().collect()
}

/// The repository, as the machine has fetched it.
struct FetchedRepository<'a> {
    process: &'a MachineProcess,
    heads: &'a BTreeMap<String, Sha>,
}

#[async_trait]
impl History for FetchedRepository<'_> {
    fn heads(&self) -> &BTreeMap<String, Sha> {
        self.heads
    }

    fn default_branch(&self) -> Option<&str> {
        Some(MAIN)
    }

    fn names_default_branch(&self) -> bool {
        true
    }

    async fn resolve(&self, _: &str) -> Result<Sha, RepositoryError> {
        Ok(self.heads[MAIN].clone())
    }

    async fn has(&self, commit: &Sha) -> bool {
        self.process.disk.lock().unwrap().mirror.contains(commit)
    }

    async fn is_on_remote(&self, commit: &Sha) -> bool {
        let host = self.process.world.host();
        self.heads.values().any(|head| host.contains(head, commit))
    }

    async fn contains(&self, commit: &Sha, ancestor: &Sha) -> bool {
        self.has(commit).await && self.process.world.host().contains(commit, ancestor)
    }

    async fn pull_template(&self, _: &Sha) -> Result<Option<String>, RepositoryError> {
        Ok(None)
    }
}

/// The code host's interface, as the machine reaches it.
struct SimulatedForge<'a>(&'a MachineProcess);

impl SimulatedForge<'_> {
    fn unclear(&self) -> Result<(), ForgeError> {
        if self.0.world.fails(40) { Err(ForgeError::Unclear("the answer was lost".to_owned())) } else { Ok(()) }
    }
}

#[async_trait]
impl Forge for SimulatedForge<'_> {
    fn host(&self) -> HostName {
        HostName("code.example".to_owned())
    }

    async fn remote(&self) -> Result<Remote, ForgeError> {
        Err(ForgeError::Refused("the simulation does not use git".to_owned()))
    }

    async fn repository(&self) -> Result<HostRepository, ForgeError> {
        Ok(HostRepository {
            id: "1".to_owned(),
            path: "acme/shop".to_owned(),
            default_branch: Some(MAIN.to_owned()),
            can_push: Some(true),
            is_archived: false,
            ci_paths: Vec::new(),
        })
    }

    async fn find_pulls(&self, head: &str) -> Result<Vec<HostPull>, ForgeError> {
        self.0.crash_point("before a pull request is looked for").await;
        let found = self.0.world.host().pulls_of(head);
        self.unclear()?;
        Ok(found)
    }

    async fn create_pull(&self, new: &NewPull) -> Result<CreatedPull, ForgeError> {
        self.0.crash_point("before a pull request is opened").await;
        let opened = {
            let mut host = self.0.world.host();
            if host.pulls_of(&new.head).iter().any(|pull| pull.state == PullState::Open) {
                return Ok(CreatedPull::AlreadyExists);
            }
            host.open_pull(&new.head)
        };
        self.0.crash_point("after a pull request was opened").await;
        self.unclear()?;
        Ok(opened.map_or(CreatedPull::NoChanges, CreatedPull::Created))
    }

    async fn pull(&self, number: u64) -> Result<Option<HostPull>, ForgeError> {
        self.0.crash_point("before a pull request is read").await;
        self.unclear()?;
        Ok(self.0.world.host().pull(number))
    }

    async fn update_pull(&self, _: u64, _: &PullChange) -> Result<(), ForgeError> {
        self.0.crash_point("before a pull request is changed").await;
        self.unclear()
    }

    fn discussion(&self) -> Option<&dyn Discussion> {
        None
    }

    fn checks(&self) -> Option<&dyn Checks> {
        None
    }
}
